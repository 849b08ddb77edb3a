"""Read the committed records of one partition, up to its high watermark.

A read_committed consumer stops at the last stable offset, so any open transaction of any producer
delays the consumer. `LogReader` reads up to the high watermark. `CommittedRecords`, which does no
I/O, evaluates the markers in the log separately for each producer: a commit marker commits the
producer's transactional records, and an abort marker drops them. Therefore, open transactions of
other producers cause no delay.

Source: ``ProducerStateManager``, ``Fetcher``, ``OffsetFetcher``; KIP-98, KIP-207 (the high
watermark never decreases), KIP-320 (leader epochs), KIP-516 (topic ids), KIP-595 (Fetch detects a
truncated log).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.common.errors import KafkaProdError, ProtocolError, UnknownTopicError
from spark_kafka_sink.kafka.admin.api_driver import ApiDriver, ApiHandler, KeyResult, LeaderHandler
from spark_kafka_sink.kafka.admin.blocking_client import (
    BlockingClient,
    CallOutcome,
    denied,
    on_topic,
)
from spark_kafka_sink.kafka.admin.lookups import LeaderLookup
from spark_kafka_sink.kafka.admin.partition_offsets import (
    CONSUMER,
    EARLIEST,
    LATEST,
    IsolationLevel,
    ListOffsetsHandler,
    leader_epoch,
    only_partition,
)
from spark_kafka_sink.kafka.client.backoff import retry_delay
from spark_kafka_sink.kafka.protocol.acl import AclOperation
from spark_kafka_sink.kafka.protocol.error_codes import TOPIC_RECREATED, ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.versions import FETCH_WITH_TOPIC_IDS, ApiKey
from spark_kafka_sink.kafka.records import record_batch
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker, read_marker
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.kafka.records.record_decoder import read_records

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Iterator, Sequence

    from spark_kafka_sink.kafka.admin.api_driver import V
    from spark_kafka_sink.kafka.protocol.messages import Values


_FETCH_BYTES = 4 << 20
_EMPTY_WAIT_MS = 500
"""max.wait.ms of the Fetch that follows an empty response, as in Java's consumer."""
_NO_EPOCH = -1
_UNKNOWN_TOPIC_RETRY_S = 0.3
"""Seconds for which UNKNOWN_TOPIC_OR_PARTITION is retried, because new topics propagate slowly."""
_RESTART = TOPIC_RECREATED | {ErrorCode.offset_out_of_range}


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFrom:
    """The position at which a Fetch starts.

    `last_epoch` is the leader epoch of the preceding batch, or -1 if there is no preceding batch.
    """

    offset: int
    last_epoch: int = _NO_EPOCH


