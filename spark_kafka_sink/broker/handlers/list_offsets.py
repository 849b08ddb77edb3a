"""ListOffsets and OffsetForLeaderEpoch.

ListOffsets 1-10: the offset for a timestamp, or for one of these values:

| timestamp | offset |
|---|---|
| -1 | latest; for read_committed consumers the last stable offset |
| -2 | earliest |
| -3 | the record with the largest timestamp (KIP-734, since version 7) |
| -4 | earliest local (KIP-405, since version 8) |
| -5 | latest tiered (KIP-1005, since version 9); always -1, as there is no tiered storage |

Records above the high watermark, or the last stable offset for read_committed, are not found.

OffsetForLeaderEpoch 2-4: the end offset of a leader epoch, or of the newest epoch below it
(KIP-320). For an epoch newer than all known ones, epoch and offset are -1. The client's own leader
epoch is checked: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import (
    Answer,
    Handler,
    RequestContext,
    reads_committed,
    topic_of,
    visible_end,
)
from spark_kafka_sink.broker.partition.unified_log import TimedOffset
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
    from spark_kafka_sink.protocol.messages import Values


LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
NOTHING = TimedOffset(-1, -1)


def list_offsets(context: RequestContext) -> Answer:
    """Handle the ListOffsets API."""
    return {
        "topics": [
            {
                "name": item.name,
                "partitions": [_partition(context, item, p) for p in item.partitions],
            }
            for item in context.request.topics
        ]
    }


def _partition(context: RequestContext, item: Any, asked: Any) -> Values:
    topic = topic_of(context, item)
    partition = topic.partition(asked.partition_index) if topic else None
    if partition is None:
        return _error(asked, ErrorCode.unknown_topic_or_partition)
    epoch = getattr(asked, "current_leader_epoch", -1)
    if error := partition.leadership_error(context.node, epoch):
        return _error(asked, error)
    if asked.timestamp < _lowest(context.version):
        return _error(asked, ErrorCode.unsupported_version)
    end = visible_end(partition, committed=reads_committed(context))
    try:
        found = _find(partition.log, asked.timestamp, end)
    except OSError:
        return _error(asked, ErrorCode.kafka_storage_error)
    return {
        "partition_index": asked.partition_index,
        "timestamp": found.timestamp,
        "offset": found.offset,
        "leader_epoch": partition.leader_epoch if found.offset >= 0 else -1,
    }


def _lowest(version: int) -> int:
    """Return the lowest timestamp that has a meaning in a version of the request."""
    since = {LATEST_TIERED: 9, EARLIEST_LOCAL: 8, MAX_TIMESTAMP: 7}
    return min((time for time, first in since.items() if version >= first), default=EARLIEST)


def _find(log: UnifiedLog, timestamp: int, end: int) -> TimedOffset:
    """Return the offset for a timestamp; records at or above `end` are not visible."""
    if timestamp == LATEST:
        return TimedOffset(-1, end)
    if timestamp in {EARLIEST, EARLIEST_LOCAL}:
        return TimedOffset(-1, log.start_offset)
    if timestamp == LATEST_TIERED:
        return NOTHING
    found = log.newest() if timestamp == MAX_TIMESTAMP else log.first_at(timestamp)
    return found if found is not None and found.offset < end else NOTHING


def _error(asked: Any, error: ErrorCode) -> Values:
    return {
        "partition_index": asked.partition_index,
        "error_code": error,
        "timestamp": -1,
        "offset": -1,
        "leader_epoch": -1,
    }


LIST_OFFSETS = Handler(api=ApiKey.LIST_OFFSETS, versions=VersionRange(1, 10), handle=list_offsets)


def offset_for_leader_epoch(context: RequestContext) -> Answer:
    """Handle the OffsetForLeaderEpoch API."""
    return {"topics": [_topic(context, item) for item in context.request.topics]}


def _topic(context: RequestContext, item: Any) -> Values:
    partitions = [_end(context, item.topic, p) for p in item.partitions]
    return {"topic": item.topic, "partitions": partitions}


def _end(context: RequestContext, name: str, asked: Any) -> Values:
    topic = context.cluster.topics.named(name)
    partition = topic.partition(asked.partition) if topic else None
    if partition is None:
        return _failed(asked, ErrorCode.unknown_topic_or_partition)
    if error := partition.leadership_error(context.node, asked.current_leader_epoch):
        return _failed(asked, error)
    found = partition.log.epochs.end_of(asked.leader_epoch, partition.log.end_offset)
    return {
        "partition": asked.partition,
        "leader_epoch": found.epoch,
        "end_offset": found.offset,
    }


def _failed(asked: Any, error: ErrorCode) -> Values:
    return {
        "partition": asked.partition,
        "error_code": error,
        "leader_epoch": -1,
        "end_offset": -1,
    }


OFFSET_FOR_LEADER_EPOCH = Handler(
    api=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=VersionRange(2, 4), handle=offset_for_leader_epoch
)
