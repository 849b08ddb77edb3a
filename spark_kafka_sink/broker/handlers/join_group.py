"""JoinGroup 0-9: classic consumer groups.

The member id is given first since version 4 (KIP-394); static members since version 5 (KIP-345).
The answer waits until all members have joined again.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.call import Answer, Call, Handler, Outcome
from spark_kafka_sink.broker.handlers.membership import coordinated
from spark_kafka_sink.broker.members import Joining
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

MIN_SESSION_SECONDS = 1.0
MAX_SESSION_SECONDS = 1800.0
KNOWN_ID_VERSION = 4


def handle(call: Call) -> Answer:
    """See the module."""
    request = call.request
    error = coordinated(call)
    session = request.session_timeout.total_seconds()
    if not error and not MIN_SESSION_SECONDS <= session <= MAX_SESSION_SECONDS:
        error = ErrorCode.invalid_session_timeout
    if error:
        return {"error_code": error, "generation_id": -1, "member_id": request.member_id}
    joining = Joining(
        member_id=request.member_id,
        instance_id=call.get("group_instance_id", None),
        client_id=call.client_id,
        client_host=call.client_host,
        session_timeout=session,
        rebalance_timeout=call.get("rebalance_timeout", request.session_timeout).total_seconds(),
        protocol_type=request.protocol_type,
        protocols={protocol.name: bytes(protocol.metadata) for protocol in request.protocols},
        needs_known_id=call.version >= KNOWN_ID_VERSION,
    )
    group = call.cluster.groups.get(request.group_id)
    group.join(joining, call.reply, call.cluster.clock.monotonic())
    return Outcome.LATER


HANDLER = Handler(api=ApiKey.JOIN_GROUP, versions=VersionRange(0, 9), handle=handle)
