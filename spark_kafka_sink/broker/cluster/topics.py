"""The topics of a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.assignments import Brokers
from spark_kafka_sink.broker.cluster.new_topic import DEFAULT, NewTopic, TopicError, is_topic_name
from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.broker.partition.topic import Topic
from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
from spark_kafka_sink.broker.storage.log_config import LogConfig
from spark_kafka_sink.broker.topic_config import TopicConfig, problem_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from spark_kafka_sink.broker.cluster.topic_store import TopicStore
    from spark_kafka_sink.broker.config import BrokerConfig
    from spark_kafka_sink.broker.topic_config import Layer


class Topics:
    """All topics, by name and by id."""

    __slots__ = ("_broker_layers", "_brokers", "_by_id", "_by_name", "_config", "store")

    def __init__(
        self,
        config: BrokerConfig,
        nodes: list[int],
        store: TopicStore,
        broker_layers: tuple[Layer, ...],
    ) -> None:
        self.store = store
        self._config = config
        self._brokers = Brokers(tuple(nodes), frozenset(nodes))
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._broker_layers = broker_layers
        for topic in store.load(nodes, broker_layers):
            self._keep(topic)

    def set_nodes(self, nodes: list[int]) -> None:
        """Note which nodes live: they lead new partitions."""
        self._brokers = replace(self._brokers, active=frozenset(nodes))

    def all(self) -> list[Topic]:
        """Every topic, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def logs(self) -> Iterator[UnifiedLog]:
        """The logs of all partitions."""
        return (one.log for topic in self._by_name.values() for one in topic.partitions)

    def named(self, name: str | None) -> Topic | None:
        """Find a topic by its name."""
        return self._by_name.get(name) if name is not None else None

    def with_id(self, topic_id: UUID | None) -> Topic | None:
        """Find a topic by its id."""
        return self._by_id.get(topic_id) if topic_id is not None else None

    def check(self, new: NewTopic) -> None:
        """See whether a topic could be made.

        Raises:
            TopicError: it could not.
        """
        if not is_topic_name(new.name):
            raise TopicError(
                ErrorCode.invalid_topic_exception,
                f"Topic name '{new.name}' must be 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'",
            )
        if new.name in self._by_name:
            raise TopicError(ErrorCode.topic_already_exists, f"Topic '{new.name}' already exists.")
        if new.assignments and (problem := _misassigned(new, self._brokers)):
            raise problem
        if new.partitions != DEFAULT and new.partitions < 1:
            raise TopicError(
                ErrorCode.invalid_partitions, "Number of partitions must be larger than 0."
            )
        if new.replication_factor != DEFAULT and not (
            1 <= new.replication_factor <= len(self._brokers.registered)
        ):
            raise TopicError(
                ErrorCode.invalid_replication_factor,
                f"Unable to replicate the partition {new.replication_factor} time(s): "
                f"{len(self._brokers.registered)} broker(s) are registered.",
            )
        if wrong := problem_with(new.configs):
            raise TopicError(ErrorCode.invalid_config, wrong)

    def create(self, new: NewTopic) -> Topic:
        """Make a topic; its partitions are led by the nodes in turn.

        Raises:
            TopicError: it can't be made.
        """
        self.check(new)
        topic = self.draft(new)
        indexes = range(len(topic.partitions))
        try:
            with self.store.creating(topic.name, indexes, topic.config) as logs:
                for partition, log in zip(topic.partitions, logs, strict=True):
                    partition.log = log
                    partition.begin_leader_epoch()
                self.store.save(topic)
        except OSError as error:
            raise TopicError(ErrorCode.kafka_storage_error, str(error)) from error
        self._keep(topic)
        return topic

    def draft(self, new: NewTopic) -> Topic:
        """The topic that `create` would make; it is neither registered nor stored."""
        default = len(new.assignments) or self._config.default_partitions
        count = default if new.partitions == DEFAULT else new.partitions
        own = {key: value for key, value in new.configs.items() if value is not None}
        return Topic(
            name=new.name,
            config=TopicConfig(own=own, broker=self._broker_layers),
            partitions=[self._partition(new, index, UnifiedLog()) for index in range(count)],
        )

    def _keep(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        topic.is_replicated = any(len(one.replicas) > 1 for one in topic.partitions)

    def problem_with_replicas(self, replicas: Sequence[int]) -> str | None:
        """Say why a partition can't move to these nodes, None if it can."""
        return self._brokers.problem_with(replicas, None)

    def check_replicas(self, topic: Topic, replicas: Sequence[int]) -> None:
        """See whether a new partition of a topic could be on these nodes.

        Raises:
            TopicError: it could not.
        """
        if problem := self._brokers.problem_with_new(replicas, topic.replication_factor):
            raise TopicError(ErrorCode.invalid_replica_assignment, problem)

    def add_partitions(
        self, topic: Topic, count: int, assignments: Mapping[int, Sequence[int]]
    ) -> None:
        """Let a topic have `count` partitions, more than it has; some of them on certain nodes.

        Raises:
            TopicError: there is no place for them.
        """
        factor = topic.replication_factor
        new = NewTopic(name=topic.name, replication_factor=factor, assignments=assignments)
        indexes = range(len(topic.partitions), count)
        try:
            with self.store.creating(topic.name, indexes, topic.config) as logs:
                added = [self._partition(new, *one) for one in zip(indexes, logs, strict=True)]
                self.store.save(replace(topic, partitions=[*topic.partitions, *added]))
        except OSError as error:
            raise TopicError(ErrorCode.kafka_storage_error, str(error)) from error
        topic.partitions += added

    def configure(self, topic: Topic, own: Mapping[str, str]) -> None:
        """Replace the configs that a topic sets itself; they count at once."""
        self._take(topic, replace(topic.config, own=dict(own)))
        self.store.save(topic)

    def set_broker_layers(self, layers: tuple[Layer, ...]) -> None:
        """Replace the brokers' part of all topics' configs; it counts at once."""
        self._broker_layers = layers
        for topic in self._by_name.values():
            self._take(topic, replace(topic.config, broker=layers))

    def _take(self, topic: Topic, config: TopicConfig) -> None:
        topic.config = config
        for partition in topic.partitions:
            partition.log.storage.config = LogConfig.of(config)

    def _partition(self, new: NewTopic, index: int, log: UnifiedLog) -> Partition:
        default = self._config.replication_factor
        replication_factor = (
            default if new.replication_factor == DEFAULT else new.replication_factor
        )
        assigned = new.assignments.get(index)
        replicas = (
            self._brokers.assign(index, replication_factor) if assigned is None else list(assigned)
        )
        living = self._brokers.living(replicas)
        partition = Partition(
            topic=new.name,
            index=index,
            leader=living[0],
            replicas=replicas,
            in_sync=living,
            log=log,
        )
        partition.begin_leader_epoch()
        return partition

    def delete(self, topic: Topic) -> None:
        """Forget a topic and its data.

        Raises:
            TopicError: the storage can't; the topic is still there.
        """
        try:
            self.store.remove(topic)
        except OSError as error:
            raise TopicError(ErrorCode.kafka_storage_error, str(error)) from error
        del self._by_name[topic.name]
        del self._by_id[topic.id]


def _misassigned(new: NewTopic, brokers: Brokers) -> TopicError | None:
    """What is wrong with a topic's assignments, as ReplicationControlManager.createTopic says."""
    if new.partitions != DEFAULT or new.replication_factor != DEFAULT:
        return TopicError(
            ErrorCode.invalid_request,
            "Assignments were given, but the partitions or the replication factor are not -1.",
        )
    if sorted(new.assignments) != list(range(len(new.assignments))):
        return TopicError(
            ErrorCode.invalid_replica_assignment,
            "The assignments must be those of consecutive partitions from 0.",
        )
    size = len(new.assignments[0])
    for replicas in new.assignments.values():
        if problem := brokers.problem_with_new(replicas, size):
            return TopicError(ErrorCode.invalid_replica_assignment, problem)
    return None
