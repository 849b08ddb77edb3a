"""OffsetFetch 1-10: where a group goes on; several groups at once since version 8 (KIP-709).

Topics by id since version 10 (KIP-848). A request for stable offsets (KIP-447, version 7) gets
UNSTABLE_OFFSET_COMMIT while a transaction may change one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.group_offsets import CommittedOffset
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.handlers.request_lookups import id_of, name_of, topic_of
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from uuid import UUID

    from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup
    from spark_kafka_sink.protocol.message_builder import Values

GROUPS_VERSION = 8


def handle(context: RequestContext) -> Answer:
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
    """Topics by name, if they are known, and by id, if they are asked for by it."""
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


HANDLER = Handler(api=ApiKey.OFFSET_FETCH, versions=VersionRange(1, 10), handle=handle)
