"""An immutable snapshot of the cluster: brokers, topics, partitions and their leaders.

The sender thread replaces the snapshot as a whole. Any thread can read it. Source:
``MetadataResponse``, KIP-516 (topic ids), KIP-951 (leaders in Produce responses).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER

if TYPE_CHECKING:
    import uuid
    from collections.abc import Collection, Iterable, Mapping


MAX_PARTITIONS = 1 << 20
"""Maximum accepted partition count of a topic, which is far above what Kafka supports."""
_HAS_PARTITIONS = frozenset({ErrorCode.none, ErrorCode.leader_not_available})
_RELIABLE_EPOCHS_VERSION = 9
"""First version of Metadata with reliable leader epochs. Older versions can return stale epochs
(KAFKA-9212).
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A broker's id and address; bootstrap nodes have negative ids, as in Java."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterTopic:
    """An existing topic."""

    name: str
    topic_id: uuid.UUID | None
    leaders: tuple[int, ...]
    """The leaders, by partition."""
    leader_epochs: tuple[int, ...]
    """Their epochs, by partition."""

    def is_recreated(self, topic_id: uuid.UUID | None) -> bool:
        """Return True if `topic_id` is known and different, because the topic was recreated."""
        return None not in {self.topic_id, topic_id} and self.topic_id != topic_id

    @property
    def partition_count(self) -> int:
        """The number of partitions."""
        return len(self.leaders)

    @property
    def led_partitions(self) -> tuple[int, ...]:
        """The partitions that currently have a leader."""
        if NO_LEADER not in self.leaders:
            return tuple(range(len(self.leaders)))
        return tuple(i for i, leader in enumerate(self.leaders) if leader != NO_LEADER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The brokers by id and the topics by name."""

    nodes: Mapping[int, Node] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, ClusterTopic] = field(default_factory=lambda: MappingProxyType({}))
    errors: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Error codes by topic name."""
    cluster_id: str | None = None

    @property
    def unauthorized(self) -> frozenset[str]:
        """Topics that this client is not authorized to describe or create."""
        denied = ErrorCode.topic_authorization_failed
        return frozenset(name for name, code in self.errors.items() if code == denied)

    def leader(self, topic: str, partition: int) -> int:
        """Return the node id of a partition's leader, or NO_LEADER if it is unknown."""
        cluster_topic = self.topics.get(topic)
        if cluster_topic is None or not 0 <= partition < len(cluster_topic.leaders):
            return NO_LEADER
        leader = cluster_topic.leaders[partition]
        return leader if leader in self.nodes else NO_LEADER

    def with_leader(self, topic: str, partition: int, leader: int, epoch: int) -> ClusterSnapshot:
        """Return the cluster with a partition's new leader, if `epoch` is newer (KIP-951)."""
        cluster_topic = self.topics.get(topic)
        if cluster_topic is None or partition >= cluster_topic.partition_count:
            return self
        if epoch <= cluster_topic.leader_epochs[partition] or leader not in self.nodes:
            return self
        moved = replace(
            cluster_topic,
            leaders=_with_value(cluster_topic.leaders, partition, leader),
            leader_epochs=_with_value(cluster_topic.leader_epochs, partition, epoch),
        )
        return replace(self, topics=MappingProxyType({**self.topics, topic: moved}))

    def with_nodes(self, nodes: Iterable[Node]) -> ClusterSnapshot:
        """Return the cluster with brokers added, or with their addresses replaced."""
        proper = {node.node_id: node for node in nodes if node.node_id >= 0}
        return replace(self, nodes=MappingProxyType({**self.nodes, **proper}))

    def without_nodes(self) -> ClusterSnapshot:
        """Return the cluster without brokers, so that no partition has a leader."""
        return replace(self, nodes=MappingProxyType({}))

    def only(self, names: Collection[str]) -> ClusterSnapshot:
        """Return the cluster with only these topics."""
        return replace(
            self,
            topics=MappingProxyType({k: v for k, v in self.topics.items() if k in names}),
            errors=MappingProxyType({k: v for k, v in self.errors.items() if k in names}),
        )

    def assuming(self, topics: Iterable[tuple[str, int]]) -> ClusterSnapshot:
        """Return the cluster with missing topics added, given as (name, partition count).

        The leaders of their partitions are assigned round robin.
        """
        nodes = sorted(self.nodes)
        missing = {
            name: ClusterTopic(
                name, None, tuple(nodes[i % len(nodes)] for i in range(count)), (-1,) * count
            )
            for name, count in topics
            if self.errors.get(name) == ErrorCode.unknown_topic_or_partition
            and nodes
            and count <= MAX_PARTITIONS
        }
        if not missing:
            return self
        return replace(
            self,
            topics=MappingProxyType({**self.topics, **missing}),
            errors=MappingProxyType({k: v for k, v in self.errors.items() if k not in missing}),
        )

    def updated(self, response: Any) -> ClusterSnapshot:
        """Return the cluster, updated from a MetadataResponse; topics that it omits are unchanged.

        Raises:
            ProtocolError: the response contains an invalid partition number.
        """
        nodes = {
            int(broker.node_id): Node(int(broker.node_id), broker.host, int(broker.port))
            for broker in response.brokers
            if int(broker.node_id) >= 0  # Bootstrap servers and missing leaders have negative ids.
        }
        topics, errors = dict(self.topics), dict(self.errors)
        for topic in response.topics:
            if topic.name is None:
                continue
            code = int(topic.error_code)
            if topic.partitions and code in _HAS_PARTITIONS:
                received = _cluster_topic(topic, response.__version__)
                topics[topic.name] = _newest(topics.get(topic.name), received)
                errors.pop(topic.name, None)
            else:
                topics.pop(topic.name, None)
                errors[topic.name] = code
        return ClusterSnapshot(
            nodes=MappingProxyType(nodes),
            topics=MappingProxyType(topics),
            errors=MappingProxyType(errors),
            cluster_id=getattr(response, "cluster_id", None),
        )


def _with_value(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _cluster_topic(topic: Any, version: int) -> ClusterTopic:
    indexes = [int(partition.partition_index) for partition in topic.partitions]
    for index in (min(indexes), max(indexes)):
        if not 0 <= index < MAX_PARTITIONS:
            raise ProtocolError(
                f"the broker returned the invalid partition {index}", topic=topic.name
            )
    count = 1 + max(indexes)
    leaders, epochs = [NO_LEADER] * count, [-1] * count
    for partition in topic.partitions:
        index = int(partition.partition_index)
        leaders[index] = int(partition.leader_id)
        if version >= _RELIABLE_EPOCHS_VERSION:
            epochs[index] = int(partition.leader_epoch)
    return ClusterTopic(topic.name, getattr(topic, "topic_id", None), tuple(leaders), tuple(epochs))


def _newest(earlier: ClusterTopic | None, received: ClusterTopic) -> ClusterTopic:
    """Return `received`, but keep leaders with newer epochs: brokers can lag (KAFKA-6614)."""
    if earlier is None or earlier.is_recreated(received.topic_id):
        return received
    if earlier.partition_count > received.partition_count:
        return received
    leaders, epochs = list(received.leaders), list(received.leader_epochs)
    for index, epoch in enumerate(earlier.leader_epochs):
        if -1 < epochs[index] < epoch:
            leaders[index], epochs[index] = earlier.leaders[index], epoch
    return replace(received, leaders=tuple(leaders), leader_epochs=tuple(epochs))
