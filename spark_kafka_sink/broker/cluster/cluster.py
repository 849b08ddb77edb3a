"""The state of a cluster, put together from its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.dynamic_configs import DynamicConfigs
from spark_kafka_sink.broker.cluster.elections import Elections
from spark_kafka_sink.broker.cluster.log_manager import LogManager
from spark_kafka_sink.broker.cluster.new_topic import NewTopic, TopicError
from spark_kafka_sink.broker.cluster.node_control import NodeControl
from spark_kafka_sink.broker.cluster.node_states import NodeStates
from spark_kafka_sink.broker.cluster.reassignments import Reassignments
from spark_kafka_sink.broker.cluster.replica_manager import ReplicaManager
from spark_kafka_sink.broker.cluster.topic_store import TopicStore
from spark_kafka_sink.broker.cluster.topics import Topics
from spark_kafka_sink.broker.coordinator.group_coordinator import GroupCoordinator
from spark_kafka_sink.broker.coordinator.producer_id_manager import ProducerIdManager
from spark_kafka_sink.broker.coordinator.transaction_coordinator import (
    TransactionConfig,
    TransactionCoordinator,
)
from spark_kafka_sink.broker.coordinator.transaction_markers import TransactionMarkerWriter
from spark_kafka_sink.broker.coordinator.transaction_store import TransactionStore
from spark_kafka_sink.broker.coordinator.transactional_offsets import TransactionalOffsets
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.broker.clock import JumpingClock
    from spark_kafka_sink.broker.cluster.node_control import NodeSockets
    from spark_kafka_sink.broker.config import BrokerConfig
    from spark_kafka_sink.broker.purgatory import DelayedOperationPurgatory
    from spark_kafka_sink.broker.security.acl import Denials
    from spark_kafka_sink.broker.storage.log_storage import StorageBackend

_CORRECT = "Correct its name, its number of partitions or its configs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker of the cluster: advertised host and port; `bound` is where it listens."""

    id: int
    host: str
    port: int
    bound: tuple[str, int] = ("", 0)


class Cluster:
    """Nodes, topics, consumer groups, producer ids, transactions, and delayed requests.

    Used by one thread, or by the holder of its lock (state_lock.py). `nodes` are the active nodes,
    which Metadata returns.

    Args:
        config: what the broker was started with.
        nodes: all of them, by id.
        clock: the brokers' clock; tests may move its time of day.
        backend: stores logs and all other durable state.
        purgatory: holds delayed requests.
        sockets: the nodes' sockets.
        denials: what users may not do.

    Raises:
        ConfigError: a configured topic can't be created.
    """

    def __init__(
        self,
        config: BrokerConfig,
        nodes: Sequence[Node],
        clock: JumpingClock,
        backend: StorageBackend,
        purgatory: DelayedOperationPurgatory,
        sockets: NodeSockets,
        denials: Denials,
    ) -> None:
        self.config = config
        self.denials = denials
        self.clock = clock
        self.purgatory = purgatory
        self._all_nodes = {node.id: node for node in nodes}
        self.nodes = dict(self._all_nodes)
        self.node_states = NodeStates(
            sorted(self.nodes), config.follower_lag_ms / 1000, config.session_timeout_ms / 1000
        )
        self.journal = backend.open_journal()
        store = TopicStore(backend, self.journal)
        self.dynamic_configs = DynamicConfigs(config, self.journal)
        layers = self.dynamic_configs.layers()
        self.topics = Topics(config, self.node_states.active(), store, layers)
        self.log_manager = LogManager(self.topics.logs, clock, config.retention_check_ms)
        self.elections = Elections(self.node_states, self.topics, purgatory)
        self.node_control = NodeControl(
            self.node_states, self.elections, sockets, clock, self._nodes_changed
        )
        max_lag = config.replica_lag_time_max_ms / 1000
        self.replica_manager = ReplicaManager(self.node_states, self.topics, purgatory, max_lag)
        self.reassignments = Reassignments(self.topics, self.elections)
        self.group_coordinator = GroupCoordinator(self.journal)
        self._producer_id_manager = ProducerIdManager(self.journal)
        self.transactional_offsets = TransactionalOffsets(self.journal)
        self.marker_writer = TransactionMarkerWriter(
            self.topics.named,
            self.group_coordinator,
            self.transactional_offsets,
            purgatory,
            clock,
        )
        transaction_config = TransactionConfig(
            max_timeout_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            ends_bump=config.transaction_level > 1,
        )
        self.transaction_coordinator = TransactionCoordinator(
            transaction_config,
            TransactionStore(self.journal),
            clock,
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
            is_storage = error.error is ErrorCode.kafka_storage_error
            raise ConfigError(
                f"the topic {new.name!r} can't be made: {error.message}",
                hint=None if is_storage else _CORRECT,
            ) from error

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
        """Allocate a new producer id."""
        return self._producer_id_manager.next()

    def coordinator(self, key: str) -> Node:
        """The node that coordinates a group or transactional id: the same one while it lives."""
        ids = sorted(self._all_nodes)
        first = crc32(key.encode()) % len(ids)
        candidates = ids[first:] + ids[:first]
        return self._all_nodes[next((i for i in candidates if i in self.nodes), ids[first])]

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
        """Flush and close all logs; called after the last request was served."""
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
