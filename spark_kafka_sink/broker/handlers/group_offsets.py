"""OffsetCommit, OffsetFetch and OffsetDelete.

OffsetCommit 2-10: accepted from members of the current generation, or from any client while the
group has no members. Topics are identified by id since version 10 (KIP-848). Metadata of more than
4,096 characters fails with OFFSET_METADATA_TOO_LARGE.

OffsetFetch 1-10: the committed offsets of one group or, since version 8, of several groups
(KIP-709). Topics are identified by id since version 10 (KIP-848). A request for stable offsets
(KIP-447, version 7) fails with UNSTABLE_OFFSET_COMMIT while an open transaction can change any of
these offsets.

OffsetDelete 0 (KIP-496): delete individual committed offsets of a group. Offsets of topics that a
member subscribes to are not deleted; the error is GROUP_SUBSCRIBED_TO_TOPIC. Requests for a group
with members and a protocol type other than "consumer" fail with NON_EMPTY_GROUP.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup, CommittedOffset
from spark_kafka_sink.broker.handlers.consumer_groups import check_coordinator, may_commit
from spark_kafka_sink.broker.request_shapes import id_of, name_of, unknown_topic
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

    from spark_kafka_sink.broker.handlers.request_context import Answer, RequestContext
    from spark_kafka_sink.protocol.messages import Values


MAX_METADATA = 4_096
"""Kafka's default for offset.metadata.max.bytes. Despite the name, Kafka counts characters."""


def offset_commit(context: RequestContext) -> Answer:
    """Handle the OffsetCommit API."""
    request = context.request
    error = check_coordinator(context) or may_commit(context, request.generation_id_or_member_epoch)
    groups = context.cluster.group_coordinator
    group = (
        groups.get_or_empty(request.group_id) if error else groups.get_or_create(request.group_id)
    )
    if not error and request.member_id:
        group.heartbeat(request.member_id, context.cluster.clock.monotonic())

    def commit(item: Any, requested: Any) -> ErrorCode:
        topic, index = context.find_topic(item), requested.partition_index
        if error or topic is None:
            return error or unknown_topic(item)
        if topic.partition(index) is None:
            return ErrorCode.unknown_topic_or_partition
        if len(requested.committed_metadata or "") > MAX_METADATA:
            return ErrorCode.offset_metadata_too_large
        group.offsets[topic.name, index] = committed_offset(context, requested)
        return ErrorCode.none

    return context.by_partition(ApiKey.OFFSET_COMMIT, commit)


def committed_offset(context: RequestContext, requested: Any) -> CommittedOffset:
    """Return the offset from a partition item of OffsetCommit or TxnOffsetCommit."""
    return CommittedOffset(
        offset=requested.committed_offset,
        leader_epoch=getattr(requested, "committed_leader_epoch", -1),
        metadata=requested.committed_metadata or "",
        order=context.cluster.group_coordinator.next_order(),
    )


GROUPS_VERSION = 8


def offset_fetch(context: RequestContext) -> Answer:
    """Handle the OffsetFetch API."""
    if context.version >= GROUPS_VERSION:
        return context.by_item(ApiKey.OFFSET_FETCH, partial(_fetch_group, context))
    return _fetch_group(context, context.request)


def _fetch_group(context: RequestContext, item: Any) -> Values:
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
            for name, topic_id, indexes in _requested(context, group, item.topics)
        ]
    }


def _requested(
    context: RequestContext, group: ClassicGroup | None, topics: Any
) -> Iterator[tuple[str | None, UUID | None, Iterable[int]]]:
    """Yield the name, id and partition indexes of the requested topics.

    If the request lists no topics, yield all topics with committed offsets. The name is None if the
    topic id is unknown.
    """
    if topics is not None:
        for item in topics:
            topic = context.find_topic(item)
            yield topic.name if topic else name_of(item), id_of(item), item.partition_indexes
        return
    committed: dict[str, list[int]] = {}
    for name, index in group.offsets if group else ():
        committed.setdefault(name, []).append(index)
    for name, indexes in committed.items():
        topic = context.cluster.topics.named(name)
        yield name, topic.id if topic else None, indexes


def _fetch_offset(
    context: RequestContext, group: ClassicGroup | None, name: str | None, index: int
) -> Values:
    error, found = ErrorCode.none, CommittedOffset()
    pending = context.cluster.transactional_offsets
    if name is None:
        error = ErrorCode.unknown_topic_id
    elif group is not None:
        stable = context.get("require_stable", False)
        if stable and pending.is_unstable(group.id, (name, index)):
            error = ErrorCode.unstable_offset_commit
        else:
            found = group.offsets.get((name, index), found)
    return {
        "error_code": error,
        "partition_index": index,
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
    }


CONSUMER = "consumer"


def offset_delete(context: RequestContext) -> Answer:
    """Handle the OffsetDelete API."""
    if error := check_coordinator(context):
        return {"error_code": error}
    group = context.cluster.group_coordinator.find(context.request.group_id)
    if group is None:
        return {"error_code": ErrorCode.group_id_not_found}
    if group.members and group.protocol_type != CONSUMER:
        return {"error_code": ErrorCode.non_empty_group}

    def delete(item: Any, requested: Any) -> ErrorCode:
        index = requested.partition_index
        if context.cluster.topics.partition(item.name, index) is None:
            return ErrorCode.unknown_topic_or_partition
        if group.subscribes_to(item.name):
            return ErrorCode.group_subscribed_to_topic
        deleted = group.id, (item.name, index)
        context.cluster.transactional_offsets.forget(lambda *pending: pending == deleted)
        group.offsets.pop((item.name, index), None)
        return ErrorCode.none

    return context.by_partition(ApiKey.OFFSET_DELETE, delete)