class AbortedTransaction(NamedTuple):
    """A transaction whose records are skipped by read_committed consumers."""

    first_offset: int
    producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A leader's response, with raw batches of its log; the last batch can be incomplete.

    `diverged` is True if the log was truncated before the requested offset. `by_id` is True if the
    request contained the topic id, so that a recreated topic is excluded. `aborted` is sorted. With
    `READ_UNCOMMITTED`, it is empty.
    """

    data: memoryview
    high_watermark: int
    last_stable_offset: int
    aborted: tuple[AbortedTransaction, ...]
    diverged: bool
    by_id: bool


class FetchHandler(LeaderHandler[Fetched]):
    """Fetches from a partition once; waits at most `wait_ms` milliseconds for data."""

    api = ApiKey.FETCH
    retried = LeaderHandler.retried | {ErrorCode.throttling_quota_exceeded}
    looked_up = LeaderHandler.looked_up - TOPIC_RECREATED

    def __init__(
        self,
        client: BlockingClient,
        start: FetchFrom,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        wait_ms: int = 0,
    ) -> None:
        self._client = client
        self._from = start
        self._isolation = isolation
        self._wait = timedelta(milliseconds=wait_ms)

    def cap(self, keys: Sequence[TopicPartition]) -> int | None:
        """See `ApiHandler`."""
        return None if _topic_id(self._client, keys[0]) is not None else FETCH_WITH_TOPIC_IDS - 1

    def values(self, keys: Sequence[TopicPartition], version: int) -> Values:  # noqa: ARG002
        """See `ApiHandler`."""
        (key,) = keys
        partition = {
            "partition": key.partition,
            "current_leader_epoch": leader_epoch(self._client, key),
            "fetch_offset": self._from.offset,
            "last_fetched_epoch": self._from.last_epoch,
            "partition_max_bytes": _FETCH_BYTES,
        }
        topic = {
            "topic": key.topic,
            "topic_id": _topic_id(self._client, key),
            "partitions": [partition],
        }
        return {
            "replica_id": CONSUMER,
            "max_wait": self._wait,
            "min_bytes": 1 if self._wait else 0,
            "max_bytes": _FETCH_BYTES,
            "isolation_level": int(self._isolation),
            "topics": [topic],
        }

    def result(self, key: TopicPartition, outcome: CallOutcome) -> KeyResult[Fetched]:  # noqa: ARG002
        """See `ApiHandler`."""
        if code := int(getattr(outcome.response, "error_code", 0)):
            return KeyResult(code=code)
        if not outcome.response.responses:  # The response to a throttled Fetch is empty.
            return KeyResult(code=ErrorCode.throttling_quota_exceeded)
        partition = only_partition(outcome)
        fetched = _fetched(partition, outcome.version)
        return KeyResult(code=int(partition.error_code), value=fetched)


def _fetched(partition: Any, version: int) -> Fetched:
    diverging = getattr(partition, "diverging_epoch", None)
    aborted = getattr(partition, "aborted_transactions", None) or ()
    return Fetched(
        data=memoryview(partition.records or b""),
        high_watermark=int(partition.high_watermark),
        last_stable_offset=int(getattr(partition, "last_stable_offset", -1)),
        aborted=tuple(
            sorted(
                AbortedTransaction(int(transaction.first_offset), int(transaction.producer_id))
                for transaction in aborted
            )
        ),
        diverged=diverging is not None and int(diverging.end_offset) >= 0,
        by_id=version >= FETCH_WITH_TOPIC_IDS,
    )


def _topic_id(client: BlockingClient, topic_partition: TopicPartition) -> uuid.UUID | None:
    topic = client.cluster.topics.get(topic_partition.topic)
    return None if topic is None else topic.topic_id


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LogRecord:
    """A committed record; `value` is None for a tombstone."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTransaction:
    """A producer's transaction that starts at `first_offset` and has no marker yet."""

    producer_id: int
    epoch: int
    first_offset: int
    records: tuple[LogRecord, ...] = ()


class CommittedRecords:
    """Collects the committed records of batches, which must be added in log order.

    Args:
        pending: the transactions that were open at the start position.
    """

    def __init__(self, pending: Iterable[PendingTransaction] = ()) -> None:
        self._pending = {transaction.producer_id: transaction for transaction in pending}
        self._committed: list[LogRecord] = []

    @property
    def pending(self) -> tuple[PendingTransaction, ...]:
        """Transactions that are still open, sorted by first offset."""
        return tuple(
            sorted(self._pending.values(), key=lambda transaction: transaction.first_offset)
        )

    def take(self) -> tuple[LogRecord, ...]:
        """Return the records that became committed since the last call, sorted by offset."""
        taken, self._committed = tuple(sorted(self._committed, key=attrgetter("offset"))), []
        return taken

    def add(self, batch: memoryview, header: BatchHeader, start: int) -> None:
        """Add the batch at the beginning of `batch`, without its records before offset `start`.

        Raises:
            ProtocolError: the batch is corrupt, or its format is not v2.
        """
        if header.is_control:
            self._end(batch, header)
            return
        records = tuple(
            LogRecord(offset=record.offset, key=record.key, value=record.value)
            for record in read_records(batch)
            if record.offset >= start
        )
        if not header.is_transactional:
            self._committed.extend(records)
            return
        known = self._pending.get(header.producer_id)
        self._pending[header.producer_id] = PendingTransaction(
            producer_id=header.producer_id,
            epoch=header.producer_epoch,
            first_offset=header.base_offset if known is None else known.first_offset,
            records=records if known is None else known.records + records,
        )

    def _end(self, batch: memoryview, header: BatchHeader) -> None:
        marker, pending = read_marker(batch, header), self._pending.pop(header.producer_id, None)
        if pending is None or not pending.records:
            return
        if marker is None:  # Compaction removes a marker only after its transaction's records.
            raise ProtocolError(
                f"the marker at offset {header.base_offset} was removed, but not the records of "
                f"its transaction from offset {pending.first_offset}",
                hint="Run the write again, which reads the topic from its start.",
            )
        if marker.commit:
            self._committed.extend(pending.records)


