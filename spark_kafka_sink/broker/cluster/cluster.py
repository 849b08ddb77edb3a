"""The state of a cluster."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from zlib import crc32

from spark_kafka_sink.broker.cluster.dynamic_configs import DynamicConfigs
from spark_kafka_sink.broker.cluster.elections import Elections
from spark_kafka_sink.broker.cluster.log_manager import LogManager
from spark_kafka_sink.broker.cluster.nodes import BrokerNode, NodeControl, NodeSockets
from spark_kafka_sink.broker.cluster.replica_manager import ReplicaManager
from spark_kafka_sink.broker.cluster.topic_store import TopicStore
from spark_kafka_sink.broker.cluster.topics import Topics, TopicSpec
from spark_kafka_sink.broker.coordinator.group_coordinator import GroupCoordinator
from spark_kafka_sink.broker.coordinator.transaction_coordinator import TransactionCoordinator
from spark_kafka_sink.broker.coordinator.transactional_offsets import TransactionalOffsets
from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.broker.authorization.denials import Denials
    from spark_kafka_sink.broker.cluster.jumping_clock import JumpingClock
    from spark_kafka_sink.broker.config.broker_config import BrokerConfig
    from spark_kafka_sink.broker.requests.purgatory import DelayedOperationPurgatory
    from spark_kafka_sink.broker.storage.log_storage import StorageBackend

_LOG = logging.getLogger(__name__)
_INVALID_TOPIC_HINT = "Correct its name, number of partitions or configs."


class Cluster:
    """Nodes, topics, consumer groups, producer ids, transactions, and delayed requests.

    A cluster is not thread-safe: use it from one thread only, or hold its `StateLock`.
    `nodes` are the active nodes, which are listed in Metadata responses.

    Args:
        config: the settings with which the broker was started.
        nodes: all nodes.
        clock: the brokers' clock; tests can change its wall time.
        backend: stores logs and all other durable state.
        purgatory: contains the delayed requests.
        sockets: the nodes' sockets.
        denials: operations denied to users.

    Raises:
        ConfigError: a configured topic cannot be created.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        nodes: Sequence[BrokerNode],
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
        self.node_control = NodeControl(
            self.nodes,
            config=config,
            sockets=sockets,
            clock=clock,
            on_lost=self._on_node_lost,
            on_started=self._on_node_started,
        )
        self.journal = backend.journal
        store = TopicStore(backend, self.journal)
        self.dynamic_configs = DynamicConfigs(config, self.journal)
        layers = self.dynamic_configs.layers()
        self.group_coordinator = GroupCoordinator(self.journal)
        offsets = TransactionalOffsets(self.journal, self.group_coordinator)
        self.transactional_offsets = offsets
        active = self.node_control.active()
        self.topics = Topics(config, active, store, layers, offsets.forget_topic)
        self.log_manager = LogManager(self.topics.partitions, clock, config.retention_check_ms)
        self.elections = Elections(self.node_control, self.topics, purgatory)
        max_lag = config.replica_lag_time_max_ms / 1000
        self.replica_manager = ReplicaManager(self.node_control, self.topics, purgatory, max_lag)
        self.transaction_coordinator = TransactionCoordinator(
            config, self.journal, clock, self.topics.partition, offsets, purgatory
        )
        self.transaction_coordinator.recover(self.topics.all())
        self._create_configured_topics()

    @property
    def controller_id(self) -> int:
        """Id of the node to which clients send admin requests, or -1 if no node is active."""
        return min(self.nodes, default=-1)

    def node(self, node_id: int) -> BrokerNode:
        """Return a node, which can be inactive."""
        return self._all_nodes[node_id]

    def coordinator(self, key: str) -> BrokerNode:
        """Return the node that coordinates a group or transactional id.

        The node is derived from the key. If this node is inactive, the next active node is used.
        """
        ids = sorted(self._all_nodes)
        first = crc32(key.encode()) % len(ids)
        candidates = ids[first:] + ids[:first]
        active = (node for node in candidates if node in self.nodes)
        return self._all_nodes[next(active, ids[first])]

    def tick(self) -> None:
        """Perform all scheduled work that is due, and complete delayed requests.

        The scheduled work is fencing, group and transaction timeouts, log maintenance and
        replication. Delayed requests complete if they are ready or expired.
        """
        now = self.clock.monotonic()
        self.node_control.tick(now)
        self.group_coordinator.tick(now)
        self.replica_manager.tick(now)
        self.transaction_coordinator.tick()
        self.log_manager.tick()
        self.elections.tick()
        self.purgatory.poll(now)

    def close(self) -> None:
        """Flush and close all logs. Must be called after the last request.

        Raises:
            KafkaProdError: some data could not be flushed.
        """
        self.topics.store.close(self.topics.all())

    def next_deadline(self) -> float | None:
        """Return the time of the next `tick` in monotonic seconds, or None if it has no work."""
        due = (
            self.purgatory.next_deadline(),
            self.group_coordinator.next_deadline(),
            self.replica_manager.next_deadline(),
            self.node_control.next_fence(),
        )
        return min((time for time in due if time is not None), default=None)

    def _create_configured_topics(self) -> None:
        config = self.config
        for name, partitions in config.topics.items():
            if self.topics.named(name) is None:
                new = TopicSpec(
                    name=name,
                    partitions=partitions,
                    replication_factor=config.replication_factors.get(
                        name, config.replication_factor
                    ),
                    configs=dict(config.topic_configs.get(name, {})),
                )
                try:
                    self.topics.create(new)
                except ResponseError as error:
                    is_storage = error.code is ErrorCode.kafka_storage_error
                    raise ConfigError(
                        f"the topic {name!r} cannot be created: {error.message.removesuffix('.')}",
                        hint=None if is_storage else _INVALID_TOPIC_HINT,
                    ) from error

    def _on_nodes_changed(self) -> None:
        active = self.node_control.active()
        self.nodes = {node: self._all_nodes[node] for node in active}
        self.topics.set_nodes(active)

    def _on_node_lost(self, node: int) -> None:
        self._on_nodes_changed()
        self.elections.on_node_lost(node)

    def _on_node_started(self) -> None:
        self._on_nodes_changed()
        self.elections.on_node_started()
