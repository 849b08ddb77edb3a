"""LeaveGroup 0-5: members go; several at once, or by instance id, since version 3 (KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.handlers.membership import check_coordinator
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup


def handle(context: RequestContext) -> Answer:
    """Handle the LeaveGroup API."""
    request = context.request
    if error := check_coordinator(context):
        return {"error_code": error}
    group = context.cluster.group_coordinator.peek(request.group_id)
    leaving = request.members if context.version >= 3 else [request]
    answers = [_leave(group, item, context.cluster.clock.monotonic()) for item in leaving]
    if context.version >= 3:
        return {"members": answers}
    return {"error_code": answers[0]["error_code"]}


def _leave(group: ClassicGroup, item: Any, now: float) -> dict[str, Any]:
    instance_id = getattr(item, "group_instance_id", None)
    error = group.leave(item.member_id, instance_id, now)
    return {"member_id": item.member_id, "group_instance_id": instance_id, "error_code": error}


HANDLER = Handler(api=ApiKey.LEAVE_GROUP, versions=VersionRange(0, 5), handle=handle)
