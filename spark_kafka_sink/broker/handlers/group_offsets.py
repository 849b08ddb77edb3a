"""OffsetCommit, OffsetFetch and OffsetDelete.

OffsetCommit 2-10: accepted from members of the current generation, or from anyone while the group
has no members. Topics are identified by id since version 10 (KIP-848). Metadata of more than 4,096
characters fails with OFFSET_METADATA_TOO_LARGE.

OffsetFetch 1-10: the committed offsets of a group; of several groups since version 8 (KIP-709).
Topics are identified by id since version 10 (KIP-848). A request for stable offsets (KIP-447,
version 7) fails with UNSTABLE_OFFSET_COMMIT while an open transaction may change one of them.

OffsetDelete 0 (KIP-496): deletes single committed offsets of a group. Offsets of a topic that a
member subscribes to are kept, with GROUP_SUBSCRIBED_TO_TOPIC. A group with members whose protocol
type is not "consumer" fails with NON_EMPTY_GROUP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.classic_group import CommittedOffset
from spark_kafka_sink.broker.handlers.consumer_groups import check_coordinator, may_commit
from spark_kafka_sink.broker.handlers.request_context import (
    Answer,
    Handler,
    RequestContext,
    id_of,
    missing,
    name_of,
    topic_of,
)
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from uuid import UUID

    from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup
    from spark_kafka_sink.protocol.messages import Values


MAX_METADATA = 4_096
"""Kafka's offset.metadata.max.bytes, which counts characters in Kafka as well."""


def offset_commit(context: RequestContext) -> Answer:
    """Handle the OffsetCommit API."""
    request = context.request
    generation = request.generation_id_or_member_epoch
    error = check_coordinator(context) or may_commit(context, generation)
    groups = context.cluster.group_coordinator
    group = groups.peek(request.group_id) if error else groups.get_or_create(request.group_id)
    if not error and request.member_id:
        group.heartbeat(request.member_id, context.cluster.clock.monotonic())
    return {
        "topics": [
            {
                "name": name_of(item),
                "topic_id": id_of(item),
                "partitions": [_commit(context, group, item, p, error) for p in item.partitions],
            }
            for item in request.topics
        ]
    }


def _commit(
    context: RequestContext, group: ClassicGroup, item: Any, asked: Any, error: ErrorCode
) -> Values:
    topic = topic_of(context, item)
    if topic is None:
        error = error or missing(item)
    elif topic.partition(asked.partition_index) is None:
        error = error or ErrorCode.unknown_topic_or_partition
    elif len(asked.committed_metadata or "") > MAX_METADATA:
        error = error or ErrorCode.offset_metadata_too_large
    elif not error:
        group.offsets[topic.name, asked.partition_index] = CommittedOffset(
            offset=asked.committed_offset,
            leader_epoch=getattr(asked, "committed_leader_epoch", -1),
            metadata=asked.committed_metadata or "",
        )
    return {"partition_index": asked.partition_index, "error_code": error}


OFFSET_COMMIT = Handler(
    api=ApiKey.OFFSET_COMMIT, versions=VersionRange(2, 10), handle=offset_commit
)


GROUPS_VERSION = 8


def offset_fetch(context: RequestContext) -> Answer:
    """Handle the OffsetFetch API."""
    if context.version >= GROUPS_VERSION:
        return {"groups": [_group(context, item) for item in context.request.groups]}
    return _group(context, context.request)


def _group(context: RequestContext, item: Any) -> Values:
    if context.cluster.coordinator(item.group_id).id != context.node:
        return {"group_id": item.group_id, "error_code": ErrorCode.not_coordinator}
    group = context.cluster.group_coordinator.find(item.group_id)
    return {
        "group_id": item.group_id,
        "topics": [
            {
                "name": name,
                "topic_id": topic_id,
                "partitions": [_offset(context, group, (name, index)) for index in indexes],
            }
            for name, topic_id, indexes in _asked(context, group, item.topics)
        ],
    }


def _asked(
    context: RequestContext, group: ClassicGroup | None, topics: Any
) -> list[tuple[str | None, UUID | None, list[int]]]:
    """Return the name, id and partition indexes of the requested topics.

    If the request names no topics, these are all topics with committed offsets. The name is None if
    a topic id is unknown.
    """
    if topics is not None:
        return [
            (
                topic.name if (topic := topic_of(context, item)) else name_of(item),
                id_of(item),
                indexes,
            )
            for item in topics
            for indexes in [list(item.partition_indexes)]
        ]
    committed: dict[str, list[int]] = {}
    for name, index in group.offsets if group else ():
        committed.setdefault(name, []).append(index)
    known = ((name, context.cluster.topics.named(name)) for name in committed)
    return [(name, topic.id if topic else None, committed[name]) for name, topic in known]


def _offset(
    context: RequestContext, group: ClassicGroup | None, asked: tuple[str | None, int]
) -> Values:
    name, index = asked
    if name is None:
        return _values(ErrorCode.unknown_topic_id, index, CommittedOffset())
    pending = context.cluster.transactional_offsets
    stable = context.get("require_stable", False)
    if group and stable and pending.is_unstable(group.id, (name, index)):
        return _values(ErrorCode.unstable_offset_commit, index, CommittedOffset())
    committed = group.offsets.get((name, index)) if group else None
    return _values(ErrorCode.none, index, committed or CommittedOffset())


def _values(error: ErrorCode, index: int, found: CommittedOffset) -> Values:
    return {
        "error_code": error,
        "partition_index": index,
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
    }


OFFSET_FETCH = Handler(api=ApiKey.OFFSET_FETCH, versions=VersionRange(1, 10), handle=offset_fetch)


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
    return {
        "topics": [
            {
                "name": item.name,
                "partitions": [
                    {
                        "partition_index": asked.partition_index,
                        "error_code": _delete(context, group, item.name, asked.partition_index),
                    }
                    for asked in item.partitions
                ],
            }
            for item in context.request.topics
        ]
    }


def _delete(context: RequestContext, group: ClassicGroup, name: str, index: int) -> ErrorCode:
    topic = context.cluster.topics.named(name)
    if topic is None or topic.partition(index) is None:
        return ErrorCode.unknown_topic_or_partition
    if group.subscribes_to(name):
        return ErrorCode.group_subscribed_to_topic
    group.offsets.pop((name, index), None)
    return ErrorCode.none


OFFSET_DELETE = Handler(api=ApiKey.OFFSET_DELETE, versions=VersionRange(0, 0), handle=offset_delete)
