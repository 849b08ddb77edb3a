"""Heartbeat 0-4: a member lives; REBALANCE_IN_PROGRESS asks it to join again."""

from __future__ import annotations

from spark_kafka_sink.broker.handlers.membership import coordinated, speaks
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange


def handle(call: RequestContext) -> Answer:
    """See the module."""
    request = call.request
    if error := coordinated(call):
        return {"error_code": error}
    group = call.cluster.groups.peek(request.group_id)
    error = speaks(call, group, request.generation_id)
    if not error:
        error = group.heartbeat(request.member_id, call.cluster.clock.monotonic())
    return {"error_code": error}


HANDLER = Handler(api=ApiKey.HEARTBEAT, versions=VersionRange(0, 4), handle=handle)
