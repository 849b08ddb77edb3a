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
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.arguments import check_options
from spark_kafka_sink.common.errors import ConfigError, ProtocolError, UnknownTopicError
from spark_kafka_sink.common.similar_names import did_you_mean
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.kafka.admin.api_driver import request_one
from spark_kafka_sink.kafka.admin.blocking_client import BlockingClient, denied, on_topic
from spark_kafka_sink.kafka.admin.fetch import (
    FetchFrom,
    FetchHandler,
    request_of_leader,
    whole_batches,
)
from spark_kafka_sink.kafka.admin.partition_offsets import (
    EARLIEST,
    LATEST,
    IsolationLevel,
    ListOffsetsHandler,
)
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.admin.topic_handlers import DescribeTopicsHandler
from spark_kafka_sink.kafka.protocol.acl import AclOperation
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.consumer_record import ConsumerRecords, consumer_record
from spark_kafka_sink.kafka.records.control_batch import read_marker
from spark_kafka_sink.kafka.records.record_decoder import read_records as decode_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_kafka_sink.kafka.admin.fetch import AbortedTransaction, Fetched
    from spark_kafka_sink.kafka.records.consumer_record import ConsumerRecord
    from spark_kafka_sink.kafka.records.record_batch import BatchHeader

TIMEOUT_S: Final = 10.0
"""Default maximum time in seconds without progress."""
MAX_RECORDS: Final = 1_000_000
"""Maximum number of records that `read_records` returns without a `limit`, because they are in
memory.
"""
_NEW_LEADER_WAIT_S: Final = 0.1
"""Seconds between fetches while a new leader has not determined its high watermark yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets of a partition, from `start` (inclusive) to `end` (exclusive)."""

    topic_partition: TopicPartition
    start: int
    end: int


