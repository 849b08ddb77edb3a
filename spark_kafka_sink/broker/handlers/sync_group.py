"""SyncGroup 0-5: the leader's assignments go out to all members.

Since version 5 a member has to name the protocol that it knows (KIP-559).
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.membership import check_coordinator, check_member
from spark_kafka_sink.broker.handlers.request_context import (
    Answer,
    Handler,
    Outcome,
    RequestContext,
)
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

NAMED_VERSION = 5


def handle(context: RequestContext) -> Answer:
    """Handle the SyncGroup API."""
    request = context.request
    if error := check_coordinator(context):
        return {"error_code": error}
    named = (context.get("protocol_type", None), context.get("protocol_name", None))
    if context.version >= NAMED_VERSION and None in named:
        return {"error_code": ErrorCode.inconsistent_group_protocol}
    group = context.cluster.group_coordinator.peek(request.group_id)
    if error := check_member(context, group, request.generation_id):
        return {"error_code": error}
    if context.version >= NAMED_VERSION and named != (group.protocol_type, group.protocol):
        return {"error_code": ErrorCode.inconsistent_group_protocol}
    assignments = {item.member_id: bytes(item.assignment) for item in request.assignments}
    if error := group.sync(request.member_id, assignments, context.reply):
        return {"error_code": error}
    return Outcome.LATER


HANDLER = Handler(api=ApiKey.SYNC_GROUP, versions=VersionRange(0, 5), handle=handle)
