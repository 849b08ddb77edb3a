"""DescribeGroups 0-6: state and members of groups; unknown ones are Dead (KIP-1043 since 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroupState
from spark_kafka_sink.broker.handlers.authorized_operations import NOT_ASKED, of_group
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup
    from spark_kafka_sink.broker.coordinator.group_member import GroupMember
    from spark_kafka_sink.protocol.message_builder import Values

NOT_FOUND_VERSION = 6


def handle(context: RequestContext) -> Answer:
    """Handle the DescribeGroups API."""
    return {"groups": [_describe(context, group_id) for group_id in context.request.groups]}


def _describe(context: RequestContext, group_id: str) -> Values:
    if context.cluster.coordinator(group_id).id != context.node:
        return {"group_id": group_id, "error_code": ErrorCode.not_coordinator}
    group = context.cluster.group_coordinator.find(group_id)
    if group is None:
        known = context.version < NOT_FOUND_VERSION
        error = ErrorCode.none if known else ErrorCode.group_id_not_found
        return {
            "group_id": group_id,
            "group_state": "Dead",
            "error_code": error,
            "error_message": None if known else f"Group {group_id} not found.",
            "authorized_operations": of_group(context, group_id) if known else NOT_ASKED,
        }
    stable = group.state is ClassicGroupState.STABLE
    return {
        "group_id": group_id,
        "group_state": str(group.state),
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol if stable else "",
        "members": [_member(member, group) for member in group.members.values()],
        "authorized_operations": of_group(context, group_id),
    }


def _member(member: GroupMember, group: ClassicGroup) -> Values:
    """What a member subscribes to is told while the group is stable."""
    stable = group.state is ClassicGroupState.STABLE
    return {
        "member_id": member.id,
        "group_instance_id": member.joined.instance_id,
        "client_id": member.joined.client_id,
        "client_host": member.joined.client_host,
        "member_metadata": member.joined.protocols[group.protocol] if stable else b"",
        "member_assignment": member.assignment,
    }


HANDLER = Handler(api=ApiKey.DESCRIBE_GROUPS, versions=VersionRange(0, 6), handle=handle)
