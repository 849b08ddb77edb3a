"""Membership, description and deletion of classic consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroupState, JoinRequest
from spark_kafka_sink.broker.handlers.request_context import HandlerResult, NoFields, RequestContext
from spark_kafka_sink.kafka.protocol.acl import NO_OPERATIONS, AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup, GroupMember
    from spark_kafka_sink.kafka.protocol.messages import FieldValues

_JOIN_WITH_KNOWN_ID = 4
"""First version of JoinGroup for which new clients need a member id (KIP-394)."""
_JOIN_WITHOUT_ASSIGNMENT = 9
"""First version of JoinGroup that lets a leader skip the assignment (KIP-814)."""
_SYNC_WITH_PROTOCOL = 5
"""First version of SyncGroup with the group's protocol type and name."""
_LEAVE_OF_MEMBERS = 3
"""First version of LeaveGroup for several members."""
_NO_NEW_PROTOCOL = (
    "This broker does not support the consumer group protocol of KIP-848: set "
    "group.protocol=classic on the consumer."
)
_DESCRIBE_WITH_NOT_FOUND = 6
"""First version of DescribeGroups with GROUP_ID_NOT_FOUND."""
_CLASSIC = "classic"
"""The group_type of groups that use the protocol before KIP-848."""


def check_member(context: RequestContext, group: ClassicGroup, generation: int) -> ErrorCode:
    """Return an error if the request's member is not in the current generation of the group.

    If the member is static and a newer member replaced it, the error is FENCED_INSTANCE_ID
    (KIP-345).
    """
    instance_id = context.get("group_instance_id", None)
    return group.check(context.request.member_id, generation, instance_id)


def join_group(context: RequestContext) -> HandlerResult:
    """Add a member to a group (JoinGroup 0-9).

    The response is sent after all members have rejoined. Since version 4, a new client receives a
    member id before it joins (KIP-394). Static members are supported since version 5 (KIP-345).
    Since version 9, a static member that rejoins as leader can skip the assignment (KIP-814).
    """
    request = context.request
    config = context.cluster.config
    session = request.session_timeout.total_seconds()
    lowest, highest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    error = context.group_coordinator_error()
    if not lowest <= session * 1000 <= highest:
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
        needs_known_id=context.version >= _JOIN_WITH_KNOWN_ID,
        may_skip_assignment=context.version >= _JOIN_WITHOUT_ASSIGNMENT,
    )
    groups = context.cluster.group_coordinator
    find = groups.get_or_empty if request.member_id else groups.get_or_create
    find(request.group_id).join(joining, context.reply, context.cluster.clock.monotonic())
    return NoFields.DELAYED


def sync_group(context: RequestContext) -> HandlerResult:
    """Distribute the leader's assignments to all members (SyncGroup 0-5).

    Since version 5, a member must send the name of the protocol that it expects (KIP-559).
    """
    request = context.request
    if error := context.group_coordinator_error():
        return {"error_code": error}
    expected = (context.get("protocol_type", None), context.get("protocol_name", None))
    if context.version >= _SYNC_WITH_PROTOCOL and None in expected:
        return {"error_code": ErrorCode.inconsistent_group_protocol}
    group = context.cluster.group_coordinator.get_or_empty(request.group_id)
    if error := check_member(context, group, request.generation_id):
        return {"error_code": error}
    if context.version >= _SYNC_WITH_PROTOCOL and expected != (group.protocol_type, group.protocol):
        return {"error_code": ErrorCode.inconsistent_group_protocol}
    assignments = {item.member_id: bytes(item.assignment) for item in request.assignments}
    if error := group.sync(request.member_id, assignments, context.reply):
        return {"error_code": error}
    return NoFields.DELAYED


def heartbeat(context: RequestContext) -> HandlerResult:
    """Extend the session of a member (Heartbeat 0-4)."""
    request = context.request
    if error := context.group_coordinator_error():
        return {"error_code": error}
    group = context.cluster.group_coordinator.get_or_empty(request.group_id)
    error = check_member(context, group, request.generation_id)
    if not error:
        error = group.heartbeat(request.member_id, context.cluster.clock.monotonic())
    return {"error_code": error}


