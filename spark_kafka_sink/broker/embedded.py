"""`EmbeddedBroker`: a Kafka broker or cluster inside this process, for tests and demos."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar, overload

from spark_kafka_sink.broker.broker_runtime import BrokerRuntime
from spark_kafka_sink.broker.cluster.topics import TopicSpec
from spark_kafka_sink.broker.config.broker_config import BrokerConfig, address_text, reachable
from spark_kafka_sink.broker.faults.armed_faults import Faults
from spark_kafka_sink.broker.net.event_loop import run_on
from spark_kafka_sink.broker.security_controls import SecurityControls
from spark_kafka_sink.common.arguments import check_argument
from spark_kafka_sink.common.errors import BrokerUnavailableError, ConfigError, UnknownTopicError
from spark_kafka_sink.common.similar_names import did_you_mean
from spark_kafka_sink.common.text import listed
from spark_kafka_sink.kafka.records.consumer_record import ConsumerRecords, read_committed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.cluster.nodes import BrokerNode
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.formats.decoder import DecodedRecord


T = TypeVar("T")
P = ParamSpec("P")
_MAX_LISTED_TOPICS = 20
_RUN_TIMEOUT_S = 10.0
"""Maximum time in seconds that `run` waits for the broker's thread."""


def _not_running() -> BrokerUnavailableError:
    return BrokerUnavailableError(
        "the embedded broker is not running",
        hint="Use the broker inside its with block, or call start() first.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSnapshot:
    """A snapshot of a partition."""

    leader: int
    """The leader's id, or -1 if the partition has no leader."""
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    high_watermark: int
    end_offset: int


def _with_arguments_of(
    _: Callable[P, object],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Return a decorator that gives a method the argument types of a constructor."""
    return lambda method: method


class EmbeddedBroker(SecurityControls):
    """A small Kafka broker or cluster for tests and demos.

    Data is kept in memory, in the folder `data_dir`, or in Redis (`storage`).

    A daemon thread serves all sockets and accesses the state. With Redis, a second thread handles
    requests, and a third waits for Redis's replicas if the URL sets `replicas`. Use the broker as a
    context manager::

        with EmbeddedBroker(topics={"events": 4}) as kafka:
            producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    Args:
        options: the fields of `BrokerConfig`, which docs/broker.md lists.

    Raises:
        TypeError: an option is unknown.
        ConfigError: an option is out of range.
        BrokerUnavailableError: a port is not available.
    """

    @_with_arguments_of(BrokerConfig)
    def __init__(self, **options: Any) -> None:
        _check_unknown(options)
        check_argument(
            "EmbeddedBroker(topics=...)",
            options.get("topics", {}),
            "a dict of topics and their partition counts",
            ("items",),
        )
        super().__init__(BrokerConfig(**options))
        self.faults = Faults()
        """The armed faults, which `stop` and `start` do not disarm."""
        for spec in self.config.faults:
            self.faults.add(spec)
        self._nodes: tuple[BrokerNode, ...] = ()
        self._runtime: BrokerRuntime | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all nodes for clients on this machine, separated by commas.

        Raises:
            BrokerUnavailableError: the broker was never started.
        """
        if not self._nodes:
            raise _not_running()
        bound = [node.bound for node in self._nodes]
        return ",".join(address_text(reachable(host), port) for host, port in bound)

    @property
    def nodes(self) -> tuple[BrokerNode, ...]:
        """The nodes, ordered by id from 1."""
        return self._nodes

    @property
    def open_connections(self) -> int:
        """Number of client connections to all nodes; 0 while the broker is stopped."""
        return 0 if self._runtime is None else self._runtime.open_connections

    def start(self) -> None:
        """Start the broker. Return when clients can connect.

        A stopped broker restarts with its data only if the data is in a data folder or in Redis.

        Raises:
            ConfigError: the broker is already running.
        """
        if self._runtime is not None:
            raise ConfigError(
                "the embedded broker is already running",
                hint="Use it without another start() or with block, or call stop() first.",
            )
        runtime = BrokerRuntime(self.config, self.faults, self._security)
        self._nodes = runtime.nodes
        runtime.start()
        self._runtime = runtime

    def stop(self) -> None:
        """Close all connections, and delete all data in memory.

        Has no effect if the broker is not running.

        Raises:
            KafkaProdError: some data could not be flushed to the data folder. The broker is
                stopped.
        """
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.stop()

    def run(self, function: Callable[[Cluster], T]) -> T:
        """Call a function with the broker's state on the broker's thread, and return its result.

        The function can read and change the state.

        Raises:
            BrokerUnavailableError: the broker is not running, or in the parent process.
        """
        runtime = self._runtime
        if runtime is None:
            raise _not_running()
        if not runtime.is_in_this_process:
            raise BrokerUnavailableError(
                "the embedded broker runs in the parent of this process",
                hint="Call it there, or connect to its bootstrap_servers.",
            )
        return run_on(runtime.call_soon, lambda: function(runtime.cluster)).result(_RUN_TIMEOUT_S)

    def create_topic(self, name: str, partitions: int = -1, **configs: str) -> None:
        """Create a topic. In the names of `configs`, use underscores instead of dots.

        Raises:
            ResponseError: the topic cannot be created.
        """
        values = {key.replace("_", "."): value for key, value in configs.items()}
        new = TopicSpec(name=name, partitions=partitions, configs=values)
        self.run(lambda cluster: cluster.topics.create(new))

    def end_offsets(self, topic: str) -> list[int]:
        """Return the log end offset of each partition, in partition order.

        Raises:
            UnknownTopicError: the topic does not exist.
        """
        return self.run(
            lambda state: [partition.log.end_offset for partition in _find_partitions(state, topic)]
        )

    @overload
    def records(self, *topics: str) -> ConsumerRecords: ...

    @overload
    def records(self, *topics: str, options: Mapping[str, str]) -> list[DecodedRecord]: ...

    def records(
        self, *topics: str, options: Mapping[str, str] | None = None
    ) -> ConsumerRecords | list[DecodedRecord]:
        """Return the records for read_committed consumers, by topic as given, partition and offset.

        Args:
            topics: the topics to read.
            options: the options of the write. If set, keys and values are decoded to dicts
                according to `key.format` and `value.format`. Schemas that were derived from the
                columns are read from the registry, unless its URL is `mock://`.

        Raises:
            UnknownTopicError: a topic does not exist.
            ConfigError: an option is invalid, a schema is unknown, or a record cannot be decoded.
            SchemaRegistryError: a schema cannot be read from the registry.
        """
        records = self._committed_records(topics)
        if options is None:
            return records
        from spark_kafka_sink.config.sink_config import SinkConfig
        from spark_kafka_sink.formats.decoder import decode_records  # only for formats

        return decode_records(records, SinkConfig.parse(options))

    def batches(self, topic: str, partition: int) -> list[bytes]:
        """Return the batches in a partition's log, in offset order."""

        def read(cluster: Cluster) -> list[bytes]:
            log_partition = cluster.topics.partition(topic, partition)
            return [bytes(batch.data) for batch in log_partition.log] if log_partition else []

        return self.run(read)

    def stop_node(self, node: int) -> None:
        """Stop a node: close its connections, elect other leaders and update the in-sync replicas.

        As in Kafka, records that existed only on the stopped node are lost.

        Raises:
            KafkaProdError: the node does not exist.
        """
        self.run(lambda cluster: cluster.node_control.stop(node))

    def start_node(self, node: int) -> None:
        """Start a stopped or paused node. It must catch up before it is in sync again.

        Raises:
            KafkaProdError: the node does not exist.
        """
        self.run(lambda cluster: cluster.node_control.start(node))

    def pause_node(self, node: int) -> None:
        """Make a node hang. After `session_timeout_ms`, other nodes take over its partitions.

        Raises:
            KafkaProdError: the node does not exist.
        """
        self.run(lambda cluster: cluster.node_control.pause(node))

    def set_follower_lag(self, milliseconds: int, node: int | None = None) -> None:
        """Set the replication delay of one node, or of all nodes, in milliseconds.

        Raises:
            KafkaProdError: the node does not exist.
        """
        seconds = milliseconds / 1000
        if node is None:
            self.run(lambda cluster: cluster.node_control.set_all_lags(seconds))
        else:
            self.run(lambda cluster: cluster.node_control.set_lag(node, seconds))

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make a node the leader of a partition; it replaces the leader if it is not a replica.

        Raises:
            UnknownTopicError: the partition does not exist.
            KafkaProdError: the node is not active.
        """
        self.run(lambda state: state.elections.move(_find_partition(state, topic, partition), node))

    def elect_preferred_leaders(self) -> None:
        """Make the first replica of each partition its leader if the replica is in sync."""
        self.run(lambda cluster: cluster.elections.elect_preferred())

    def jump_clock(self, milliseconds: int) -> None:
        """Move the brokers' wall time by `milliseconds`, which may be negative."""
        self.run(lambda cluster: cluster.clock.jump(milliseconds))

    def partition_state(self, topic: str, partition: int) -> PartitionSnapshot:
        """Return the current state of a partition.

        Raises:
            UnknownTopicError: the partition does not exist.
        """
        return self.run(lambda cluster: _snapshot(_find_partition(cluster, topic, partition)))

    def _committed_records(self, topics: Iterable[str]) -> ConsumerRecords:
        return ConsumerRecords(
            record
            for topic in topics
            for partition, log in enumerate(self.run(partial(_read_logs, topic=topic)))
            for record in read_committed(topic, partition, log.batches, log.last_stable_offset)
            if record.offset >= log.start_offset
        )


def _find_partitions(cluster: Cluster, topic: str) -> list[Partition]:
    match = cluster.topics.named(topic)
    if match is None:
        names = sorted(known.name for known in cluster.topics.all())
        topics = listed(names, _MAX_LISTED_TOPICS)
        raise UnknownTopicError(
            "the topic does not exist", topic=topic, hint=f"Topics: {topics or 'none'}."
        )
    return list(match.partitions)


class _Log(NamedTuple):
    """The batches of a partition, and the offsets between which consumers can read."""

    batches: list[bytes]
    start_offset: int
    last_stable_offset: int


def _read_logs(cluster: Cluster, topic: str) -> list[_Log]:
    """Return the log of each partition."""
    return [
        _Log(
            [bytes(batch.data) for batch in partition.log],
            partition.log.start_offset,
            partition.last_stable_offset,
        )
        for partition in _find_partitions(cluster, topic)
    ]


def _find_partition(cluster: Cluster, topic: str, index: int) -> Partition:
    partition = cluster.topics.partition(topic, index)
    if partition is None:
        raise UnknownTopicError(
            "the partition does not exist", topic=topic, partition=index, hint="Create it first."
        )
    return partition


def _snapshot(partition: Partition) -> PartitionSnapshot:
    return PartitionSnapshot(
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replicas),
        in_sync=tuple(partition.in_sync),
        high_watermark=partition.high_watermark,
        end_offset=partition.log.end_offset,
    )


def _check_unknown(options: Iterable[str]) -> None:
    """Check for unknown options. The error suggests a similar option, if any.

    Raises:
        TypeError: an option is unknown.
    """
    names = [field.name for field in fields(BrokerConfig) if field.init]
    for name in options:
        if name not in names:
            hint = did_you_mean(name, names)
            unknown = f"EmbeddedBroker has no option {name}"
            raise TypeError(f"{unknown}. {hint}" if hint else unknown)
