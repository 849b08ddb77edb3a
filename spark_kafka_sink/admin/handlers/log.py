"""Handlers that append to a partition in a transaction, and that read a partition.

- AddPartitionsToTxn and Produce append batches in a transaction. Source: ``TransactionManager``,
  ``Sender``; KIP-98, KIP-890.
- ListOffsets and Fetch read a partition up to its high watermark. Source: ``Fetcher``,
  ``OffsetFetcher``; KIP-207 (the high watermark never decreases), KIP-320 (leader epochs), KIP-516
  (topic ids), KIP-595 (Fetch detects a truncated log).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.admin.api_driver import Action, ApiHandler, KeyResult
from spark_kafka_sink.admin.call import only
from spark_kafka_sink.admin.handlers.actions import coordinator_action, leader_action, write
from spark_kafka_sink.client.cluster import TopicPartition
from spark_kafka_sink.protocol.error_codes import COORDINATOR_ERRORS, TOPIC_RECREATED, ErrorCode
from spark_kafka_sink.protocol.produce_request import (
    PartitionData,
    ProduceHead,
    TopicData,
    produce_body,
)
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.admin.call import Answer
    from spark_kafka_sink.client.cluster import TopicInfo
    from spark_kafka_sink.protocol.transactions import OpenTransaction


_ALL = -1
_WITHOUT_TOPIC_IDS = 12


class AddPartitionsHandler(ApiHandler[str, None]):
    """Adds one partition to a V1 transaction; the key is the transactional id."""

    api = ApiKey.ADD_PARTITIONS_TO_TXN

    def __init__(self, owner: OpenTransaction, partition: TopicPartition) -> None:
        self._owner = owner
        self._partition = partition

    def body(self, keys: Sequence[str], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        topic = {"name": self._partition.topic, "partitions": [self._partition.partition]}
        values = {
            "v3_and_below_transactional_id": keys[0],
            "v3_and_below_producer_id": self._owner.producer_id,
            "v3_and_below_producer_epoch": self._owner.epoch,
            "v3_and_below_topics": [topic],
        }
        return write(self.api, version, values)

    def results(self, keys: Sequence[str], answer: Answer) -> Mapping[str, KeyResult[None]]:
        """See `ApiHandler`."""
        response: Any = answer.response
        topic = only(response.results_by_topic_v3_and_below, answer)
        told = only(topic.results_by_partition, answer)
        return {keys[0]: KeyResult(code=int(told.partition_error_code), node=answer.node)}

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        is_new = code == ErrorCode.unknown_topic_or_partition
        return Action.RETRY if is_new else coordinator_action(code)


class ProduceHandler(ApiHandler[TopicPartition, int]):
    """Appends one batch to one partition in a transaction; the value is its first offset.

    Retries are safe: the leader detects duplicates by producer id, epoch and sequence numbers.
    """

    api = ApiKey.PRODUCE

    def __init__(
        self, client: BlockingClient, owner: OpenTransaction, batch: Sequence[Buffer]
    ) -> None:
        self._client = client
        self._owner = owner
        self._batch = batch

    def cap(self, keys: Sequence[TopicPartition]) -> int | None:
        """See `ApiHandler`."""
        cap = self._owner.version.produce_cap
        has_id = self._topic(keys[0]).topic_id is not None
        return cap if cap is not None or has_id else _WITHOUT_TOPIC_IDS

    def body(self, keys: Sequence[TopicPartition], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        head = ProduceHead(
            version=version,
            transactional_id=self._owner.transactional_id,
            acks=_ALL,
            timeout_ms=self._client.config.request_timeout_ms,
        )
        size = sum(memoryview(part).nbytes for part in self._batch)
        data = PartitionData(keys[0].partition, self._batch, size)
        topic = self._topic(keys[0])
        return produce_body(head, [TopicData(topic.name, topic.topic_id, [data])])

    def results(
        self, keys: Sequence[TopicPartition], answer: Answer
    ) -> Mapping[TopicPartition, KeyResult[int]]:
        """See `ApiHandler`."""
        response: Any = answer.response
        told = only(only(response.responses, answer).partition_responses, answer)
        return {
            keys[0]: KeyResult(
                code=int(told.error_code),
                value=int(told.base_offset),
                message=getattr(told, "error_message", None),
                node=answer.node,
            )
        }

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        return Action.RETRY if code in COORDINATOR_ERRORS else leader_action(code)

    def _topic(self, key: TopicPartition) -> Any:
        return self._client.cluster.topics[key.topic]


LATEST, EARLIEST = -1, -2
"""Timestamps that request the high watermark and the first offset."""
TOPIC_IDS = 13
"""The first version of Fetch with topic ids instead of names."""
_FETCH_BYTES = 4 << 20
_UNKNOWN_EPOCH = -1
_CONSUMER = -1
_READ_UNCOMMITTED = 0


class ListOffsetsHandler(ApiHandler[TopicPartition, int]):
    """Returns the first offset of a partition, or its high watermark."""

    api = ApiKey.LIST_OFFSETS

    def __init__(self, client: BlockingClient, timestamp: int) -> None:
        self._client = client
        self._timestamp = timestamp

    def body(self, keys: Sequence[TopicPartition], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        (key,) = keys
        partition = {
            "partition_index": key.partition,
            "current_leader_epoch": _leader_epoch(self._client, key),
            "timestamp": self._timestamp,
        }
        values = {
            "replica_id": _CONSUMER,
            "isolation_level": _READ_UNCOMMITTED,
            "topics": [{"name": key.topic, "partitions": [partition]}],
        }
        return write(self.api, version, values)

    def results(
        self, keys: Sequence[TopicPartition], answer: Answer
    ) -> Mapping[TopicPartition, KeyResult[int]]:
        """See `ApiHandler`."""
        told = _only_partition(answer)
        return {
            keys[0]: KeyResult(code=int(told.error_code), value=int(told.offset), node=answer.node)
        }

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        return leader_action(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFrom:
    """The start of a Fetch.

    `last_epoch` is the leader epoch of the preceding batch, -1 if there is none.
    """

    offset: int
    last_epoch: int = _UNKNOWN_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A leader's response: raw batches of its log, of which the last may be incomplete.

    `diverged`: the log was truncated before the requested offset. `by_id`: the request identified
    the topic by its id, so it cannot be a recreated topic.
    """

    data: memoryview
    high_watermark: int
    diverged: bool
    by_id: bool


