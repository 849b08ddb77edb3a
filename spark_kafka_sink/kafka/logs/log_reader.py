"""Read the committed records of one partition, up to its high watermark.

A read_committed consumer stops at the last stable offset, so any open transaction of any producer
delays the consumer. `LogReader` reads up to the high watermark.

Source: ``Fetcher``, ``OffsetFetcher``; KIP-207 (the high watermark never decreases).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.blocking.partition_offsets import ListOffsetsHandler
from spark_kafka_sink.kafka.client.backoff import retry_delay
from spark_kafka_sink.kafka.logs.fetch import (
    MAX_WAIT_MS,
    NO_LEADER_EPOCH,
    Fetched,
    FetchFrom,
    FetchHandler,
    request_of_leader,
    topic_id_of,
    whole_batches,
)
from spark_kafka_sink.kafka.protocol.list_offsets import EARLIEST, LATEST
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.committed_records import CommittedRecords, PendingTransaction
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker, read_marker

if TYPE_CHECKING:
    import uuid

    from spark_kafka_sink.kafka.blocking.api_driver import ApiHandler, V
    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
    from spark_kafka_sink.kafka.records.record_decoder import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position in a log."""

    topic_id: uuid.UUID | None
    offset: int
    """All batches before this offset have been read."""
    leader_epoch: int = -1
    """The leader epoch of the last batch, or -1 if there is no batch. The leader uses this epoch to
    detect that the log was truncated since then.
    """
    pending: tuple[PendingTransaction, ...] = ()
    """The transactions that are open at this position."""


class LogRead(NamedTuple):
    """Records that became committed since a position, sorted by offset, and the new position."""

    records: tuple[Record, ...]
    position: Position
    restarted: bool
    """True if the position was no longer valid, because the topic was recreated, the log was
    truncated, or the offset is out of range. In this case, the whole log was read, and `records`
    replaces all records of earlier reads.
    """


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
            response = self._try_read(position, deadline)
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
        end = self._offset_at(LATEST, deadline)
        offset = max(after + 1, self._offset_at(EARLIEST, deadline))
        while offset < end:
            fetched = self._fetch_before(end, FetchFrom(offset=offset), deadline)
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

    def _try_read(self, position: Position | None, deadline: float | None) -> LogRead | None:
        """Make one attempt. Return None if reading must restart from the start of the log."""
        end = self._offset_at(LATEST, deadline)
        topic_id = topic_id_of(self._client, self._topic_partition)
        if position is not None and self._is_other(position):
            return None
        start = self._offset_at(EARLIEST, deadline) if position is None else position.offset
        if start > end:
            return None
        committed = CommittedRecords(() if position is None else position.pending)
        reached = self._read_until(end, start, committed, position, deadline)
        if reached is None or topic_id_of(self._client, self._topic_partition) != topic_id:
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
        last_epoch = NO_LEADER_EPOCH if position is None else position.leader_epoch
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

        Return None if reading must restart.
        """
        fetched = self._fetch_before(end, fetch_from, deadline)
        if fetched is None or fetched.diverged:
            return None
        next_fetch = _take_fetched(fetched, committed, fetch_from)
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
        topic = self._client.cluster.topics.get(self._topic_partition.topic)
        return topic is not None and topic.is_recreated(position.topic_id)

    def _offset_at(self, timestamp: int, deadline: float | None) -> int:
        offset = self._request_of_leader(
            ListOffsetsHandler(self._client, timestamp), deadline, "ListOffsets"
        )
        if offset is None or offset < 0:
            raise ProtocolError("the leader returned no offset", topic=self._topic_partition.topic)
        return offset

    def _fetch_before(
        self, end: int, fetch_from: FetchFrom, deadline: float | None
    ) -> Fetched | None:
        """Fetch; before `end`, the leader must return an empty response twice.

        It can have other reasons than compaction, such as a quota, or a slow store.
        """
        fetched = self._fetch(fetch_from, deadline)
        if fetched is None or fetched.data or fetched.diverged or fetch_from.offset >= end:
            return fetched
        return self._fetch(fetch_from, deadline, MAX_WAIT_MS)

    def _fetch(
        self, fetch_from: FetchFrom, deadline: float | None, wait_ms: int = 0
    ) -> Fetched | None:
        return self._request_of_leader(
            FetchHandler(self._client, fetch_from, wait_ms=wait_ms), deadline, "Fetch"
        )

    def _request_of_leader(
        self, handler: ApiHandler[TopicPartition, V], deadline: float | None, action: str
    ) -> V | None:
        """Return the leader's result, or None if reading must restart."""
        return request_of_leader(self._client, self._topic_partition, handler, deadline, action)


def _take_fetched(
    fetched: Fetched, committed: CommittedRecords, fetch_from: FetchFrom
) -> FetchFrom:
    """Add the fetched batches that end at or after `fetch_from`; return the position after them."""
    for batch, header in whole_batches(fetched.data):
        if header.last_offset >= fetch_from.offset:
            committed.add(batch, header, fetch_from.offset)
            fetch_from = FetchFrom(offset=header.last_offset + 1, last_epoch=header.leader_epoch)
    return fetch_from
