"""Read the records between two offsets of a partition, as a consumer without a group would.

`TopicReader` determines the end of a partition at the start of a call, and reads from an offset up
to this end, so every read is bounded. Only one Fetch response is in memory at a time. With
read_committed, the end is the last stable offset, and responses list the aborted transactions. The
reader does not commit offsets and does not join a group.

Exactly-once writes use `log_reader` instead, which evaluates the markers of each producer
separately, up to the high watermark.

Source: ``Fetcher``, ``CompletedFetch.nextFetchedRecord``; KIP-98.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ProtocolError, UnknownTopicError
from spark_kafka_sink.common.similar_names import did_you_mean
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.admin.topic_handlers import DescribeTopicsHandler
from spark_kafka_sink.kafka.blocking.api_driver import request_one
from spark_kafka_sink.kafka.blocking.partition_offsets import ListOffsetsHandler
from spark_kafka_sink.kafka.logs.fetch import (
    MAX_WAIT_MS,
    FetchFrom,
    FetchHandler,
    request_of_leader,
    whole_batches,
)
from spark_kafka_sink.kafka.protocol.acl import AclOperation
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.isolation_level import IsolationLevel
from spark_kafka_sink.kafka.protocol.list_offsets import EARLIEST, LATEST
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.consumer_record import consumer_record
from spark_kafka_sink.kafka.records.control_batch import read_marker
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from spark_kafka_sink.kafka.security.acl_errors import denied_error, topic_acl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
    from spark_kafka_sink.kafka.logs.fetch import AbortedTransaction, Fetched
    from spark_kafka_sink.kafka.records.consumer_record import ConsumerRecord
    from spark_kafka_sink.kafka.records.record_batch import BatchHeader

TIMEOUT_S = 10.0
"""Default maximum time in seconds without progress."""
_NEW_LEADER_WAIT_S = 0.1
"""Seconds between fetches while a new leader has not determined its high watermark yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets of a partition, from `start` (inclusive) to `end` (exclusive)."""

    topic_partition: TopicPartition
    start: int
    end: int


@dataclass
class TopicReader:
    """Reads one topic."""

    client: BlockingClient
    """Sends the requests; the caller closes it."""
    topic: str
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    """`READ_UNCOMMITTED` also returns records of open and aborted transactions."""
    timeout_s: float = TIMEOUT_S
    """Maximum time in seconds without progress."""

    def partitions(self) -> tuple[int, ...]:
        """Return the numbers of the topic's partitions.

        Raises:
            UnknownTopicError: the topic does not exist.
            AuthorizationError: an ACL is missing; the error contains it.
            BrokerUnavailableError: no broker has responded in time.
        """
        client, topic = self.client, self.topic
        handler, action = DescribeTopicsHandler(), f"describing topic {topic}"
        result = request_one(client, handler, topic, self._deadline(), action)
        if result.code == ErrorCode.topic_authorization_failed:
            raise denied_error(
                client.config, "Metadata", result.code, topic_acl(AclOperation.DESCRIBE, topic)
            )
        if result.code == ErrorCode.unknown_topic_or_partition:
            hint = did_you_mean(topic, TopicAdmin(client).names(self._deadline()))
            raise UnknownTopicError("the topic does not exist", topic=topic, hint=hint)
        if result.code or result.value is None:
            raise ProtocolError(
                "the topic cannot be described", topic=topic, kafka_error=error_name(result.code)
            )
        return tuple(partition.index for partition in result.value.partitions)

    def bounds(self, partition: int) -> OffsetRange:
        """Return all readable offsets of a partition; raise the same errors as `partitions`."""
        topic_partition = TopicPartition(self.topic, partition)
        return OffsetRange(
            topic_partition=topic_partition,
            start=self._offset_at(topic_partition, EARLIEST),
            end=self._offset_at(topic_partition, LATEST),
        )

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """Return the offset after the last replicated record; raise errors like `partitions`."""
        return self._offset_at(topic_partition, LATEST, IsolationLevel.READ_UNCOMMITTED)

    def ranges(self, offset: int = 0, partition: int | None = None) -> tuple[OffsetRange, ...]:
        """Return the readable offsets from `offset`; raise the same errors as `partitions`.

        Args:
            offset: the first offset; if negative, it is relative to the end of each partition.
            partition: a partition, or None for all partitions.

        Raises:
            UnknownTopicError: also if the partition does not exist.
        """
        existing = self.partitions()
        if partition is not None and partition not in existing:
            raise UnknownTopicError(
                "the partition does not exist",
                topic=self.topic,
                partition=partition,
                hint=f"The topic has partitions 0 to {len(existing) - 1}.",
            )
        partitions = existing if partition is None else (partition,)
        return tuple(_starting_at(self.bounds(number), offset) for number in partitions)

    def records(self, offsets: OffsetRange) -> Iterator[ConsumerRecord]:
        """Yield the records of a range in order; raise the same errors as `batches`."""
        for batch, _ in self.batches(offsets):
            for record in decode_batch(batch):
                if offsets.start <= record.offset < offsets.end:
                    yield consumer_record(*offsets.topic_partition, record)

    def batches(self, offsets: OffsetRange) -> Iterator[tuple[memoryview, BatchHeader]]:
        """Yield the batches that a consumer would receive for a range, in order.

        Raises:
            UnknownTopicError: the topic does not exist.
            AuthorizationError: an ACL is missing; the error contains it.
            ProtocolError: a batch is corrupt, or the topic was recreated or truncated.
            BrokerUnavailableError: the brokers have not responded in time.
        """
        offset = offsets.start
        deadline = self._deadline()
        while offset < offsets.end:
            start_from = FetchFrom(offset=offset)
            handler = FetchHandler(self.client, start_from, self.isolation, MAX_WAIT_MS)
            fetched = request_of_leader(
                self.client, offsets.topic_partition, handler, deadline, "Fetch"
            )
            if fetched is None:
                offset = self._after_deleted(offsets.topic_partition, offset)
                continue
            start = offset
            for batch, header, is_visible in visible_batches(fetched.data, fetched.aborted):
                if header.last_offset < offset:
                    continue
                offset = header.last_offset + 1
                if is_visible and header.base_offset < offsets.end:
                    yield batch, header
            if offset > start:
                deadline = self._deadline()
            elif self._end_of(fetched) >= offsets.end:
                return  # Compaction has removed all records after this offset.
            else:
                self.client.pause(_NEW_LEADER_WAIT_S, deadline)

    def _after_deleted(self, topic_partition: TopicPartition, offset: int) -> int:
        """Return the next offset to read after retention has deleted records during the read."""
        first = self._offset_at(topic_partition, EARLIEST)
        if first <= offset:
            raise ProtocolError(
                "the topic was recreated, or its log was truncated, during the read",
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                hint="Read it again.",
            )
        return first

    def _end_of(self, fetched: Fetched) -> int:
        committed = self.isolation is IsolationLevel.READ_COMMITTED
        return fetched.last_stable_offset if committed else fetched.high_watermark

    def _offset_at(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        isolation: IsolationLevel | None = None,
    ) -> int:
        level = self.isolation if isolation is None else isolation
        handler = ListOffsetsHandler(self.client, timestamp, level)
        response = request_of_leader(
            self.client, topic_partition, handler, self._deadline(), "ListOffsets"
        )
        if response is None:
            raise ProtocolError(
                "the leader returned no offset for the partition", topic=topic_partition.topic
            )
        return response

    def _deadline(self) -> float:
        return self.client.deadline(self.timeout_s)


def _starting_at(bounds: OffsetRange, offset: int) -> OffsetRange:
    """Return the range from `offset` on. A negative offset is relative to the end."""
    start = bounds.end + offset if offset < 0 else offset
    return OffsetRange(
        topic_partition=bounds.topic_partition,
        start=min(max(start, bounds.start), bounds.end),
        end=bounds.end,
    )


def visible_batches(
    data: memoryview, aborted: Iterable[AbortedTransaction]
) -> Iterator[tuple[memoryview, BatchHeader, bool]]:
    """Yield (batch, header, is_visible); `is_visible`: a consumer would receive the records.

    `aborted` must be sorted by offset.
    """
    waiting = deque(aborted)
    skipped = set[int]()
    for batch, header in whole_batches(data):
        while waiting and waiting[0].first_offset <= header.last_offset:
            skipped.add(waiting.popleft().producer_id)
        if header.is_control:
            marker = read_marker(batch, header)
            if marker is not None and not marker.is_commit:
                skipped.discard(header.producer_id)
        hidden = header.is_transactional and header.producer_id in skipped
        yield batch, header, not (header.is_control or hidden)
