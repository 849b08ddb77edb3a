"""Membership, description, deletion and committed offsets of classic consumer groups."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.authorization.authorized_operations import NOT_REQUESTED
from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroupState, JoinRequest
from spark_kafka_sink.broker.coordinator.committed_offsets import CommittedOffset
from spark_kafka_sink.broker.handlers.request_context import HandlerResult, NoFields, RequestContext
from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.broker.requests.shapes import id_of, unknown_topic
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

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
_MAX_METADATA = 4_096
"""Kafka's default for offset.metadata.max.bytes. Despite the name, Kafka counts characters."""
_FETCH_OF_GROUPS = 8
"""First version of OffsetFetch for several groups."""
_CONSUMER = "consumer"
"""The protocol type of consumers, the only groups whose subscriptions can be read."""


def _check_member(context: RequestContext, group: ClassicGroup, generation: int) -> ErrorCode:
    """Return an error if the request's member is not in the current generation of the group.

    If the member is static and a newer member replaced it, the error is FENCED_INSTANCE_ID
    (KIP-345).
    """
    instance_id = context.get("group_instance_id", None)
    return group.check(context.request.member_id, generation, instance_id)


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
        error = _check_member(context, group, generation)
    else:
        error = ErrorCode.none if in_transaction or empty else ErrorCode.unknown_member_id
    completing = group.state is ClassicGroupState.COMPLETING_REBALANCE
    return error or (
        ErrorCode.rebalance_in_progress if completing and not in_transaction else ErrorCode.none
    )


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
    if error := _check_member(context, group, request.generation_id):
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
    error = _check_member(context, group, request.generation_id)
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
            "authorized_operations": NOT_REQUESTED,
        }
    allowed = context.requested_operations(ResourceType.GROUP, group_id)
    if group is None:
        return {"group_state": "Dead", "authorized_operations": allowed}
    stable = group.state is ClassicGroupState.STABLE
    return {
        "group_state": str(group.state),
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol if stable else "",
        "members": [_describe_member(member, group) for member in group.members.values()],
        "authorized_operations": allowed,
    }


def _describe_member(member: GroupMember, group: ClassicGroup) -> FieldValues:
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


def offset_commit(context: RequestContext) -> HandlerResult:
    """Store committed offsets of a group (OffsetCommit 2-10).

    Requests are accepted from members of the current generation, or from any client while the group
    has no members. Topics are identified by id since version 10 (KIP-848). Metadata of more than
    4,096 characters fails with OFFSET_METADATA_TOO_LARGE.
    """
    request = context.request
    error = context.group_coordinator_error() or may_commit(
        context, request.generation_id_or_member_epoch
    )
    groups = context.cluster.group_coordinator
    find = groups.get_or_empty if error else groups.get_or_create
    group = find(request.group_id)
    if not error and request.member_id:
        group.heartbeat(request.member_id, context.cluster.clock.monotonic())

    def commit(item: Any, requested: Any) -> ErrorCode:
        topic = context.find_topic(item)
        index = requested.partition_index
        if error or topic is None:
            return error or unknown_topic(item)
        if topic.partition(index) is None:
            return ErrorCode.unknown_topic_or_partition
        group.offsets[topic.name, index] = committed_offset(context, requested)
        return ErrorCode.none

    return context.handle_each_partition(commit)


def committed_offset(context: RequestContext, requested: Any) -> CommittedOffset:
    """Return the offset from a partition item of OffsetCommit or TxnOffsetCommit.

    Raises:
        ResponseError: the metadata is too large.
    """
    if len(requested.committed_metadata or "") > _MAX_METADATA:
        raise ResponseError(ErrorCode.offset_metadata_too_large)
    return CommittedOffset(
        offset=requested.committed_offset,
        leader_epoch=getattr(requested, "committed_leader_epoch", -1),
        metadata=requested.committed_metadata or "",
        order=context.cluster.group_coordinator.next_order(),
    )


def offset_fetch(context: RequestContext) -> HandlerResult:
    """Return the committed offsets of groups (OffsetFetch 1-10).

    A request contains one group or, since version 8, several groups (KIP-709). Topics are
    identified by id since version 10 (KIP-848). A request for stable offsets (KIP-447, version 7)
    fails with UNSTABLE_OFFSET_COMMIT while an open transaction can change any of these offsets.
    """
    if context.version >= _FETCH_OF_GROUPS:
        return context.handle_each_item(partial(_fetch_group, context))
    return _fetch_group(context, context.request)


def _fetch_group(context: RequestContext, item: Any) -> FieldValues:
    if not context.coordinates(item.group_id):
        return {"error_code": ErrorCode.not_coordinator}
    group = context.cluster.group_coordinator.find(item.group_id)
    return {
        "topics": [
            {
                "name": name,
                "topic_id": topic_id,
                "partitions": [_fetch_offset(context, group, name, index) for index in indexes],
            }
            for name, topic_id, indexes in _requested_offsets(context, group, item.topics)
        ]
    }


def _requested_offsets(
    context: RequestContext, group: ClassicGroup | None, topics: Any
) -> Iterator[tuple[str | None, UUID | None, Iterable[int]]]:
    """Yield the name, id and partition indexes of the requested topics.

    If the request lists no topics, yield all topics with committed offsets that the client may
    describe. The name is None if the topic id is unknown.
    """
    if topics is not None:
        for item in topics:
            yield context.topic_name(item), id_of(item), item.partition_indexes
        return
    committed: dict[str, list[int]] = {}
    for name, index in group.offsets if group else ():
        committed.setdefault(name, []).append(index)
    for name, indexes in committed.items():
        if not context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            continue
        topic = context.cluster.topics.named(name)
        yield name, topic.id if topic else None, indexes


def _fetch_offset(
    context: RequestContext, group: ClassicGroup | None, name: str | None, index: int
) -> FieldValues:
    error = ErrorCode.none
    committed = CommittedOffset()
    pending = context.cluster.transactional_offsets
    if name is None:
        error = ErrorCode.unknown_topic_id
    elif not context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
        error = ErrorCode.topic_authorization_failed
    elif group is not None:
        stable = context.get("require_stable", False)
        if stable and pending.is_unstable(group.id, TopicPartition(name, index)):
            error = ErrorCode.unstable_offset_commit
        else:
            committed = group.offsets.get((name, index), committed)
    return {
        "error_code": error,
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
    }


def offset_delete(context: RequestContext) -> HandlerResult:
    """Delete individual committed offsets of a group (OffsetDelete 0, KIP-496).

    Offsets of topics that a member subscribes to are not deleted; the error is
    GROUP_SUBSCRIBED_TO_TOPIC. Requests for a group with members and a protocol type other than
    "consumer" fail with NON_EMPTY_GROUP.
    """
    if error := context.group_coordinator_error():
        return {"error_code": error}
    group = context.cluster.group_coordinator.find(context.request.group_id)
    if group is None:
        return {"error_code": ErrorCode.group_id_not_found}
    if group.members and group.protocol_type != _CONSUMER:
        return {"error_code": ErrorCode.non_empty_group}

    def delete(item: Any, requested: Any) -> ErrorCode:
        index = requested.partition_index
        context.partition(item.name, index)
        if group.subscribes_to(item.name):
            return ErrorCode.group_subscribed_to_topic
        deleted = group.id, (item.name, index)
        context.cluster.transactional_offsets.forget(lambda *pending: pending == deleted)
        group.offsets.pop((item.name, index), None)
        return ErrorCode.none

    return context.handle_each_partition(delete)
