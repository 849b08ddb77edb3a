"""The state of a cluster: its parts, dynamic configs and periodic log maintenance.

Configs of brokers and groups that are changed while the broker runs (KIP-226, KIP-848).

What is set of a broker and stands behind a topic's config counts for every topic that has none of
its own. The copies of a partition are one log, so in a cluster of several nodes only what is set
for all of them does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zlib import crc32

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.elections import Elections
from spark_kafka_sink.broker.cluster.node_control import NodeControl
from spark_kafka_sink.broker.cluster.node_states import NodeStates
from spark_kafka_sink.broker.cluster.replica_manager import Reassignments, ReplicaManager
from spark_kafka_sink.broker.cluster.topics import NewTopic, TopicError, Topics, TopicStore
from spark_kafka_sink.broker.coordinator.group_coordinator import GroupCoordinator
from spark_kafka_sink.broker.coordinator.transaction_coordinator import (
    ProducerIdManager,
    TransactionalOffsets,
    TransactionConfig,
    TransactionCoordinator,
    TransactionMarkerWriter,
    TransactionStore,
)
from spark_kafka_sink.broker.topic_config import TOPIC_KEYS, TOPIC_NAMES, ConfigSource, Layer
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spark_kafka_sink.broker.clock import JumpingClock
    from spark_kafka_sink.broker.cluster.node_control import NodeSockets
    from spark_kafka_sink.broker.config import BrokerConfig
    from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
    from spark_kafka_sink.broker.purgatory import DelayedOperationPurgatory
    from spark_kafka_sink.broker.security.acl import Denials
    from spark_kafka_sink.broker.storage.journal import Journal
    from spark_kafka_sink.broker.storage.log_storage import StorageBackend
    from spark_kafka_sink.common.clock import Clock


BROKER = "broker config"
GROUP = "group config"
ALL_BROKERS = ""


class DynamicConfigs:
    """Values by kind of resource and its name; `ALL_BROKERS` is that of the cluster's default.

    Args:
        config: what the broker was started with.
        journal: where values are kept across restarts.
    """

    __slots__ = ("_config", "_journal", "_values")

    def __init__(self, config: BrokerConfig, journal: Journal) -> None:
        self._config = config
        self._journal = journal
        self._values: dict[tuple[str, str], dict[str, str]] = {
            (kind, str(name)): dict(own)
            for kind in (BROKER, GROUP)
            for (name,), own in journal.all(kind).items()
        }

    def of(self, kind: str, name: str) -> dict[str, str]:
        """What was set of a resource."""
        return dict(self._values.get((kind, name), {}))

    def names(self, kind: str) -> list[str]:
        """The resources of a kind of which something was set."""
        return sorted(name for (of, name), own in self._values.items() if of == kind and own)

    def set(self, kind: str, name: str, own: Mapping[str, str]) -> None:
        """Replace what was set of a resource."""
        self._journal.put(kind, (name,), dict(own) or None)
        self._values[kind, name] = dict(own)

    def layers(self) -> tuple[Layer, ...]:
        """The brokers' part of every topic's configs."""
        only = self.of(BROKER, "1") if self._config.nodes == 1 else {}
        for_all = self.of(BROKER, ALL_BROKERS)
        layers = [
            Layer(ConfigSource.DYNAMIC_BROKER, _topic_values(only)),
            Layer(ConfigSource.DYNAMIC_DEFAULT_BROKER, _topic_values(for_all)),
        ]
        started = str(self._config.message_max_bytes)
        if started != TOPIC_KEYS["max.message.bytes"].default:
            layers.append(Layer(ConfigSource.STATIC_BROKER, {"max.message.bytes": started}))
        return tuple(layer for layer in layers if layer.values)


def _topic_values(own: Mapping[str, str]) -> dict[str, str]:
    return {TOPIC_NAMES[name]: value for name, value in own.items() if name in TOPIC_NAMES}


FLUSH_LOOK_MS: Final = 100
"""Milliseconds between two looks for logs whose flush.ms has passed."""


class LogManager:
    """Applies retention and flush.ms to all logs.

    Args:
        logs: all logs there are now.
        clock: tells when.
        retention_ms: log.retention.check.interval.ms.
    """

    __slots__ = ("_clock", "_flushed", "_logs", "_retained", "_retention_ms")

    def __init__(
        self, logs: Callable[[], Iterable[UnifiedLog]], clock: Clock, retention_ms: int
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._retention_ms = retention_ms
        self._flushed = self._retained = clock.wall_ms()

    def tick(self) -> None:
        """Do what is due."""
        now = self._clock.wall_ms()
        if now - self._flushed >= FLUSH_LOOK_MS:
            self._flushed = now
            for log in self._logs():
                log.storage.flush_if_due(now)
        if now - self._retained >= self._retention_ms:
            self._retained = now
            for log in self._logs():
                log.storage.expire(now)


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