class FetchHandler(ApiHandler[TopicPartition, Fetched]):
    """Fetches from one partition once, without waiting for new data."""

    api = ApiKey.FETCH

    def __init__(self, client: BlockingClient, start: FetchFrom) -> None:
        self._client = client
        self._from = start

    def cap(self, keys: Sequence[TopicPartition]) -> int | None:
        """See `ApiHandler`."""
        return None if _topic_id(self._client, keys[0]) is not None else _WITHOUT_TOPIC_IDS

    def body(self, keys: Sequence[TopicPartition], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        (key,) = keys
        partition = {
            "partition": key.partition,
            "current_leader_epoch": _leader_epoch(self._client, key),
            "fetch_offset": self._from.offset,
            "last_fetched_epoch": self._from.last_epoch,
            "partition_max_bytes": _FETCH_BYTES,
        }
        topic = {
            "topic": key.topic,
            "topic_id": _topic_id(self._client, key),
            "partitions": [partition],
        }
        values = {
            "replica_id": _CONSUMER,
            "max_wait": timedelta(0),
            "min_bytes": 0,
            "max_bytes": _FETCH_BYTES,
            "isolation_level": _READ_UNCOMMITTED,
            "topics": [topic],
        }
        return write(self.api, version, values)

    def results(
        self, keys: Sequence[TopicPartition], answer: Answer
    ) -> Mapping[TopicPartition, KeyResult[Fetched]]:
        """See `ApiHandler`."""
        response: Any = answer.response
        if code := int(getattr(response, "error_code", 0)):
            return {keys[0]: KeyResult(code=code, node=answer.node)}
        if not response.responses:
            # A throttled Fetch has an empty response and must be retried.
            code = int(ErrorCode.throttling_quota_exceeded)
            return {keys[0]: KeyResult(code=code, node=answer.node)}
        told = _only_partition(answer)
        fetched = _fetched(told, answer.version)
        return {keys[0]: KeyResult(code=int(told.error_code), value=fetched, node=answer.node)}

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        if code == ErrorCode.throttling_quota_exceeded:
            return Action.RETRY
        return Action.DONE if code in TOPIC_RECREATED else leader_action(code)


def _only_partition(answer: Answer) -> Any:
    """Return the partition's part of a response to a request for one partition."""
    response: Any = answer.response
    topics = response.responses if hasattr(response, "responses") else response.topics
    return only(only(topics, answer).partitions, answer)


def _fetched(told: Any, version: int) -> Fetched:
    diverging = getattr(told, "diverging_epoch", None)
    return Fetched(
        data=memoryview(told.records or b""),
        high_watermark=int(told.high_watermark),
        diverged=diverging is not None and int(diverging.end_offset) >= 0,
        by_id=version >= TOPIC_IDS,
    )


def _topic(client: BlockingClient, key: TopicPartition) -> TopicInfo | None:
    return client.cluster.topics.get(key.topic)


def _topic_id(client: BlockingClient, key: TopicPartition) -> uuid.UUID | None:
    topic = _topic(client, key)
    return None if topic is None else topic.topic_id


def _leader_epoch(client: BlockingClient, key: TopicPartition) -> int:
    topic = _topic(client, key)
    if topic is None or key.partition >= topic.partition_count:
        return _UNKNOWN_EPOCH
    return topic.leader_epochs[key.partition]
