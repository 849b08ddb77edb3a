"""Fetch, ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.partition.unified_log import TimedOffset, UnifiedLog
from spark_kafka_sink.broker.requests.shapes import BY_PARTITION, id_of, name_of, unknown_topic
from spark_kafka_sink.common.logs import warn_once
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.list_offsets import EARLIEST, LATEST
from spark_kafka_sink.kafka.protocol.send_buffers import RecordBuffers
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from spark_kafka_sink.broker.handlers.request_context import HandlerResult, RequestContext
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


_LOG = logging.getLogger(__name__)
_FULL_EPOCHS = frozenset({0, -1})
"""Session epochs of requests that list all partitions. Their session ids are ignored."""
_MAX_BYTES = 55 << 20
"""Maximum size of a response in bytes: Kafka's default for the broker config fetch.max.bytes."""
_INDEX_INTERVAL = 4096
"""Number of bytes between two index entries, which is Kafka's default index.interval.bytes."""
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL = -4
_LATEST_TIERED = -5
"""Special timestamps of ListOffsets that this package's client does not use."""
_NO_RECORD = TimedOffset(-1, -1)
"""The result of ListOffsets if no record is as late as the timestamp."""


@dataclass(frozen=True, slots=True)
class _PartitionFetch:
    """A requested partition and its error, if any."""

    requested: Any
    partition: Partition | None
    error: ErrorCode
    reads_committed: bool

    @property
    def end(self) -> int:
        """The offset up to which the client can read."""
        assert self.partition is not None
        return self.partition.readable_end(committed=self.reads_committed)

    @property
    def available_bytes(self) -> int:
        """Number of bytes that the client can read."""
        if self.partition is None or self.error:
            return 0
        return self.partition.log.bytes_from(self.requested.fetch_offset, self.end)


def fetch_records(context: RequestContext) -> HandlerResult:
    """Return batches as they are stored in the log (Fetch 4-17).

    A request waits for min.bytes until max.wait has passed. Batches above the high watermark are
    not returned. The first batch is returned regardless of its size (KIP-74). There are no fetch
    sessions (KIP-227): the returned session id 0 makes clients send all partitions in each request,
    and incremental requests fail. Leader epochs are checked (KIP-320). Since version 13, topics are
    identified by id (KIP-516). read_committed consumers receive the batches below the last stable
    offset and the list of aborted transactions (KIP-98).
    """
    request = context.request
    if context.get("session_epoch", -1) not in _FULL_EPOCHS:
        return {"error_code": ErrorCode.fetch_session_id_not_found}
    fetches = _partition_fetches(context)
    flat = [fetch for _, partition_fetches in fetches for fetch in partition_fetches]

    def has_enough() -> bool:
        missing_bytes = request.min_bytes
        for fetch in flat:
            if fetch.partition is not None and fetch.partition.leader != context.node:
                return True
            missing_bytes -= fetch.available_bytes
            if missing_bytes <= 0:
                return True
        return False

    if any(fetch.error for fetch in flat) or request.max_wait.total_seconds() <= 0 or has_enough():
        return _fetch_response(context, fetches)
    keys = tuple(fetch.partition.topic_partition for fetch in flat if fetch.partition is not None)

    def respond() -> FieldValues:
        return _fetch_response(context, _partition_fetches(context))

    return context.wait(request.max_wait, has_enough, respond, keys)


def _partition_fetches(context: RequestContext) -> list[tuple[Any, list[_PartitionFetch]]]:
    topics = context.request.topics
    return [
        (item, [_partition_fetch(context, item, requested) for requested in item.partitions])
        for item in topics
    ]


def _partition_fetch(context: RequestContext, item: Any, requested: Any) -> _PartitionFetch:
    topic = context.find_topic(item)
    committed = context.reads_committed
    if topic is None:
        return _PartitionFetch(requested, None, unknown_topic(item), committed)
    partition = topic.partition(requested.partition)
    if partition is None:
        return _PartitionFetch(requested, None, ErrorCode.unknown_topic_or_partition, committed)
    epoch = getattr(requested, "current_leader_epoch", -1)
    error = partition.leadership_error(context.node, epoch)
    log = partition.log
    if not error and not log.start_offset <= requested.fetch_offset <= log.end_offset:
        error = ErrorCode.offset_out_of_range
    return _PartitionFetch(requested, partition, error, committed)


def _fetch_response(
    context: RequestContext, fetches: list[tuple[Any, list[_PartitionFetch]]]
) -> FieldValues:
    left = min(context.request.max_bytes, _MAX_BYTES)
    is_first = True
    shape = BY_PARTITION[ApiKey.FETCH]
    leaders = set()
    responses = []
    for item, partition_fetches in fetches:
        partitions = []
        for partition_fetch in partition_fetches:
            data, values = _read_partition(partition_fetch, left, is_first=is_first)
            left -= sum(map(len, data))
            is_first = is_first and not data
            if "current_leader" in values:
                leaders.add(values["current_leader"]["leader_id"])
            values["records"] = RecordBuffers(data)
            partitions.append(shape.partition_response(partition_fetch.requested, values))
        responses.append(
            {"topic": name_of(item), "topic_id": id_of(item), "partitions": partitions}
        )
    return {"responses": responses, "node_endpoints": context.endpoints(leaders)}


