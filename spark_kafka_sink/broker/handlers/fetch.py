"""Fetch 4-17: batches as they are stored in the log.

A request waits for min.bytes until max.wait has passed; batches above the high watermark are not
returned. The first batch is returned whatever its size (KIP-74). There are no fetch sessions
(KIP-227): session id 0 makes clients name all partitions in each request, and incremental requests
are refused. Leader epochs are checked (KIP-320), and topics are identified by id since version 13
(KIP-516). read_committed consumers receive the batches below the last stable offset and the list of
aborted transactions (KIP-98).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import (
    Answer,
    Handler,
    RequestContext,
    current_leader,
    endpoints,
    id_of,
    missing,
    name_of,
    reads_committed,
    topic_of,
    visible_end,
)
from spark_kafka_sink.protocol.frame import RecordBuffers
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.protocol.messages import Values


NO_OFFSET = -1
FULL_EPOCHS = frozenset({0, -1})
"""Session epochs of full fetch requests, which name all partitions; their session id is ignored."""
INDEX_INTERVAL = 4096
"""Bytes between two index entries: the default of index.interval.bytes."""


@dataclass(frozen=True, slots=True)
class PartitionFetch:
    """A requested partition, and its error if there is one."""

    asked: Any
    partition: Partition | None
    error: ErrorCode
    committed: bool

    def waiting_bytes(self, enough: int) -> int:
        """Return the number of bytes that could be sent; counting may stop at `enough`."""
        if self.partition is None or self.error:
            return 0
        limit = min(enough, self.asked.partition_max_bytes)
        end = visible_end(self.partition, committed=self.committed)
        return self.partition.log.bytes_from(self.asked.fetch_offset, limit, end)


def fetch(context: RequestContext) -> Answer:
    """Handle the Fetch API."""
    request = context.request
    if context.get("session_epoch", -1) not in FULL_EPOCHS:
        return {"error_code": ErrorCode.fetch_session_id_not_found}
    fetches = _partition_fetches(context)
    flat = [one for _, some in fetches for one in some]

    def has_enough() -> bool:
        missing_bytes = request.min_bytes
        for one in flat:
            if one.partition is not None and one.partition.leader != context.node:
                return True
            missing_bytes -= one.waiting_bytes(missing_bytes)
            if missing_bytes <= 0:
                return True
        return False

    if any(one.error for one in flat) or request.max_wait.total_seconds() <= 0 or has_enough():
        return _answer(context, fetches)
    keys = tuple((p.topic, p.index) for one in flat if (p := one.partition) is not None)
    return context.wait(
        request.max_wait, has_enough, lambda: _answer(context, _partition_fetches(context)), keys
    )


def _partition_fetches(context: RequestContext) -> list[tuple[Any, list[PartitionFetch]]]:
    topics = context.request.topics
    return [
        (item, [_partition_fetch(context, item, p) for p in item.partitions]) for item in topics
    ]


def _partition_fetch(context: RequestContext, item: Any, asked: Any) -> PartitionFetch:
    topic = topic_of(context, item)
    committed = reads_committed(context)
    if topic is None:
        return PartitionFetch(asked, None, missing(item), committed)
    partition = topic.partition(asked.partition)
    if partition is None:
        return PartitionFetch(asked, None, ErrorCode.unknown_topic_or_partition, committed)
    epoch = getattr(asked, "current_leader_epoch", -1)
    error = partition.leadership_error(context.node, epoch)
    log = partition.log
    if not error and not log.start_offset <= asked.fetch_offset <= log.end_offset:
        error = ErrorCode.offset_out_of_range
    return PartitionFetch(asked, partition, error, committed)


def _answer(context: RequestContext, fetches: list[tuple[Any, list[PartitionFetch]]]) -> Values:
    left = context.request.max_bytes
    empty = True
    leaders = set()
    responses = []
    for item, some in fetches:
        partitions = []
        for one in some:
            data, values = _served(one, left, first=empty)
            left -= sum(map(len, data))
            empty = empty and not data
            if one.partition is not None and one.error is ErrorCode.not_leader_or_follower:
                leaders.add(one.partition.leader)
            partitions.append(values)
        responses.append(
            {"topic": name_of(item), "topic_id": id_of(item), "partitions": partitions}
        )
    return {"responses": responses, "node_endpoints": endpoints(context, leaders)}


def _served(one: PartitionFetch, left: int, *, first: bool) -> tuple[list[memoryview], Values]:
    try:
        data = [] if one.error or not (left > 0 or first) else _read(one, left, first=first)
        return data, _partition(one, data)
    except OSError:
        return [], _partition(replace(one, error=ErrorCode.kafka_storage_error), [])


def _read(one: PartitionFetch, left: int, *, first: bool) -> list[memoryview]:
    if one.partition is None:
        return []
    limit = min(left, one.asked.partition_max_bytes)
    end = visible_end(one.partition, committed=one.committed)
    return one.partition.log.read(one.asked.fetch_offset, limit, at_least_one=first, end=end)


def _partition(one: PartitionFetch, data: list[memoryview]) -> Values:
    partition = one.partition
    values: dict[str, Any] = {
        "partition_index": one.asked.partition,
        "error_code": one.error,
        "high_watermark": NO_OFFSET,
        "last_stable_offset": NO_OFFSET,
        "log_start_offset": NO_OFFSET,
        "aborted_transactions": [] if partition is None else None,
        "preferred_read_replica": -1,
        "records": RecordBuffers(data),
    }
    if partition is None:
        return values
    if one.error is ErrorCode.not_leader_or_follower:
        return values | {"current_leader": current_leader(partition)}
    if one.error:
        return values
    return values | {
        "high_watermark": partition.high_watermark,
        "last_stable_offset": partition.last_stable_offset,
        "log_start_offset": partition.log.start_offset,
        "aborted_transactions": _aborted(one, partition, data) if one.committed else None,
    }


def _aborted(one: PartitionFetch, partition: Partition, data: list[memoryview]) -> list[Values]:
    """Return the aborted transactions of a response.

    As in Kafka, the list extends to the next index entry after the data.
    """
    start, log = one.asked.fetch_offset, partition.log
    if not partition.transactions.aborted_between(start, log.end_offset):
        return []
    size = sum(map(len, data)) + INDEX_INTERVAL
    end = start
    for batch in log.storage.batches(start):
        size -= len(batch.data)
        end = batch.last_offset + 1
        if size <= 0:
            break
    return [
        {"producer_id": ended.producer_id, "first_offset": ended.first_offset}
        for ended in partition.transactions.aborted_between(start, end)
    ]


FETCH = Handler(api=ApiKey.FETCH, versions=VersionRange(4, 17), handle=fetch)
