"""ListOffsets 1-10: the offset for a time.

-1 latest, -2 earliest, -3 the record with the largest timestamp (KIP-734, version 7), -4 earliest
local (KIP-405, version 8), -5 latest tiered (KIP-1005, version 9; there is none). For
read-committed readers the latest is the last stable offset, and nothing behind it is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.handlers.request_lookups import reads_committed, topic_of, visible_end
from spark_kafka_sink.broker.partition.unified_log import TimedOffset
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
    from spark_kafka_sink.protocol.message_builder import Values

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
NOTHING = TimedOffset(-1, -1)


def handle(context: RequestContext) -> Answer:
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
    """The lowest timestamp that has a meaning in a version."""
    since = {LATEST_TIERED: 9, EARLIEST_LOCAL: 8, MAX_TIMESTAMP: 7}
    return min((time for time, first in since.items() if version >= first), default=EARLIEST)


def _find(log: UnifiedLog, timestamp: int, end: int) -> TimedOffset:
    """What lies behind the end that the reader sees is not there yet."""
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


HANDLER = Handler(api=ApiKey.LIST_OFFSETS, versions=VersionRange(1, 10), handle=handle)
