"""Membership, description and deletion of classic consumer groups.

JoinGroup 0-9: the response is sent after all members have rejoined. Since version 4, a new client
receives a member id before it joins (KIP-394). Static members are supported since version 5
(KIP-345). Since version 9, a static member that rejoins as leader can skip the assignment
(KIP-814).

SyncGroup 0-5: distributes the leader's assignments to all members. Since version 5, a member must
send the name of the protocol that it expects (KIP-559).

Heartbeat 0-4, LeaveGroup 0-5, DescribeGroups 0-6, ListGroups 0-5, DeleteGroups 0-2.

ConsumerGroupHeartbeat 0-1 fails with UNSUPPORTED_VERSION, as in Kafka if the feature group.version
is 0 (KIP-848). Nevertheless, ApiVersions announces this API. Otherwise, librdkafka would wait
forever. With UNSUPPORTED_VERSION, it fails immediately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroupState, JoinRequest
from spark_kafka_sink.broker.handlers.metadata import NOT_REQUESTED, of_group
from spark_kafka_sink.broker.handlers.request_context import Answer, Outcome, RequestContext

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup, GroupMember
    from spark_kafka_sink.protocol.messages import Values


def check_coordinator(context: RequestContext) -> ErrorCode:
    """Return an error if the node that received the request does not coordinate the group."""
    group_id = context.request.group_id
    if not group_id:
        return ErrorCode.invalid_group_id
    return ErrorCode.none if context.coordinates(group_id) else ErrorCode.not_coordinator


def check_member(context: RequestContext, group: ClassicGroup, generation: int) -> ErrorCode:
    """Return an error if the request's member is not in the current generation of the group.

    If the member is static and a newer member replaced it, the error is FENCED_INSTANCE_ID
    (KIP-345).
    """
    return group.check(
        context.request.member_id, generation, context.get("group_instance_id", None)
    )


def may_commit(
    context: RequestContext, generation: int, *, in_transaction: bool = False
) -> ErrorCode:
    """Return an error if the client may not commit offsets.

    If the group has members, only members may commit. As in Kafka's
    OffsetMetadataManager.validateOffsetCommit, transactional requests are not rejected during a
    rebalance. Transactional requests without a member id (in older versions) are not checked.
    """
    group = context.cluster.group_coordinator.find(context.request.group_id)
    if group is None:
        return ErrorCode.none if generation < 0 else ErrorCode.illegal_generation
    empty = group.state is ClassicGroupState.EMPTY
    if generation < 0 and empty:
        return ErrorCode.none
    instance_id = context.get("group_instance_id", None)
    if generation >= 0 or context.get("member_id", "") or instance_id is not None:
        error = check_member(context, group, generation)
    else:
        error = ErrorCode.none if in_transaction or empty else ErrorCode.unknown_member_id
    completing = group.state is ClassicGroupState.COMPLETING_REBALANCE
    return error or (
        ErrorCode.rebalance_in_progress if completing and not in_transaction else ErrorCode.none
    )


def join_group(context: RequestContext) -> Answer:
    """Handle the JoinGroup API."""
    request = context.request
    config, session = context.cluster.config, request.session_timeout.total_seconds()
    lowest, highest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    error = check_coordinator(context)
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
        needs_known_id=context.version >= 4,
        may_skip_assignment=context.version >= 9,
    )
    groups = context.cluster.group_coordinator
    find = groups.get_or_empty if request.member_id else groups.get_or_create
    find(request.group_id).join(joining, context.reply, context.cluster.clock.monotonic())
    return Outcome.DELAYED


NAMED_VERSION = 5


def sync_group(context: RequestContext) -> Answer:
    """Handle the SyncGroup API."""
    request = context.request
    if error := check_coordinator(context):
        return {"error_code": error}
    expected = (context.get("protocol_type", None), context.get("protocol_name", None))
    if context.version >= NAMED_VERSION and None in expected:
        return {"error_code": ErrorCode.inconsistent_group_protocol}
    group = context.cluster.group_coordinator.get_or_empty(request.group_id)
    if error := check_member(context, group, request.generation_id):
        return {"error_code": error}
    if context.version >= NAMED_VERSION and expected != (group.protocol_type, group.protocol):
        return {"error_code": ErrorCode.inconsistent_group_protocol}
    assignments = {item.member_id: bytes(item.assignment) for item in request.assignments}
    if error := group.sync(request.member_id, assignments, context.reply):
        return {"error_code": error}
    return Outcome.DELAYED


def heartbeat(context: RequestContext) -> Answer:
    """Handle the Heartbeat API."""
    request = context.request
    if error := check_coordinator(context):
        return {"error_code": error}
    group = context.cluster.group_coordinator.get_or_empty(request.group_id)
    error = check_member(context, group, request.generation_id)
    if not error:
        error = group.heartbeat(request.member_id, context.cluster.clock.monotonic())
    return {"error_code": error}


def leave_group(context: RequestContext) -> Answer:
    """Handle the LeaveGroup API."""
    request = context.request
    if error := check_coordinator(context):
        return {"error_code": error}
    group = context.cluster.group_coordinator.get_or_empty(request.group_id)
    leaving = request.members if context.version >= 3 else [request]
    answers = [_leave(group, item, context.cluster.clock.monotonic()) for item in leaving]
    if context.version >= 3:
        return {"members": answers}
    return {"error_code": answers[0]["error_code"]}


def _leave(group: ClassicGroup, item: Any, now: float) -> dict[str, Any]:
    instance_id = getattr(item, "group_instance_id", None)
    error = group.leave(item.member_id, instance_id, now)
    return {"member_id": item.member_id, "group_instance_id": instance_id, "error_code": error}


NO_NEW_PROTOCOL = (
    "This broker does not support the consumer group protocol of KIP-848: set "
    "group.protocol=classic on the consumer."
)


def consumer_group_heartbeat(context: RequestContext) -> Answer:
    """Handle the ConsumerGroupHeartbeat API."""
    return {
        "error_code": ErrorCode.unsupported_version,
        "error_message": NO_NEW_PROTOCOL,
        "member_id": context.request.member_id,
    }


NOT_FOUND_VERSION = 6


def describe_group(context: RequestContext, group_id: str) -> Values | ErrorCode:
    """Handle a group of the DescribeGroups API."""
    if not context.coordinates(group_id):
        return ErrorCode.not_coordinator
    group = context.cluster.group_coordinator.find(group_id)
    if group is None and context.version >= NOT_FOUND_VERSION:
        return {
            "group_state": "Dead",
            "error_code": ErrorCode.group_id_not_found,
            "error_message": f"Group {group_id} not found.",
            "authorized_operations": NOT_REQUESTED,
        }
    if group is None:
        return {"group_state": "Dead", "authorized_operations": of_group(context, group_id)}
    stable = group.state is ClassicGroupState.STABLE
    return {
        "group_state": str(group.state),
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol if stable else "",
        "members": [_member(member, group) for member in group.members.values()],
        "authorized_operations": of_group(context, group_id),
    }


def _member(member: GroupMember, group: ClassicGroup) -> Values:
    """Return a member's description, with the subscription only if the group is stable."""
    stable = group.state is ClassicGroupState.STABLE
    return {
        "member_id": member.id,
        "group_instance_id": member.joined.instance_id,
        "client_id": member.joined.client_id,
        "client_host": member.joined.client_host,
        "member_metadata": member.joined.protocols[group.protocol] if stable else b"",
        "member_assignment": member.assignment,
    }


CLASSIC = "classic"


def list_groups(context: RequestContext) -> Answer:
    """Handle the ListGroups API."""
    states = {state.lower() for state in context.get("states_filter", ())}
    types = {kind.lower() for kind in context.get("types_filter", ())}
    return {
        "groups": [
            {
                "group_id": group.id,
                "protocol_type": group.protocol_type,
                "group_state": str(group.state),
                "group_type": CLASSIC,
            }
            for group in context.cluster.group_coordinator.all()
            if context.coordinates(group.id)
            and (not states or group.state.lower() in states)
            and (not types or CLASSIC in types)
        ]
    }


def delete_group(context: RequestContext, group_id: str) -> ErrorCode:
    """Handle a group of the DeleteGroups API."""
    if not context.coordinates(group_id):
        return ErrorCode.not_coordinator
    group = context.cluster.group_coordinator.find(group_id)
    if group is None:
        return ErrorCode.group_id_not_found
    if group.members:
        return ErrorCode.non_empty_group
    context.cluster.transactional_offsets.forget(lambda one, _: one == group_id)
    context.cluster.group_coordinator.delete(group_id)
    return ErrorCode.none