def whole_batches(data: memoryview) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield the batches of a Fetch response, without an incomplete batch at the end.

    Raises:
        ProtocolError: a batch is corrupt, or its format is older than v2.
    """
    at = 0
    while len(data) - at > record_batch.MAGIC_OFFSET:
        size = record_batch.LOG_OVERHEAD + int.from_bytes(
            data[at + record_batch.LENGTH_OFFSET : at + record_batch.LOG_OVERHEAD], "big"
        )
        if at + size > len(data):
            return
        if size < record_batch.HEADER_SIZE:
            raise ProtocolError(f"a record batch has only {size} bytes")
        batch = data[at : at + size]
        if batch[record_batch.MAGIC_OFFSET] != record_batch.MAGIC:
            raise ProtocolError(
                f"a batch has format v{batch[record_batch.MAGIC_OFFSET]}, "
                "which does not support transactions",
                hint="Raise log.message.format.version to 0.11 or later.",
            )
        header = BatchHeader.parse(batch)
        if header.crc != record_batch.checksum(batch):
            raise ProtocolError(f"the batch at offset {header.base_offset} has an invalid checksum")
        yield batch, header
        at += size


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position in a log. All batches before `offset` have been read.

    `leader_epoch` is the leader epoch of the last batch, or -1 if there is no batch. The leader
    uses this epoch to detect that the log was truncated since then. `pending` contains the
    transactions that are open at this position.
    """

    topic_id: uuid.UUID | None
    offset: int
    leader_epoch: int = -1
    pending: tuple[PendingTransaction, ...] = ()


class LogRead(NamedTuple):
    """The records that became committed since a position, sorted by offset, and the new position.

    `restarted` is True if the position was no longer valid, because the topic was recreated, the
    log was truncated, or the offset is out of range. In this case, the whole log was read, and
    `records` replaces all records of earlier reads.
    """

    records: tuple[LogRecord, ...]
    position: Position
    restarted: bool


