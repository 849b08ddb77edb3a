"""Everything a cluster knows; touched by the event loop's thread alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from spark_kafka_sink.broker.clock import JumpingClock
from spark_kafka_sink.broker.cluster.dynamic_configs import DynamicConfigs
from spark_kafka_sink.broker.cluster.elections import Elections
from spark_kafka_sink.broker.cluster.log_manager import LogManager
from spark_kafka_sink.broker.cluster.node_control import NodeControl
from spark_kafka_sink.broker.cluster.node_states import NodeStates
from spark_kafka_sink.broker.cluster.reassignments import Reassignments
from spark_kafka_sink.broker.cluster.replica_manager import ReplicaManager
from spark_kafka_sink.broker.cluster.storage_backend import open_backend
from spark_kafka_sink.broker.cluster.topic_store import TopicStore
from spark_kafka_sink.broker.cluster.topics import NewTopic, TopicError, Topics
from spark_kafka_sink.broker.coordinator.group_coordinator import GroupCoordinator
from spark_kafka_sink.broker.coordinator.producer_id_manager import ProducerIdManager
from spark_kafka_sink.broker.coordinator.transaction_coordinator import (
    TransactionConfig,
    TransactionCoordinator,
)
from spark_kafka_sink.broker.coordinator.transaction_markers import TransactionMarkerWriter
from spark_kafka_sink.broker.coordinator.transaction_store import TransactionStore
from spark_kafka_sink.broker.coordinator.transactional_offsets import TransactionalOffsets
from spark_kafka_sink.broker.faults import Faults
from spark_kafka_sink.broker.purgatory import DelayedOperationPurgatory
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.config import BrokerConfig
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.common.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker of the cluster: host and port as clients are told, `bound` where it listens."""

    id: int
    host: str
    port: int
    bound: tuple[str, int] = ("", 0)


class Cluster:
    """Nodes, topics, consumer groups, producer ids, transactions, and answers that wait.

    `nodes` are those that live, as Metadata names them.
    """

    def __init__(self, config: BrokerConfig, nodes: list[Node], clock: Clock) -> None:
        self.config = config
        self.clock = JumpingClock(clock)
        self.faults = Faults()
        self.call_soon: Callable[[Callable[[], None]], None] = lambda function: function()
        self._all_nodes = {node.id: node for node in nodes}
        self.nodes = dict(self._all_nodes)
        self.node_states = NodeStates(
            sorted(self.nodes), config.follower_lag_ms / 1000, config.session_timeout_ms / 1000
        )
        backend = open_backend(config, self.clock, self._storage_news)
        self.state_lock = backend.state_lock
        """Held by whoever touches the state, where requests are handled beside the event loop."""
        self.journal = backend.open_journal()
        store = TopicStore(backend, self.journal)
        self.dynamic_configs = DynamicConfigs(config, self.journal)
        layers = self.dynamic_configs.layers()
        self.topics = Topics(config, self.node_states.active(), store, layers)
        self.log_manager = LogManager(self.topics.logs, self.clock, config.retention_check_ms)
        self.purgatory = DelayedOperationPurgatory()
        self.elections = Elections(self.node_states, self.topics, self.purgatory)
        self.node_control = NodeControl(
            self.node_states, self.elections, clock, self._nodes_changed
        )
        max_lag = config.replica_lag_time_max_ms / 1000
        self.replica_manager = ReplicaManager(
            self.node_states, self.topics, self.purgatory, max_lag
        )
        self.reassignments = Reassignments(self.topics, self.elections)
        self.group_coordinator = GroupCoordinator(self.journal)
        self._producer_id_manager = ProducerIdManager(self.journal)
        self.transactional_offsets = TransactionalOffsets(self.journal)
        self.marker_writer = TransactionMarkerWriter(
            self.topics,
            self.group_coordinator,
            self.transactional_offsets,
            self.purgatory,
            self.clock,
        )
        transaction_config = TransactionConfig(
            max_timeout_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            ends_bump=config.transaction_level > 1,
        )
        self.transaction_coordinator = TransactionCoordinator(
            transaction_config,
            TransactionStore(self.journal),
            self.clock,
            self.new_producer_id,
            self.marker_writer,
        )
        self._create_configured_topics()

    def _create_configured_topics(self) -> None:
        config = self.config
        for name, partitions in config.topics.items():
            if self.topics.named(name) is None:
                new = NewTopic(
                    name=name,
                    partitions=partitions,
                    replication_factor=config.replication_factors.get(
                        name, config.replication_factor
                    ),
                    configs=dict(config.topic_configs.get(name, {})),
                )
                self._create(new)

    def _create(self, new: NewTopic) -> None:
        try:
            self.topics.create(new)
        except TopicError as error:
            raise ConfigError(
                f"the topic {new.name!r} can't be made: {error.message}",
                hint="Correct its name, its number of partitions or its configs",
            ) from error

    def _storage_news(self, key: TopicPartition) -> None:
        """Wake who waits for a partition; called on any thread."""
        self.call_soon(lambda: self.purgatory.wake(key))

    @property
    def controller_id(self) -> int:
        """The node that clients send administrative requests to."""
        return min(self.nodes, default=-1)

    def _nodes_changed(self) -> None:
        living = self.node_states.active()
        self.nodes = {node: self._all_nodes[node] for node in living}
        self.topics.set_nodes(living)

    def node(self, node_id: int) -> Node:
        """One of all nodes, alive or not."""
        return self._all_nodes[node_id]

    def new_producer_id(self) -> int:
        """Give out a producer id that nobody has had."""
        return self._producer_id_manager.next()

    def coordinator(self, key: str) -> Node:
        """Find the node that looks after a group: the same one while it lives, then the next."""
        ids = sorted(self._all_nodes)
        first = crc32(key.encode()) % len(ids)
        turn = (ids[(first + step) % len(ids)] for step in range(len(ids)))
        return self._all_nodes[next((i for i in turn if i in self.nodes), ids[first])]

    def tick(self) -> None:
        """Do what is due: late members leave, waiting requests are answered."""
        now = self.clock.monotonic()
        self.node_control.tick(now)
        self.group_coordinator.tick(now)
        self.transaction_coordinator.tick()
        self.log_manager.tick()
        self.replica_manager.tick(now)
        self.reassignments.tick()
        self.purgatory.poll(now)

    def close(self) -> None:
        """Keep what is to be kept, once nobody is served any more."""
        self.topics.store.close(self.topics.all())

    def next_deadline(self) -> float | None:
        """When `tick` has something to do, in monotonic seconds; None if nothing is known."""
        due = (
            self.purgatory.next_deadline(),
            self.group_coordinator.next_deadline(),
            self.replica_manager.next_deadline(),
            self.node_states.next_fence(),
        )
        return min((time for time in due if time is not None), default=None)
