"""Fetch from the leader of a partition, and divide the response into batches.

Source: ``Fetcher``; KIP-320 (leader epochs), KIP-516 (topic ids), KIP-595 (Fetch detects a
truncated log).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.common.errors import KafkaProdError, ProtocolError, UnknownTopicError
from spark_kafka_sink.kafka.blocking.api_driver import (
    ApiDriver,
    ApiHandler,
    KeyResult,
    LeaderHandler,
)
from spark_kafka_sink.kafka.blocking.lookups import LeaderLookup
from spark_kafka_sink.kafka.blocking.partition_offsets import CONSUMER, leader_epoch, only_partition
from spark_kafka_sink.kafka.protocol.acl import AclOperation
from spark_kafka_sink.kafka.protocol.error_codes import TOPIC_RECREATED, ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.isolation_level import IsolationLevel
from spark_kafka_sink.kafka.protocol.versions import FETCH_WITH_TOPIC_IDS, ApiKey
from spark_kafka_sink.kafka.records import record_batch
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.kafka.security.acl_errors import denied_error, topic_acl

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator, Sequence

    from spark_kafka_sink.kafka.blocking.api_driver import V
    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient, RequestCompletion
    from spark_kafka_sink.kafka.protocol.messages import FieldValues
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition


_FETCH_BYTES = 4 << 20
"""Maximum size of a response in bytes, if its first batch is not larger."""
MAX_WAIT_MS = 500
"""max.wait.ms of a Fetch whose empty response means that compaction has removed all records, as in
Java's consumer. Without a wait, some brokers do not read from a slow store.
"""
NO_LEADER_EPOCH = -1
_UNKNOWN_TOPIC_RETRY_S = 0.3
"""Seconds for which UNKNOWN_TOPIC_OR_PARTITION is retried. This is short, because a read expects an
existing topic, and should fail soon if its name is wrong.
"""
_RESTART = TOPIC_RECREATED | {ErrorCode.offset_out_of_range}


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFrom:
    """The position at which a Fetch starts."""

    offset: int
    last_epoch: int = NO_LEADER_EPOCH
    """The leader epoch of the preceding batch, or -1 if there is no preceding batch."""


class AbortedTransaction(NamedTuple):
    """A transaction whose records are skipped by read_committed consumers."""

    first_offset: int
    producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A leader's response, with raw batches of its log; the last batch can be incomplete."""

    data: memoryview
    high_watermark: int
    last_stable_offset: int
    aborted: tuple[AbortedTransaction, ...]
    """Sorted; empty with `READ_UNCOMMITTED`."""
    diverged: bool
    """True if the log was truncated before the requested offset."""
    by_id: bool
    """True if the request contained the topic id, so that a recreated topic is excluded."""


@dataclass(frozen=True, eq=False)
class FetchHandler(LeaderHandler[Fetched]):
    """Fetches from a partition once; waits at most `wait_ms` milliseconds for data."""

    client: BlockingClient
    start: FetchFrom
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    wait_ms: int = 0
    api = ApiKey.FETCH
    retriable_codes = LeaderHandler.retriable_codes | {ErrorCode.throttling_quota_exceeded}
    lookup_codes = LeaderHandler.lookup_codes - TOPIC_RECREATED

    def max_version(self, keys: Sequence[TopicPartition]) -> int | None:
        """See `ApiHandler`."""
        return None if topic_id_of(self.client, keys[0]) is not None else FETCH_WITH_TOPIC_IDS - 1

    def values(self, keys: Sequence[TopicPartition], version: int) -> FieldValues:  # noqa: ARG002
        """See `ApiHandler`."""
        (key,) = keys
        partition = {
            "partition": key.partition,
            "current_leader_epoch": leader_epoch(self.client, key),
            "fetch_offset": self.start.offset,
            "last_fetched_epoch": self.start.last_epoch,
            "partition_max_bytes": _FETCH_BYTES,
        }
        topic = {
            "topic": key.topic,
            "topic_id": topic_id_of(self.client, key),
            "partitions": [partition],
        }
        return {
            "replica_id": CONSUMER,
            "max_wait": timedelta(milliseconds=self.wait_ms),
            "min_bytes": 1 if self.wait_ms else 0,
            "max_bytes": _FETCH_BYTES,
            "isolation_level": int(self.isolation),
            "topics": [topic],
        }

    def result(self, key: TopicPartition, completion: RequestCompletion) -> KeyResult[Fetched]:  # noqa: ARG002
        """See `ApiHandler`."""
        if code := int(getattr(completion.response, "error_code", 0)):
            return KeyResult(code=code)
        if not completion.response.responses:  # The response to a throttled Fetch is empty.
            return KeyResult(code=ErrorCode.throttling_quota_exceeded)
        partition = only_partition(completion)
        fetched = _parse_fetched(partition, completion.version)
        return KeyResult(code=int(partition.error_code), value=fetched)


def _parse_fetched(partition: Any, version: int) -> Fetched:
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


def topic_id_of(client: BlockingClient, topic_partition: TopicPartition) -> uuid.UUID | None:
    """Return the id of the partition's topic, or None if it is unknown."""
    topic = client.cluster.topics.get(topic_partition.topic)
    return None if topic is None else topic.topic_id


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


def request_of_leader(
    client: BlockingClient,
    topic_partition: TopicPartition,
    handler: ApiHandler[TopicPartition, V],
    deadline: float | None,
    action: str,
) -> V | None:
    """Return the leader's result, or None if the topic was recreated or the offset is out of range.

    Args:
        client: sends the request.
        topic_partition: the partition.
        handler: the API.
        deadline: time limit in seconds of the client's clock, or None.
        action: the name of the API, for errors.

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
        deadline, f"{action} of {topic_partition.topic}-{topic_partition.partition}"
    )[topic_partition]
    if result.code in _RESTART:
        if result.code in TOPIC_RECREATED:
            client.refresh_metadata(deadline)
        return None
    if result.code:
        raise _rejection_error(client, topic_partition, action, result.code)
    return result.value


def _rejection_error(
    client: BlockingClient, topic_partition: TopicPartition, action: str, code: int
) -> KafkaProdError:
    topic, partition = topic_partition
    if code == ErrorCode.topic_authorization_failed:
        return denied_error(client.config, action, code, topic_acl(AclOperation.READ, topic))
    if code == ErrorCode.unknown_topic_or_partition:
        return UnknownTopicError(
            "the topic does not exist",
            topic=topic,
            partition=partition,
            kafka_error=error_name(code),
        )
    return ProtocolError(
        f"{action} was rejected", topic=topic, partition=partition, kafka_error=error_name(code)
    )