class TopicReader:
    """Reads one topic.

    Args:
        client: sends the requests; the caller closes it.
        topic: the topic's name.
        isolation: `READ_UNCOMMITTED` also returns records of open and aborted transactions.
        timeout_s: maximum time in seconds without progress.
    """

    def __init__(
        self,
        client: BlockingClient,
        topic: str,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._client = client
        self._topic = topic
        self._isolation = isolation
        self._timeout_s = timeout_s

    def partitions(self) -> tuple[int, ...]:
        """Return the numbers of the topic's partitions.

        Raises:
            UnknownTopicError: the topic does not exist.
            AuthorizationError: an ACL is missing; the error contains it.
            BrokerUnavailableError: no broker has responded in time.
        """
        client, topic = self._client, self._topic
        handler, what = DescribeTopicsHandler(), f"describing topic {topic}"
        result = request_one(client, handler, topic, self._deadline(), what)
        if result.code == ErrorCode.topic_authorization_failed:
            raise denied(client, "Metadata", result.code, on_topic(AclOperation.DESCRIBE, topic))
        if result.code == ErrorCode.unknown_topic_or_partition:
            hint = did_you_mean(topic, TopicAdmin(client).names(self._deadline()))
            raise UnknownTopicError("the topic does not exist", topic=topic, hint=hint)
        if result.code or result.value is None:
            raise ProtocolError(
                "the topic cannot be described", topic=topic, error=error_name(result.code)
            )
        return tuple(partition.index for partition in result.value.partitions)

    def bounds(self, partition: int) -> OffsetRange:
        """Return all readable offsets of a partition; raise the same errors as `partitions`."""
        topic_partition = TopicPartition(self._topic, partition)
        return OffsetRange(
            topic_partition=topic_partition,
            start=self._offset(topic_partition, EARLIEST),
            end=self._offset(topic_partition, LATEST),
        )

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """Return the offset after the last replicated record; raise errors like `partitions`."""
        return self._offset(topic_partition, LATEST, IsolationLevel.READ_UNCOMMITTED)

    def ranges(self, offset: int = 0, partition: int | None = None) -> tuple[OffsetRange, ...]:
        """Return the readable offsets from `offset`; raise the same errors as `partitions`.

        Args:
            offset: the first offset; if negative, it is relative to the end of each partition.
            partition: a partition, or None for all partitions.

        Raises:
            UnknownTopicError: also if the partition does not exist.
        """
        known = self.partitions()
        if partition is not None and partition not in known:
            raise UnknownTopicError(
                "the partition does not exist",
                topic=self._topic,
                partition=partition,
                hint=f"The topic has partitions 0 to {len(known) - 1}.",
            )
        partitions = known if partition is None else (partition,)
        return tuple(_starting_at(self.bounds(number), offset) for number in partitions)

    def records(self, offsets: OffsetRange) -> Iterator[ConsumerRecord]:
        """Yield the records of a range in order; raise the same errors as `batches`."""
        for batch, _ in self.batches(offsets):
            for record in decode_records(batch):
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
        offset, deadline = offsets.start, self._deadline()
        while offset < offsets.end:
            handler = FetchHandler(self._client, FetchFrom(offset=offset), self._isolation)
            fetched = request_of_leader(
                self._client, offsets.topic_partition, handler, deadline, "Fetch"
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
                self._client.pause(_NEW_LEADER_WAIT_S, deadline)

    def _after_deleted(self, topic_partition: TopicPartition, offset: int) -> int:
        """Return the next offset to read after retention has deleted records during the read."""
        first = self._offset(topic_partition, EARLIEST)
        if first <= offset:
            raise ProtocolError(
                "the topic was recreated, or its log was truncated, during the read",
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                hint="Read it again.",
            )
        return first

    def _end_of(self, fetched: Fetched) -> int:
        committed = self._isolation is IsolationLevel.READ_COMMITTED
        return fetched.last_stable_offset if committed else fetched.high_watermark

    def _offset(
        self,
        topic_partition: TopicPartition,
        timestamp: int,
        isolation: IsolationLevel | None = None,
    ) -> int:
        level = self._isolation if isolation is None else isolation
        handler = ListOffsetsHandler(self._client, timestamp, level)
        response = request_of_leader(
            self._client, topic_partition, handler, self._deadline(), "ListOffsets"
        )
        if response is None:
            raise ProtocolError(
                "the leader returned no offset for the partition", topic=topic_partition.topic
            )
        return response

    def _deadline(self) -> float:
        return self._client.deadline(self._timeout_s)


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
    """Yield (batch, header, visible). `visible` is True if a consumer would receive the records.

    `aborted` must be sorted by offset.
    """
    waiting, skipped = deque(aborted), set[int]()
    for batch, header in whole_batches(data):
        while waiting and waiting[0].first_offset <= header.last_offset:
            skipped.add(waiting.popleft().producer_id)
        if header.is_control:
            marker = read_marker(batch, header)
            if marker is not None and not marker.commit:
                skipped.discard(header.producer_id)
        hidden = header.is_transactional and header.producer_id in skipped
        yield batch, header, not (header.is_control or hidden)


def read_records(
    *topics: str,
    limit: int | None = None,
    partition: int | None = None,
    offset: int = 0,
    uncommitted: bool = False,
    timeout_s: float = TIMEOUT_S,
    **options: object,
) -> ConsumerRecords:
    """Return the records of topics, up to the current end of each partition.

    The options are the same as for a write. The function joins no consumer group and commits no
    offsets::

        kafka = {"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"}
        read_records(**kafka).to_pandas()
        read_records("orders", offset=-10, **kafka)  # the last ten offsets of each partition

    Args:
        topics: names of topics; by default, the value of the option `topic`.
        limit: maximum number of records, or None for all records (at most a million).
        partition: the partition to read, or None for all partitions.
        offset: the first offset; a negative offset is relative to the end of each partition.
        uncommitted: True to include records of open and aborted transactions.
        timeout_s: time in seconds to wait for a response from the brokers.
        options: options of a write, with values of any type; only connection options are used.

    Returns:
        A list of `ConsumerRecord`, by topic, partition and offset, with the methods `to_pandas()`,
        `to_arrow()` and `to_spark(spark)`.

    Raises:
        ConfigError: an option is invalid, or there are too many records without a `limit`.
        UnknownTopicError: a topic or the partition does not exist.
        AuthorizationError: an ACL is missing; the error contains it.
        BrokerUnavailableError: the brokers have not responded in time.
        KafkaProdError: the client cannot log in, or a batch cannot be decoded.
    """
    check_options("read_records(**options)", options)
    config = SinkConfig.parse({name: _text(value) for name, value in options.items()})
    names = topics or ((config.topic,) if config.topic else ())
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            "read_records() requires at least one topic name",
            hint='Example: read_records("orders").',
        )
    if limit is not None and limit < 0:
        raise ConfigError(f"read_records(): limit must not be negative, but is {limit}")
    isolation = IsolationLevel.READ_UNCOMMITTED if uncommitted else IsolationLevel.READ_COMMITTED
    with BlockingClient(config.producer) as client:
        client.await_metadata(client.deadline(timeout_s))
        readers = [TopicReader(client, name, isolation, timeout_s) for name in names]
        ranges = [
            (reader, offsets) for reader in readers for offsets in reader.ranges(offset, partition)
        ]
        if limit is None:
            _check_size(sum(offsets.end - offsets.start for _, offsets in ranges))
        records = chain.from_iterable(reader.records(offsets) for reader, offsets in ranges)
        return ConsumerRecords(islice(records, limit))


def _check_size(offsets: int) -> None:
    if offsets > MAX_RECORDS:
        raise ConfigError(
            f"read_records() would read up to {offsets:,} records into memory",
            hint="Set limit, partition or offset, or read with Spark's format('kafka').",
        )


def _text(value: object) -> str:
    """Convert an option value to text, like Spark's `option`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