def leave_group(context: RequestContext) -> HandlerResult:
    """Remove members from a group (LeaveGroup 0-5)."""
    request = context.request
    if error := context.group_coordinator_error():
        return {"error_code": error}
    group = context.cluster.group_coordinator.get_or_empty(request.group_id)
    has_members = context.version >= _LEAVE_OF_MEMBERS
    leaving = request.members if has_members else [request]
    members = [_remove_member(group, item, context.cluster.clock.monotonic()) for item in leaving]
    if has_members:
        return {"members": members}
    return {"error_code": members[0]["error_code"]}


def _remove_member(group: ClassicGroup, item: Any, now: float) -> dict[str, Any]:
    instance_id = getattr(item, "group_instance_id", None)
    error = group.leave(item.member_id, instance_id, now)
    return {"member_id": item.member_id, "group_instance_id": instance_id, "error_code": error}


def consumer_group_heartbeat(context: RequestContext) -> HandlerResult:
    """Fail with UNSUPPORTED_VERSION, as in Kafka if group.version is 0 (KIP-848).

    Nevertheless, ApiVersions announces this API (ConsumerGroupHeartbeat 0-1). Otherwise, librdkafka
    would wait forever. With UNSUPPORTED_VERSION, it fails immediately.
    """
    return {
        "error_code": ErrorCode.unsupported_version,
        "error_message": _NO_NEW_PROTOCOL,
        "member_id": context.request.member_id,
    }


def describe_group(context: RequestContext, group_id: str) -> FieldValues | ErrorCode:
    """Return the state and the members of a group (DescribeGroups 0-6)."""
    if not context.coordinates(group_id):
        return ErrorCode.not_coordinator
    group = context.cluster.group_coordinator.find(group_id)
    if group is None and context.version >= _DESCRIBE_WITH_NOT_FOUND:
        return {
            "group_state": "Dead",
            "error_code": ErrorCode.group_id_not_found,
            "error_message": f"Group {group_id} not found.",
            "authorized_operations": NO_OPERATIONS,
        }
    allowed = context.requested_operations(ResourceType.GROUP, group_id)
    if group is None:
        return {"group_state": "Dead", "authorized_operations": allowed}
    is_stable = group.state is ClassicGroupState.STABLE
    return {
        "group_state": str(group.state),
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol if is_stable else "",
        "members": [_describe_member(member, group) for member in group.members.values()],
        "authorized_operations": allowed,
    }


def _describe_member(member: GroupMember, group: ClassicGroup) -> FieldValues:
    """Return a member's description, with the subscription only if the group is stable."""
    is_stable = group.state is ClassicGroupState.STABLE
    return {
        "member_id": member.id,
        "group_instance_id": member.joined.instance_id,
        "client_id": member.joined.client_id,
        "client_host": member.joined.client_host,
        "member_metadata": member.joined.protocols[group.protocol] if is_stable else b"",
        "member_assignment": member.assignment,
    }


def list_groups(context: RequestContext) -> HandlerResult:
    """Return the groups that the receiving node coordinates (ListGroups 0-5)."""
    states = {state.lower() for state in context.get("states_filter", ())}
    types = {kind.lower() for kind in context.get("types_filter", ())}
    return {
        "groups": [
            {
                "group_id": group.id,
                "protocol_type": group.protocol_type,
                "group_state": str(group.state),
                "group_type": _CLASSIC,
            }
            for group in context.cluster.group_coordinator.all()
            if context.coordinates(group.id)
            and context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group.id)
            and (not states or group.state.lower() in states)
            and (not types or _CLASSIC in types)
        ]
    }


def delete_group(context: RequestContext, group_id: str) -> ErrorCode:
    """Delete a group without members (DeleteGroups 0-2)."""
    if not context.coordinates(group_id):
        return ErrorCode.not_coordinator
    group = context.cluster.group_coordinator.find(group_id)
    if group is None:
        return ErrorCode.group_id_not_found
    if group.members:
        return ErrorCode.non_empty_group
    context.cluster.transactional_offsets.forget(lambda group, _: group == group_id)
    context.cluster.group_coordinator.delete(group_id)
    return ErrorCode.none
