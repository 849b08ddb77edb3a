"""Fetch 4-17: batches as they lie in the log.

Waits for min.bytes until max.wait. The first batch comes whatever its size (KIP-74). There are no
fetch sessions: session id 0 tells the client to name all partitions each time (KIP-227). Leader
epochs are checked (KIP-320), topics come by id since version 13 (KIP-516). Read-committed readers
see everything, as there are no transactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.call import Answer, Call, Handler
from spark_kafka_sink.broker.handlers.lookup import (
    current_leader,
    endpoints,
    id_of,
    missing,
    name_of,
    topic_of,
)
from spark_kafka_sink.protocol.gather import Pieces
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.partition import Partition
    from spark_kafka_sink.protocol.build import Values

NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class Wanted:
    """One partition of a request, judged."""

    asked: Any
    partition: Partition | None
    error: ErrorCode

    def waiting_bytes(self, enough: int) -> int:
        """Bytes that could be sent."""
        if self.partition is None or self.error:
            return 0
        limit = min(enough, self.asked.partition_max_bytes)
        return self.partition.log.bytes_from(self.asked.fetch_offset, limit)


def handle(call: Call) -> Answer:
    """See the module."""
    request = call.request
    if call.get("session_id", 0) != 0:
        return {"error_code": ErrorCode.fetch_session_id_not_found}
    wanted = [(item, [_judge(call, item, p) for p in item.partitions]) for item in request.topics]
    flat = [one for _, some in wanted for one in some]

    def ready() -> bool:
        missing_bytes = request.min_bytes
        for one in flat:
            missing_bytes -= one.waiting_bytes(missing_bytes)
            if missing_bytes <= 0:
                return True
        return False

    def answer() -> Values:
        return _answer(call, wanted)

    if any(one.error for one in flat) or request.max_wait.total_seconds() <= 0 or ready():
        return answer()
    return call.wait(request.max_wait, ready, answer)


def _judge(call: Call, item: Any, asked: Any) -> Wanted:
    topic = topic_of(call, item)
    if topic is None:
        return Wanted(asked, None, missing(item))
    partition = topic.partition(asked.partition)
    if partition is None:
        return Wanted(asked, None, ErrorCode.unknown_topic_or_partition)
    epoch = getattr(asked, "current_leader_epoch", -1)
    error = partition.leadership_error(call.node, epoch)
    log = partition.log
    if not error and not log.start_offset <= asked.fetch_offset <= log.end_offset:
        error = ErrorCode.offset_out_of_range
    return Wanted(asked, partition, error)


def _answer(call: Call, wanted: list[tuple[Any, list[Wanted]]]) -> Values:
    left = call.request.max_bytes
    empty = True
    leaders = set()
    responses = []
    for item, some in wanted:
        partitions = []
        for one in some:
            data = [] if one.error or not (left > 0 or empty) else _read(one, left, first=empty)
            left -= sum(map(len, data))
            empty = empty and not data
            if one.partition is not None and one.error is ErrorCode.not_leader_or_follower:
                leaders.add(one.partition.leader)
            partitions.append(_partition(one, data))
        responses.append(
            {"topic": name_of(item), "topic_id": id_of(item), "partitions": partitions}
        )
    return {"responses": responses, "node_endpoints": endpoints(call, leaders)}


def _read(one: Wanted, left: int, *, first: bool) -> list[memoryview]:
    if one.partition is None:
        return []
    limit = min(left, one.asked.partition_max_bytes)
    return one.partition.log.read(one.asked.fetch_offset, limit, at_least_one=first)


def _partition(one: Wanted, data: list[memoryview]) -> Values:
    partition = one.partition
    values: dict[str, Any] = {
        "partition_index": one.asked.partition,
        "error_code": one.error,
        "high_watermark": NO_OFFSET,
        "last_stable_offset": NO_OFFSET,
        "log_start_offset": NO_OFFSET,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": Pieces(data),
    }
    if partition is None:
        return values
    if one.error is ErrorCode.not_leader_or_follower:
        return values | {"current_leader": current_leader(partition)}
    return values | {
        "high_watermark": partition.log.end_offset,
        "last_stable_offset": partition.log.end_offset,
        "log_start_offset": partition.log.start_offset,
    }


HANDLER = Handler(api=ApiKey.FETCH, versions=VersionRange(4, 17), handle=handle)
