"""OffsetCommit 2-10: by a member of the current generation, or by anyone while there is none.

Topics by id since version 10 (KIP-848). Metadata of more than 4,096 characters is
OFFSET_METADATA_TOO_LARGE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.group_offsets import CommittedOffset
from spark_kafka_sink.broker.handlers.membership import check_coordinator, may_commit
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.handlers.request_lookups import id_of, missing, name_of, topic_of
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup
    from spark_kafka_sink.protocol.message_builder import Values

MAX_METADATA = 4_096
"""Kafka's offset.metadata.max.bytes, counted in characters there too."""


def handle(context: RequestContext) -> Answer:
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


HANDLER = Handler(api=ApiKey.OFFSET_COMMIT, versions=VersionRange(2, 10), handle=handle)