class LogReader:
    """Reads one partition. The caller stores the position between reads.

    Args:
        client: sends the requests; the caller closes it.
        topic: the topic's name.
        partition: the partition's number.
    """

    def __init__(self, client: BlockingClient, topic: str, partition: int = 0) -> None:
        self._client = client
        self._topic_partition = TopicPartition(topic, partition)

    def read(self, position: Position | None, deadline: float | None) -> LogRead:
        """Read from a position up to the current high watermark.

        The returned records can have offsets before the position, because a marker after the
        position can commit earlier records.

        Args:
            position: the position that an earlier read returned, or None for the start of the log.
            deadline: time limit in seconds of the client's clock; None for no deadline.

        Raises:
            UnknownTopicError: the topic does not exist.
            AuthorizationError: an ACL is missing; the error contains it.
            ProtocolError: a batch is corrupt.
            BrokerUnavailableError: the deadline has passed.
        """
        attempts, restarted = 0, False
        while True:
            response = self._read(position, deadline)
            if response is not None:
                return response._replace(restarted=restarted)
            restarted, position = restarted or position is not None, None
            delay = retry_delay(self._client.config, attempts, self._client.random)
            self._client.pause(delay, deadline)
            attempts += 1

    def marker_of(
        self, producer_id: int, after: int, deadline: float | None
    ) -> EndTransactionMarker | None:
        """Return a producer's first marker after an offset.

        Args:
            producer_id: the producer id.
            after: the offset of a record of the transaction.
            deadline: time limit in seconds of the client's clock; None for no deadline.

        Returns:
            The marker, or None if the log does not contain it, because it was deleted or is not
            written yet.

        Raises:
            KafkaProdError: see `read`.
        """
        end = self._offset(LATEST, deadline)
        offset = max(after + 1, self._offset(EARLIEST, deadline))
        while offset < end:
            fetched = self._fetch(FetchFrom(offset=offset), deadline)
            batches = () if fetched is None else whole_batches(fetched.data)
            start = offset
            for batch, header in batches:
                if header.last_offset < offset:
                    continue
                is_its = header.is_control and header.producer_id == producer_id
                if is_its and (marker := read_marker(batch, header)) is not None:
                    return marker
                offset = header.last_offset + 1
            if offset == start:
                return None
        return None

    def _read(self, position: Position | None, deadline: float | None) -> LogRead | None:
        """Make one attempt. Return None if reading must restart from the start of the log."""
        end = self._offset(LATEST, deadline)
        topic_id = _topic_id(self._client, self._topic_partition)
        if position is not None and self._is_other(position):
            return None
        start = self._offset(EARLIEST, deadline) if position is None else position.offset
        if start > end:
            return None
        committed = CommittedRecords(() if position is None else position.pending)
        reached = self._read_until(end, start, committed, position, deadline)
        if reached is None or _topic_id(self._client, self._topic_partition) != topic_id:
            return None
        new = Position(
            topic_id=topic_id,
            offset=reached.offset,
            leader_epoch=reached.last_epoch,
            pending=committed.pending,
        )
        return LogRead(committed.take(), new, restarted=False)

    def _read_until(
        self,
        end: int,
        start: int,
        committed: CommittedRecords,
        position: Position | None,
        deadline: float | None,
    ) -> FetchFrom | None:
        """Add the batches from `start` to `end`; return the position after them, or None."""
        last_epoch = _NO_EPOCH if position is None else position.leader_epoch
        fetch_from = FetchFrom(offset=start, last_epoch=last_epoch)
        is_checked = False  # Fetch even from an empty log, to detect a missing ACL immediately.
        while fetch_from.offset < end or not is_checked:
            step = self._fetch_committed(committed, fetch_from, end, deadline)
            if step is None:
                return None
            fetched, next_fetch = step
            if position is not None and not is_checked and not fetched.by_id:
                self._client.refresh_metadata(deadline)
                if self._is_other(position):
                    return None
            is_checked = True
            if next_fetch == fetch_from and fetch_from.offset < end:
                if fetched.high_watermark >= end:
                    break  # Compaction has removed all records after this offset.
                return None  # A new leader has not determined its high watermark yet.
            fetch_from = next_fetch
        return fetch_from

    def _fetch_committed(
        self, committed: CommittedRecords, fetch_from: FetchFrom, end: int, deadline: float | None
    ) -> tuple[Fetched, FetchFrom] | None:
        """Fetch at `fetch_from`, add the batches, and return the response and the next position.

        Return None if reading must restart. An empty response can have other reasons than
        compaction, such as a quota, so the leader must return it twice.
        """
        fetched = self._fetch(fetch_from, deadline)
        if (
            fetched is not None
            and not (fetched.data or fetched.diverged)
            and fetch_from.offset < end
        ):
            fetched = self._fetch(fetch_from, deadline, _EMPTY_WAIT_MS)
        if fetched is None or fetched.diverged:
            return None
        next_fetch = _take(fetched, committed, fetch_from)
        if next_fetch == fetch_from and fetch_from.offset < end and fetched.data:
            raise ProtocolError(
                f"the leader returned {len(fetched.data)} bytes, but no complete batch at offset "
                f"{fetch_from.offset} or later",
                topic=self._topic_partition.topic,
                partition=self._topic_partition.partition,
            )
        return fetched, next_fetch

    def _is_other(self, position: Position) -> bool:
        """Return True if the topic has been deleted and recreated since `position`."""
        info = self._client.cluster.topics.get(self._topic_partition.topic)
        return info is not None and info.is_other(position.topic_id)

    def _offset(self, timestamp: int, deadline: float | None) -> int:
        offset = self._request(ListOffsetsHandler(self._client, timestamp), deadline, "ListOffsets")
        if offset is None or offset < 0:
            raise ProtocolError("the leader returned no offset", topic=self._topic_partition.topic)
        return offset

    def _fetch(
        self, fetch_from: FetchFrom, deadline: float | None, wait_ms: int = 0
    ) -> Fetched | None:
        return self._request(
            FetchHandler(self._client, fetch_from, wait_ms=wait_ms), deadline, "Fetch"
        )

    def _request(
        self, handler: ApiHandler[TopicPartition, V], deadline: float | None, what: str
    ) -> V | None:
        """Return the leader's result, or None if reading must restart."""
        return request_of_leader(self._client, self._topic_partition, handler, deadline, what)


