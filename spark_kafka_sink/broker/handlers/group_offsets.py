"""Committed offsets of consumer groups."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroupState
from spark_kafka_sink.broker.coordinator.committed_offsets import CommittedOffset
from spark_kafka_sink.broker.handlers.consumer_groups import check_member
from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.broker.requests.shapes import id_of, unknown_topic
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

    from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup
    from spark_kafka_sink.broker.handlers.request_context import HandlerResult, RequestContext
    from spark_kafka_sink.kafka.protocol.messages import FieldValues

_MAX_METADATA = 4_096
"""Kafka's default for offset.metadata.max.bytes. Despite the name, Kafka counts characters."""
_FETCH_OF_GROUPS = 8
"""First version of OffsetFetch for several groups."""
_CONSUMER = "consumer"
"""The protocol type of consumers, the only groups whose subscriptions can be read."""


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
    is_empty = group.state is ClassicGroupState.EMPTY
    if generation < 0 and is_empty:
        return ErrorCode.none
    instance_id = context.get("group_instance_id", None)
    if generation >= 0 or context.get("member_id", "") or instance_id is not None:
        error = check_member(context, group, generation)
    else:
        error = ErrorCode.none if in_transaction or is_empty else ErrorCode.unknown_member_id
    is_completing = group.state is ClassicGroupState.COMPLETING_REBALANCE
    return error or (
        ErrorCode.rebalance_in_progress if is_completing and not in_transaction else ErrorCode.none
    )


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
        needs_stable = context.get("require_stable", False)
        if needs_stable and pending.is_unstable(group.id, TopicPartition(name, index)):
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
