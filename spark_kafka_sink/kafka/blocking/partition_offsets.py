"""The offsets of partitions that ListOffsets returns: the first, and where readers must stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.kafka.blocking.api_driver import KeyResult, LeaderHandler, only_item
from spark_kafka_sink.kafka.protocol.isolation_level import IsolationLevel
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient, RequestCompletion
    from spark_kafka_sink.kafka.protocol.messages import FieldValues
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

CONSUMER = -1
"""The replica id of clients."""
_UNKNOWN_EPOCH = -1


@dataclass(frozen=True, eq=False)
class ListOffsetsHandler(LeaderHandler[int]):
    """Returns the first offset of a partition, or the offset at which readers must stop."""

    client: BlockingClient
    timestamp: int
    """`EARLIEST` for the first offset, or `LATEST` for the high watermark (with `READ_COMMITTED`,
    the last stable offset).
    """
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    api = ApiKey.LIST_OFFSETS

    def values(self, keys: Sequence[TopicPartition], version: int) -> FieldValues:  # noqa: ARG002
        """See `ApiHandler`."""
        (key,) = keys
        partition = {
            "partition_index": key.partition,
            "current_leader_epoch": leader_epoch(self.client, key),
            "timestamp": self.timestamp,
        }
        return {
            "replica_id": CONSUMER,
            "isolation_level": int(self.isolation),
            "topics": [{"name": key.topic, "partitions": [partition]}],
        }

    def result(self, key: TopicPartition, completion: RequestCompletion) -> KeyResult[int]:  # noqa: ARG002
        """See `ApiHandler`."""
        partition = only_partition(completion)
        return KeyResult(code=int(partition.error_code), value=int(partition.offset))


def only_partition(completion: RequestCompletion) -> Any:
    """Return the partition's part of a response to a request for one partition."""
    response = completion.response
    topics = response.responses if hasattr(response, "responses") else response.topics
    return only_item(only_item(topics, completion).partitions, completion)


def leader_epoch(client: BlockingClient, topic_partition: TopicPartition) -> int:
    """Return the leader epoch of a partition, or -1 if it is unknown."""
    topic = client.cluster.topics.get(topic_partition.topic)
    if topic is None or topic_partition.partition >= topic.partition_count:
        return _UNKNOWN_EPOCH
    return topic.leader_epochs[topic_partition.partition]
