"""ListOffsets and OffsetForLeaderEpoch.

ListOffsets 1-10: the offset for a timestamp, or for one of these values:

| timestamp | offset |
|---|---|
| -1 | latest; the last stable offset for read_committed consumers |
| -2 | earliest |
| -3 | the record with the largest timestamp (KIP-734, since version 7) |
| -4 | earliest local (KIP-405, since version 8) |
| -5 | latest tiered (KIP-1005, since version 9); always -1, because there is no tiered storage |

The leader epoch in the response is the epoch of the record, or the current epoch for the latest
offset.

Only records below the high watermark are found. For read_committed consumers, the last stable
offset is the limit.

OffsetForLeaderEpoch 2-4: the end offset of a leader epoch, or of the newest epoch below it
(KIP-320). If the epoch is newer than all known epochs, the returned epoch and offset are -1. The
client's current leader epoch is checked; the errors are FENCED_LEADER_EPOCH and
UNKNOWN_LEADER_EPOCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import RequestContext, readable_end
from spark_kafka_sink.broker.partition.unified_log import TimedOffset, UnifiedLog

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.messages import Values


LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
NOTHING = TimedOffset(-1, -1)


def list_offset(context: RequestContext, item: Any, requested: Any) -> Values | ErrorCode:
    """Handle a partition of the ListOffsets API."""
    partition = context.cluster.topics.partition(item.name, requested.partition_index)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    epoch = getattr(requested, "current_leader_epoch", -1)
    if error := partition.leadership_error(context.node, epoch):
        return error
    if requested.timestamp < _lowest(context.version):
        return ErrorCode.unsupported_version
    end = readable_end(partition, committed=context.reads_committed)
    found = _find(partition.log, requested.timestamp, end)
    is_latest = requested.timestamp == LATEST
    epochs = partition.log.epochs
    return {
        "timestamp": found.timestamp,
        "offset": found.offset,
        "leader_epoch": partition.leader_epoch if is_latest else epochs.epoch_at(found.offset),
    }


def _lowest(version: int) -> int:
    """Return the lowest special timestamp that a request version supports."""
    since = {LATEST_TIERED: 9, EARLIEST_LOCAL: 8, MAX_TIMESTAMP: 7}
    return min((time for time, first in since.items() if version >= first), default=EARLIEST)


def _find(log: UnifiedLog, timestamp: int, end: int) -> TimedOffset:
    """Return the offset for a timestamp. Records at or above the offset `end` are ignored."""
    if timestamp == LATEST:
        return TimedOffset(-1, end)
    if timestamp in {EARLIEST, EARLIEST_LOCAL}:
        return TimedOffset(-1, log.start_offset)
    if timestamp == LATEST_TIERED:
        return NOTHING
    found = log.newest() if timestamp == MAX_TIMESTAMP else log.first_at(timestamp)
    return found if found is not None and found.offset < end else NOTHING


def epoch_end(context: RequestContext, item: Any, requested: Any) -> Values | ErrorCode:
    """Handle a partition of the OffsetForLeaderEpoch API."""
    partition = context.cluster.topics.partition(item.topic, requested.partition)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    if error := partition.leadership_error(context.node, requested.current_leader_epoch):
        return error
    found = partition.log.epochs.end_of(requested.leader_epoch, partition.log.end_offset)
    return {"leader_epoch": found.epoch, "end_offset": found.offset}
