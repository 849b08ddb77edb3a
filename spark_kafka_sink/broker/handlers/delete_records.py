"""DeleteRecords 0-2: the log starts at an offset from now on; -1 is the high watermark.

An offset behind the high watermark is OFFSET_OUT_OF_RANGE; a topic that is compacted only refuses
with POLICY_VIOLATION. Space is freed in whole segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.protocol.message_builder import Values

HIGH_WATERMARK = -1
NO_OFFSET = -1


def handle(context: RequestContext) -> Answer:
    """Handle the DeleteRecords API."""
    return {"topics": [_topic(context, item) for item in context.request.topics]}


def _topic(context: RequestContext, item: Any) -> Values:
    partitions = [_delete(context, item.name, p) for p in item.partitions]
    return {"name": item.name, "partitions": partitions}


def _delete(context: RequestContext, name: str, asked: Any) -> Values:
    topic = context.cluster.topics.named(name)
    partition = topic.partition(asked.partition_index) if topic else None
    if topic is None or partition is None:
        return _failed(asked, ErrorCode.unknown_topic_or_partition)
    if error := partition.leadership_error(context.node, -1):
        return _failed(asked, error)
    if "delete" not in topic.config["cleanup.policy"].split(","):
        return _failed(asked, ErrorCode.policy_violation)
    end = partition.high_watermark
    offset = end if asked.offset == HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= end:
        return _failed(asked, ErrorCode.offset_out_of_range)
    _apply(context, partition, offset)
    return {
        "partition_index": asked.partition_index,
        "low_watermark": partition.log.start_offset,
    }


def _apply(context: RequestContext, partition: Partition, offset: int) -> None:
    if offset <= partition.log.start_offset:
        return
    partition.log.delete_records(offset)
    context.cluster.topics.store.save_start(partition)


def _failed(asked: Any, error: ErrorCode) -> Values:
    return {
        "partition_index": asked.partition_index,
        "low_watermark": NO_OFFSET,
        "error_code": error,
    }


HANDLER = Handler(api=ApiKey.DELETE_RECORDS, versions=VersionRange(0, 2), handle=handle)