def _read_partition(
    fetch: _PartitionFetch, left: int, *, is_first: bool
) -> tuple[list[memoryview], dict[str, Any]]:
    """Return batches of a partition, and the other fields of the partition's response."""
    partition = fetch.partition
    failed = {**BY_PARTITION[ApiKey.FETCH].failed, "error_code": fetch.error}
    if partition is None:
        return [], failed | {"aborted_transactions": []}
    if fetch.error is ErrorCode.not_leader_or_follower:
        return [], failed | {"current_leader": partition.current_leader}
    if fetch.error:
        return [], failed
    offset = fetch.requested.fetch_offset
    limit = min(left, fetch.requested.partition_max_bytes)
    data: list[memoryview] = []
    try:
        if left > 0 or is_first:
            data = partition.log.read(offset, limit, at_least_one=is_first, end=fetch.end)
        aborted = _aborted_transactions(fetch, partition, data) if fetch.reads_committed else None
    except OSError as error:
        warn_once(_LOG, "cannot read %s: %s", f"{partition.topic}-{partition.index}", str(error))
        return [], failed | {"error_code": ErrorCode.kafka_storage_error}
    return data, {
        "high_watermark": partition.high_watermark,
        "last_stable_offset": partition.last_stable_offset,
        "log_start_offset": partition.log.start_offset,
        "aborted_transactions": aborted,
        "preferred_read_replica": -1,
    }


def _aborted_transactions(
    fetch: _PartitionFetch, partition: Partition, data: list[memoryview]
) -> list[FieldValues]:
    """Return the aborted transactions for the response.

    As in Kafka, the list covers the offsets up to the first index entry after the data.
    """
    start, log = fetch.requested.fetch_offset, partition.log
    if not partition.transactions.aborted_between(start, log.end_offset):
        return []
    size = sum(map(len, data)) + _INDEX_INTERVAL
    end = start
    for batch in log.storage.batches(start):
        size -= len(batch.data)
        end = batch.header.last_offset + 1
        if size <= 0:
            break
    return [
        {"producer_id": ended.producer_id, "first_offset": ended.first_offset}
        for ended in partition.transactions.aborted_between(start, end)
    ]


def list_offset(context: RequestContext, item: Any, requested: Any) -> FieldValues | ErrorCode:
    """Return the offset for a timestamp or a special value (ListOffsets 1-10).

    | timestamp | offset |
    |---|---|
    | -1 | latest; the last stable offset for read_committed consumers |
    | -2 | earliest |
    | -3 | the record with the largest timestamp (KIP-734, since version 7) |
    | -4 | earliest local (KIP-405, since version 8) |
    | -5 | latest tiered (KIP-1005, since version 9); always -1: there is no tiered storage |

    Only records below the high watermark are found. For read_committed consumers, the last stable
    offset is the limit.
    """
    epoch = getattr(requested, "current_leader_epoch", -1)
    partition = context.led_partition(item.name, requested.partition_index, epoch)
    if requested.timestamp < _lowest_timestamp(context.version):
        return ErrorCode.unsupported_version
    end = partition.readable_end(committed=context.reads_committed)
    timed_offset = _find_offset(partition.log, requested.timestamp, end)
    is_latest = requested.timestamp == LATEST
    epochs = partition.log.epochs
    return {
        "timestamp": timed_offset.timestamp,
        "offset": timed_offset.offset,
        "leader_epoch": partition.leader_epoch
        if is_latest
        else epochs.epoch_at(timed_offset.offset),
    }


def _lowest_timestamp(version: int) -> int:
    """Return the lowest special timestamp that a request version supports."""
    since = {_LATEST_TIERED: 9, _EARLIEST_LOCAL: 8, _MAX_TIMESTAMP: 7}
    return min((time for time, first in since.items() if version >= first), default=EARLIEST)


def _find_offset(log: UnifiedLog, timestamp: int, end: int) -> TimedOffset:
    """Return the offset for a timestamp. Records at or above the offset `end` are ignored."""
    if timestamp == LATEST:
        return TimedOffset(-1, end)
    if timestamp in {EARLIEST, _EARLIEST_LOCAL}:
        return TimedOffset(-1, log.start_offset)
    if timestamp == _LATEST_TIERED:
        return _NO_RECORD
    timed_offset = (
        log.first_at_max_timestamp()
        if timestamp == _MAX_TIMESTAMP
        else log.first_at_timestamp(timestamp)
    )
    return timed_offset if timed_offset is not None and timed_offset.offset < end else _NO_RECORD


def epoch_end(context: RequestContext, item: Any, requested: Any) -> FieldValues:
    """Return the end offset of a leader epoch, or of the newest epoch below it.

    OffsetForLeaderEpoch 2-4 (KIP-320): if the epoch is newer than all known epochs, the returned
    epoch and offset are -1. The client's current leader epoch is checked; the errors are
    FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH.
    """
    epoch = requested.current_leader_epoch
    partition = context.led_partition(item.topic, requested.partition, epoch)
    epoch_end_offset = partition.log.epochs.end_of(requested.leader_epoch, partition.log.end_offset)
    return {"leader_epoch": epoch_end_offset.epoch, "end_offset": epoch_end_offset.offset}
