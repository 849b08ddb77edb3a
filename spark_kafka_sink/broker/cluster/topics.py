"""The topics of a cluster: validation and replica assignment.

Manual assignments are validated as in Kafka's
ReplicationControlManager.validateManualPartitionAssignment. They can contain nodes that are down,
because such nodes are still registered.
"""

from __future__ import annotations

import contextlib
from dataclasses import InitVar, dataclass, field, replace
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.cluster.replica_placer import ReplicaPlacer
from spark_kafka_sink.broker.config.topic_config import ConfigLayer, TopicConfig, problem_with
from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.broker.partition.topic import Topic
from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.common.text import is_topic_name
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from uuid import UUID

    from spark_kafka_sink.broker.cluster.topic_store import TopicStore
    from spark_kafka_sink.broker.config.broker_config import BrokerConfig

DEFAULT = -1
"""Number of partitions or replicas that stands for the broker's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic to be created.

    A partition count or replication factor of -1 selects the default.
    """

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The replicas by partition index. The broker assigns the replicas of all other partitions."""
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Topics:
    """All topics, by name and by id."""

    _config: BrokerConfig
    """The settings with which the broker was started."""
    nodes: InitVar[list[int]]
    """The active nodes."""
    store: TopicStore
    """Contains the topics that existed before a restart."""
    _broker_layers: tuple[ConfigLayer, ...]
    """The broker configs that provide defaults for topic configs."""
    _forget_offsets: Callable[[str], None]
    """Deletes the committed offsets of all groups for a topic."""
    _by_name: dict[str, Topic] = field(default_factory=dict, init=False)
    _by_id: dict[UUID, Topic] = field(default_factory=dict, init=False)
    _placer: ReplicaPlacer = field(init=False)

    def __post_init__(self, nodes: list[int]) -> None:
        self._placer = ReplicaPlacer(tuple(nodes), frozenset(nodes))
        for topic in self.store.load(nodes, self._broker_layers):
            self._by_name[topic.name] = self._by_id[topic.id] = topic

    def set_nodes(self, nodes: list[int]) -> None:
        """Set the active nodes, from which the leaders of new partitions are chosen."""
        self._placer = replace(self._placer, active=frozenset(nodes))

    def all(self) -> list[Topic]:
        """Return all topics, ordered by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def partitions(self) -> Iterator[Partition]:
        """Yield the partitions of all topics, ordered by topic name."""
        return (partition for topic in self.all() for partition in topic.partitions)

    def named(self, name: str | None) -> Topic | None:
        """Return the topic with this name, or None if it does not exist."""
        return self._by_name.get(name) if name is not None else None

    def partition(self, name: str | None, index: int) -> Partition | None:
        """Return a partition of the topic with this name, or None if it does not exist."""
        topic = self.named(name)
        return topic.partition(index) if topic else None

    def with_id(self, topic_id: UUID | None) -> Topic | None:
        """Return the topic with this id, or None if it does not exist."""
        return self._by_id.get(topic_id) if topic_id is not None else None

    def check(self, new: TopicSpec) -> None:
        """Check that a topic can be created.

        Raises:
            ResponseError: its name, partitions, replicas or configs are invalid, or the name is in
                use.
        """
        if not is_topic_name(new.name):
            raise ResponseError(
                ErrorCode.invalid_topic_exception,
                f"Topic name '{new.name}' must have 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'",
            )
        if new.name in self._by_name:
            raise ResponseError(
                ErrorCode.topic_already_exists, f"Topic '{new.name}' already exists."
            )
        if new.assignments and (problem := _check_assignments(new, self._placer)):
            raise problem
        if new.partitions != DEFAULT and new.partitions < 1:
            raise ResponseError(
                ErrorCode.invalid_partitions, "Number of partitions must be larger than 0."
            )
        if new.replication_factor != DEFAULT and not (
            1 <= new.replication_factor <= len(self._placer.registered)
        ):
            raise ResponseError(
                ErrorCode.invalid_replication_factor,
                f"Unable to replicate the partition {new.replication_factor} time(s): "
                f"{len(self._placer.registered)} broker(s) are registered.",
            )
        if wrong := problem_with(new.configs):
            raise ResponseError(ErrorCode.invalid_config, wrong)

    def create(self, new: TopicSpec) -> Topic:
        """Create a topic, and assign its partitions to the nodes in turn.

        Raises:
            ResponseError: the topic cannot be created.
        """
        self.check(new)
        topic = self.draft(new)
        count, topic.partitions = len(topic.partitions), []
        self._create_partitions(topic, new, count)
        self._by_name[topic.name] = self._by_id[topic.id] = topic
        return topic

    def draft(self, new: TopicSpec) -> Topic:
        """Return the topic that `create` would create, without registering or storing it."""
        default = len(new.assignments) or self._config.default_partitions
        count = default if new.partitions == DEFAULT else new.partitions
        overrides = {key: value for key, value in new.configs.items() if value is not None}
        return Topic(
            name=new.name,
            config=TopicConfig(overrides=overrides, broker=self._broker_layers),
            partitions=[self._new_partition(new, index, UnifiedLog()) for index in range(count)],
        )

    def problem_with_replicas(self, replicas: Sequence[int]) -> str | None:
        """Return why a partition cannot be moved to these nodes, or None if it can."""
        return self._placer.problem_with(replicas, None)

    def check_replicas(self, topic: Topic, replicas: Sequence[int]) -> None:
        """Check that a new partition of a topic can have these replicas.

        Raises:
            ResponseError: the replicas are invalid, or no replica is active.
        """
        if problem := self._placer.problem_with_new(replicas, topic.replication_factor):
            raise ResponseError(ErrorCode.invalid_replica_assignment, problem)

    def add_partitions(
        self, topic: Topic, count: int, assignments: Mapping[int, Sequence[int]]
    ) -> None:
        """Increase a topic's partition count to `count`.

        `assignments` contains the replicas of manually assigned partitions by index.

        Raises:
            ResponseError: the storage failed.
        """
        factor = topic.replication_factor
        new = TopicSpec(name=topic.name, replication_factor=factor, assignments=assignments)
        self._create_partitions(topic, new, count)

    def configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        """Replace the configs that are set for a topic, with immediate effect.

        Raises:
            OSError: the configs cannot be stored. Nothing has changed.
        """
        config = replace(topic.config, overrides=dict(overrides))
        self.store.save(replace(topic, config=config))
        self._set_config(topic, config)

    def set_broker_layers(self, layers: tuple[ConfigLayer, ...]) -> None:
        """Replace the broker configs that provide defaults for topics, with immediate effect."""
        self._broker_layers = layers
        for topic in self._by_name.values():
            self._set_config(topic, replace(topic.config, broker=layers))

    def delete(self, topic: Topic) -> None:
        """Delete a topic and its data.

        Raises:
            ResponseError: the storage failed. The topic still exists.
        """
        try:
            self.store.remove(topic)
        except OSError as error:
            raise ResponseError(ErrorCode.kafka_storage_error, str(error)) from error
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        with contextlib.suppress(OSError):  # `create` retries the deletion.
            self._forget_offsets(topic.name)

    def _create_partitions(self, topic: Topic, new: TopicSpec, count: int) -> None:
        """Create partitions of a topic until it has `count`, and store them."""
        indexes = range(len(topic.partitions), count)
        try:
            if not topic.partitions:
                # Offsets remain if an earlier deletion of a topic with this name failed.
                self._forget_offsets(topic.name)
            with self.store.creating(topic.name, indexes, topic.config) as logs:
                pairs = zip(indexes, logs, strict=True)
                added = [self._new_partition(new, index, log) for index, log in pairs]
                self.store.save(replace(topic, partitions=[*topic.partitions, *added]))
        except OSError as error:
            raise ResponseError(ErrorCode.kafka_storage_error, str(error)) from error
        topic.partitions += added
        topic.is_replicated = topic.is_replicated or any(
            len(partition.replicas) > 1 for partition in added
        )

    def _set_config(self, topic: Topic, config: TopicConfig) -> None:
        topic.config = config
        for partition in topic.partitions:
            partition.log.storage.config = config.log

    def _new_partition(self, new: TopicSpec, index: int, log: UnifiedLog) -> Partition:
        default = self._config.replication_factor
        factor = default if new.replication_factor == DEFAULT else new.replication_factor
        assigned = new.assignments.get(index)
        replicas = self._placer.assign(index, factor) if assigned is None else list(assigned)
        active = self._placer.active_of(replicas)
        partition = Partition(
            topic=new.name,
            index=index,
            leader=active[0],
            replicas=replicas,
            in_sync=active,
            log=log,
        )
        partition.begin_leader_epoch()
        return partition


def _check_assignments(new: TopicSpec, placer: ReplicaPlacer) -> ResponseError | None:
    """Return an error if manual assignments are invalid, as in ReplicationControlManager."""
    if new.partitions != DEFAULT or new.replication_factor != DEFAULT:
        return ResponseError(
            ErrorCode.invalid_request,
            "With assignments, the partition count and the replication factor must be -1.",
        )
    if sorted(new.assignments) != list(range(len(new.assignments))):
        return ResponseError(
            ErrorCode.invalid_replica_assignment,
            "Assignments must be for consecutive partitions from 0.",
        )
    size = len(new.assignments[0])
    for replicas in new.assignments.values():
        if problem := placer.problem_with_new(replicas, size):
            return ResponseError(ErrorCode.invalid_replica_assignment, problem)
    return None
