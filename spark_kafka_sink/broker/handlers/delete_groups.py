"""DeleteGroups 0-2: groups without members, and their offsets, go."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange


def handle(context: RequestContext) -> Answer:
    """Handle the DeleteGroups API."""
    return {
        "results": [
            {"group_id": group_id, "error_code": _delete(context, group_id)}
            for group_id in context.request.groups_names
        ]
    }


def _delete(context: RequestContext, group_id: str) -> ErrorCode:
    if context.cluster.coordinator(group_id).id != context.node:
        return ErrorCode.not_coordinator
    group = context.cluster.group_coordinator.find(group_id)
    if group is None:
        return ErrorCode.group_id_not_found
    if group.members:
        return ErrorCode.non_empty_group
    context.cluster.group_coordinator.delete(group_id)
    return ErrorCode.none


HANDLER = Handler(api=ApiKey.DELETE_GROUPS, versions=VersionRange(0, 2), handle=handle)
