"""The requests that append records to a partition, and their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.config.enums import Acks
from spark_kafka_sink.kafka.blocking.api_driver import KeyResult, LeaderHandler, only_item
from spark_kafka_sink.kafka.blocking.coordinator_lookup import CoordinatorHandler
from spark_kafka_sink.kafka.blocking.lookups import LeaderLookup, Lookup
from spark_kafka_sink.kafka.protocol import error_codes, produce
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import (
    TransactionalProducer,
    add_partitions_values,
    read_partition_errors,
)
from spark_kafka_sink.kafka.protocol.versions import PRODUCE_WITH_TOPIC_IDS, ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient, RequestCompletion
    from spark_kafka_sink.kafka.protocol.messages import FieldValues
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

NEW_TOPIC_RETRY_S = 30.0
"""Seconds for which the first append to a topic retries UNKNOWN_TOPIC_OR_PARTITION, because a topic
that was just created can take this long to reach all brokers.
"""


class AddPartitionsHandler(CoordinatorHandler[None]):
    """Adds one partition to a V1 transaction; the key is the transactional id."""

    api = ApiKey.ADD_PARTITIONS_TO_TXN
    # The topic may be new.
    retriable_codes = CoordinatorHandler.retriable_codes | {ErrorCode.unknown_topic_or_partition}

    def __init__(self, producer: TransactionalProducer, topic_partition: TopicPartition) -> None:
        self._producer = producer
        self._topic_partition = topic_partition

    def values(self, keys: Sequence[str], version: int) -> FieldValues:  # noqa: ARG002
        """Return the values of a request for the partition."""
        return add_partitions_values(self._producer, [self._topic_partition])

    def result(self, key: str, completion: RequestCompletion) -> KeyResult[None]:  # noqa: ARG002
        """Return the error of the partition, if any."""
        return KeyResult(
            code=only_item([*read_partition_errors(completion.response).values()], completion)
        )


@dataclass(frozen=True, eq=False)
class ProduceHandler(LeaderHandler[int]):
    """Appends a batch to a partition; the result is the first offset of the batch.

    In a transaction, retries are safe: the leader detects duplicates by producer id, epoch and
    sequence numbers.
    """

    client: BlockingClient
    batch: Sequence[Buffer]
    producer: TransactionalProducer | None = None
    """The producer, for a batch in a transaction, or None."""
    acks: int = Acks.ALL
    unknown_topic_retry_s: float = NEW_TOPIC_RETRY_S
    """Seconds for which an unknown topic is looked up again."""
    api = ApiKey.PRODUCE
    retriable_codes = LeaderHandler.retriable_codes | error_codes.COORDINATOR_ERRORS

    def lookup(self, client: BlockingClient) -> Lookup[TopicPartition]:
        """Return the lookup of the partition's leader."""
        return LeaderLookup(client, self.unknown_topic_retry_s)

    def max_version(self, keys: Sequence[TopicPartition]) -> int | None:
        """Return the transaction's maximum version; without a topic id, the last one with names."""
        max_version = (
            None if self.producer is None else self.producer.version.max_version(ApiKey.PRODUCE)
        )
        has_id = self._topic_metadata(keys[0]).topic_id is not None
        return max_version if max_version is not None or has_id else PRODUCE_WITH_TOPIC_IDS - 1

    def values(self, keys: Sequence[TopicPartition], version: int) -> FieldValues:
        """See `ApiHandler`. Not used, because `body` encodes without copying the batch."""
        raise NotImplementedError

    def body(self, keys: Sequence[TopicPartition], version: int) -> list[Buffer]:
        """Return the body of a request with the batch, which is not copied."""
        size = sum(memoryview(part).nbytes for part in self.batch)
        data = produce.PartitionData(keys[0].partition, self.batch, size)
        topic = self._topic_metadata(keys[0])
        return produce.produce_body(
            version,
            [produce.TopicData(topic.name, topic.topic_id, [data])],
            transactional_id=self.producer.transactional_id if self.producer else None,
            acks=self.acks,
            timeout_ms=self.client.config.request_timeout_ms,
        )

    def result(self, key: TopicPartition, completion: RequestCompletion) -> KeyResult[int]:  # noqa: ARG002
        """Return the first offset of the batch."""
        topic = only_item(completion.response.responses, completion)
        partition = only_item(topic.partition_responses, completion)
        return KeyResult(
            code=int(partition.error_code),
            value=int(partition.base_offset),
            message=getattr(partition, "error_message", None),
        )

    def _topic_metadata(self, topic_partition: TopicPartition) -> Any:
        return self.client.cluster.topics[topic_partition.topic]
