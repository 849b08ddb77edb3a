"""ListOffsets and Fetch, as one reads a partition up to its high watermark.

Source: ``Fetcher``, ``OffsetFetcher``; KIP-207 (no high watermark goes back), KIP-320 (leader
epochs), KIP-516 (topic ids), KIP-595 (a log that was cut off says so).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.admin.api_driver import Action, ApiHandler, KeyResult
from spark_kafka_sink.admin.call import only
from spark_kafka_sink.admin.handlers.actions import leader_action
from spark_kafka_sink.admin.handlers.body import write
from spark_kafka_sink.client.topic_partition import TopicPartition
from spark_kafka_sink.protocol.error_codes import ErrorCode
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.admin.call import Answer
    from spark_kafka_sink.client.cluster import TopicInfo

LATEST, EARLIEST = -1, -2
"""Timestamps that stand for the high watermark and for the first offset."""
TOPIC_IDS = 13
"""The first version of Fetch with topic ids in place of names."""
_WITHOUT_TOPIC_IDS = 12
_FETCH_BYTES = 4 << 20
_UNKNOWN_EPOCH = -1
_CONSUMER = -1
_READ_UNCOMMITTED = 0
_OTHER_TOPIC = frozenset({ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id})


class ListOffsetsHandler(ApiHandler[TopicPartition, int]):
    """The first offset of a partition, or the one after the last that may be read."""

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
    """Where to go on: `last_epoch` is the leader epoch of the batch before, -1 where none is."""

    offset: int
    last_epoch: int = _UNKNOWN_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a leader sent: whole batches and perhaps a part of one, from its log as it lies there.

    `diverged`: the log was cut off before the offset that was asked for. `by_id`: the topic was
    meant by its id, so that it can't be another one of the same name.
    """

    data: memoryview
    high_watermark: int
    diverged: bool
    by_id: bool


class FetchHandler(ApiHandler[TopicPartition, Fetched]):
    """One Fetch of one partition; it does not wait for data that is not there."""

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
            # What a quota throttles is answered with nothing, and is to be asked for again.
            code = int(ErrorCode.throttling_quota_exceeded)
            return {keys[0]: KeyResult(code=code, node=answer.node)}
        told = _only_partition(answer)
        fetched = _fetched(told, answer.version)
        return {keys[0]: KeyResult(code=int(told.error_code), value=fetched, node=answer.node)}

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        if code == ErrorCode.throttling_quota_exceeded:
            return Action.RETRY
        return Action.DONE if code in _OTHER_TOPIC else leader_action(code)


def _only_partition(answer: Answer) -> Any:
    """What the answer to a request about one partition says of it."""
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