def request_of_leader(
    client: BlockingClient,
    topic_partition: TopicPartition,
    handler: ApiHandler[TopicPartition, V],
    deadline: float | None,
    what: str,
) -> V | None:
    """Return the leader's result, or None if the topic was recreated or the offset is out of range.

    Args:
        client: sends the request.
        topic_partition: the partition.
        handler: the API.
        deadline: time limit in seconds of the client's clock, or None.
        what: the name of the API, for errors.

    Raises:
        UnknownTopicError: the topic does not exist.
        AuthorizationError: an ACL is missing; the error contains it.
        BrokerUnavailableError: the deadline has passed.
        ProtocolError: the leader rejected the request for a different reason.
    """
    driver = ApiDriver(
        client, handler, (topic_partition,), LeaderLookup(client, _UNKNOWN_TOPIC_RETRY_S)
    )
    result = driver.complete(
        deadline, f"{what} of {topic_partition.topic}-{topic_partition.partition}"
    )[topic_partition]
    if result.code in _RESTART:
        if result.code in TOPIC_RECREATED:
            client.refresh_metadata(deadline)
        return None
    if result.code:
        raise _rejection(client, topic_partition, what, result.code)
    return result.value


def _rejection(
    client: BlockingClient, topic_partition: TopicPartition, what: str, code: int
) -> KafkaProdError:
    topic, partition = topic_partition
    if code == ErrorCode.topic_authorization_failed:
        return denied(client, what, code, on_topic(AclOperation.READ, topic))
    if code == ErrorCode.unknown_topic_or_partition:
        return UnknownTopicError(
            "the topic does not exist", topic=topic, partition=partition, error=error_name(code)
        )
    return ProtocolError(
        f"{what} was rejected", topic=topic, partition=partition, error=error_name(code)
    )


def _take(fetched: Fetched, committed: CommittedRecords, fetch_from: FetchFrom) -> FetchFrom:
    """Add the fetched batches that end at or after `fetch_from`; return the position after them."""
    for batch, header in whole_batches(fetched.data):
        if header.last_offset >= fetch_from.offset:
            committed.add(batch, header, fetch_from.offset)
            fetch_from = FetchFrom(offset=header.last_offset + 1, last_epoch=header.leader_epoch)
    return fetch_from
