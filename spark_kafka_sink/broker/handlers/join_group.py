"""JoinGroup 0-9: classic consumer groups.

The member id is given first since version 4 (KIP-394); static members since version 5 (KIP-345),
and a leader among them that comes back may skip its assignment since version 9 (KIP-814). The
answer waits until all members have joined again.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.group_member import JoinRequest
from spark_kafka_sink.broker.handlers.membership import check_coordinator
from spark_kafka_sink.broker.handlers.request_context import (
    Answer,
    Handler,
    Outcome,
    RequestContext,
)
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

KNOWN_ID_VERSION = 4
SKIPPING_VERSION = 9


def handle(context: RequestContext) -> Answer:
    """Handle the JoinGroup API."""
    request = context.request
    config = context.cluster.config
    session = request.session_timeout.total_seconds()
    error = check_coordinator(context)
    if (
        not config.group_min_session_timeout_ms
        <= session * 1000
        <= (config.group_max_session_timeout_ms)
    ):
        error = error or ErrorCode.invalid_session_timeout
    if error:
        return {"error_code": error, "generation_id": -1, "member_id": request.member_id}
    joining = JoinRequest(
        member_id=request.member_id,
        instance_id=context.get("group_instance_id", None),
        client_id=context.client_id,
        client_host=context.client_host,
        session_timeout=session,
        rebalance_timeout=context.get("rebalance_timeout", request.session_timeout).total_seconds(),
        protocol_type=request.protocol_type,
        protocols={protocol.name: bytes(protocol.metadata) for protocol in request.protocols},
        needs_known_id=context.version >= KNOWN_ID_VERSION,
        may_skip_assignment=context.version >= SKIPPING_VERSION,
    )
    groups = context.cluster.group_coordinator
    group = (
        groups.peek(request.group_id)
        if request.member_id
        else groups.get_or_create(request.group_id)
    )
    group.join(joining, context.reply, context.cluster.clock.monotonic())
    return Outcome.LATER


HANDLER = Handler(api=ApiKey.JOIN_GROUP, versions=VersionRange(0, 9), handle=handle)
