"""Heartbeat 0-4: a member lives; REBALANCE_IN_PROGRESS asks it to join again."""

from __future__ import annotations

from spark_kafka_sink.broker.handlers.membership import check_coordinator, check_member
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange


def handle(context: RequestContext) -> Answer:
    """Handle the Heartbeat API."""
    request = context.request
    if error := check_coordinator(context):
        return {"error_code": error}
    group = context.cluster.group_coordinator.peek(request.group_id)
    error = check_member(context, group, request.generation_id)
    if not error:
        error = group.heartbeat(request.member_id, context.cluster.clock.monotonic())
    return {"error_code": error}


HANDLER = Handler(api=ApiKey.HEARTBEAT, versions=VersionRange(0, 4), handle=handle)
