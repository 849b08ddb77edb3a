"""A broker inside this process, for tests and demos."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from spark_kafka_sink.broker.cluster.topics import NewTopic
from spark_kafka_sink.broker.config import BrokerConfig, reachable
from spark_kafka_sink.broker.consumer_record import ConsumerRecords, read_committed
from spark_kafka_sink.broker.faults import Faults
from spark_kafka_sink.broker.runtime import BrokerRuntime
from spark_kafka_sink.broker.security.controls import SecurityControls
from spark_kafka_sink.common.arguments import check_argument
from spark_kafka_sink.common.errors import BrokerUnavailableError, UnknownTopicError
from spark_kafka_sink.common.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self, Unpack

    from spark_kafka_sink.broker.cluster.cluster import Cluster, Node
    from spark_kafka_sink.broker.config import BrokerOptions
    from spark_kafka_sink.broker.partition.partition import Partition

T = TypeVar("T")

_SHOWN_TOPICS: Final = 20
RUN_SECONDS: Final = 10.0
"""How long `run` waits for the broker's thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition at one moment; `leader` is -1 where there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    high_watermark: int
    end_offset: int


class EmbeddedBroker(SecurityControls):
    """A small Kafka broker, or a cluster of them, for tests and demos.

    Data lives in memory, or in the folder `data_dir`.

    Every socket and all state belong to one daemon thread. Use it as a context manager::

        with EmbeddedBroker(topics={"events": 4}) as kafka:
            producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    Args:
        options: the fields of `BrokerConfig`.

    Raises:
        TypeError: there is no such option.
        ConfigError: an option is out of range.
        BrokerUnavailableError: a port can't be listened on.
    """

    def __init__(self, **options: Unpack[BrokerOptions]) -> None:
        _refuse_unknown(options)
        check_argument(
            "EmbeddedBroker(topics=...)",
            options.get("topics", {}),
            "a dict of topics and their numbers of partitions",
            ("items",),
        )
        self.config = BrokerConfig(**options)
        super().__init__(self.config.security)
        self.faults = Faults()
        """Faults that are armed; they outlive `stop` and `start`."""
        for spec in self.config.faults:
            self.faults.add(spec)
        self._nodes: tuple[Node, ...] = ()
        self._runtime: BrokerRuntime | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """Addresses that all nodes listen on, as clients on this machine want them."""
        bound = [node.bound for node in self._nodes]
        return ",".join(f"{reachable(host)}:{port}" for host, port in bound)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, by id from 1."""
        return self._nodes

    @property
    def open_connections(self) -> int:
        """How many clients are connected, to all nodes together; 0 while it does not run."""
        return 0 if self._runtime is None else self._runtime.open_connections

    def start(self) -> None:
        """Listen and serve; returns when clients can connect.

        A stopped broker starts with what lies in its data folder, or empty if it has none.
        """
        runtime = BrokerRuntime(self.config, self.faults, self._security)
        self._nodes = runtime.nodes
        runtime.start()
        self._runtime = runtime

    def stop(self) -> None:
        """Close all connections, and forget all data unless there is a data folder.

        Harmless when it is not running.
        """
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.stop()

    def run(self, function: Callable[[Cluster], T]) -> T:
        """Look at or change the state on the broker's own thread, and return what that returns.

        Raises:
            BrokerUnavailableError: the broker is not running.
        """
        runtime = self._runtime
        if runtime is None:
            raise BrokerUnavailableError(
                "the embedded broker is not running", hint="Use it inside its with block"
            )
        future: Future[T] = Future()

        def call() -> None:
            try:
                future.set_result(function(runtime.cluster))
            except Exception as error:  # noqa: BLE001 - it belongs to the caller's thread
                future.set_exception(error)

        runtime.call_soon(call)
        return future.result(RUN_SECONDS)

    def create_topic(self, name: str, partitions: int = -1, **configs: str) -> None:
        """Make a topic; configs have underscores for Kafka's dots.

        Raises:
            TopicError: it can't be made.
        """
        own = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(name=name, partitions=partitions, configs=own)
        self.run(lambda cluster: cluster.topics.create(new))

    def end_offsets(self, topic: str) -> list[int]:
        """The end of each partition's log, by partition.

        Raises:
            UnknownTopicError: there is no such topic.
        """
        return self.run(lambda cluster: [p.log.end_offset for p in _partitions(cluster, topic)])

    def records(self, *topics: str) -> ConsumerRecords:
        """What a read_committed consumer gets of topics, by topic, partition and offset.

        Raises:
            UnknownTopicError: there is no such topic.
        """
        return ConsumerRecords(
            record
            for topic in topics
            for partition, log in enumerate(self.run(partial(_logs, topic=topic)))
            for record in read_committed(topic, partition, *log)
        )

    def batches(self, topic: str, partition: int) -> list[bytes]:
        """The batches in a partition's log, whole, in order of offsets."""

        def read(cluster: Cluster) -> list[bytes]:
            found = cluster.topics.named(topic)
            one = found.partition(partition) if found else None
            return [bytes(batch.data) for batch in one.log] if one else []

        return self.run(read)

    def stop_node(self, node: int) -> None:
        """Take a node down: connections end, leadership moves, in-sync replicas shrink.

        What only this node had of its partitions is lost to a new leader, as in Kafka.

        Raises:
            KafkaProdError: there is no such node.
        """
        self.run(lambda cluster: cluster.node_control.stop(node))

    def start_node(self, node: int) -> None:
        """Bring a stopped or paused node back; it catches up before it is in sync again.

        Raises:
            KafkaProdError: there is no such node.
        """
        self.run(lambda cluster: cluster.node_control.start(node))

    def pause_node(self, node: int) -> None:
        """Let a node hang; it loses its leaderships when `session_timeout_ms` have passed.

        Raises:
            KafkaProdError: there is no such node.
        """
        self.run(lambda cluster: cluster.node_control.pause(node))

    def set_follower_lag(self, milliseconds: int, node: int | None = None) -> None:
        """Let one node, or all, copy so much later than leaders append.

        Raises:
            KafkaProdError: there is no such node.
        """
        seconds = milliseconds / 1000
        if node is None:
            self.run(lambda cluster: cluster.node_control.set_all_lags(seconds))
        else:
            self.run(lambda cluster: cluster.node_control.set_lag(node, seconds))

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make a node the leader of a partition; it becomes a replica if it was none.

        Raises:
            UnknownTopicError: there is no such partition.
            KafkaProdError: the node does not live.
        """
        self.run(lambda c: c.elections.move(_partition(c, topic, partition), node))

    def elect_preferred_leaders(self) -> None:
        """Let the first replica of each partition lead where it is in sync."""
        self.run(lambda cluster: cluster.elections.prefer())

    def jump_clock(self, milliseconds: int) -> None:
        """Move the brokers' time of day, back if negative."""
        self.run(lambda cluster: cluster.clock.jump(milliseconds))

    def partition_state(self, topic: str, partition: int) -> PartitionState:
        """Look at a partition.

        Raises:
            UnknownTopicError: there is no such partition.
        """
        return self.run(lambda cluster: _state(_partition(cluster, topic, partition)))


def _partitions(cluster: Cluster, topic: str) -> list[Partition]:
    found = cluster.topics.named(topic)
    if found is None:
        names = sorted(each.name for each in cluster.topics.all())
        shown = ", ".join(names[:_SHOWN_TOPICS]) + ("" if len(names) <= _SHOWN_TOPICS else " …")
        raise UnknownTopicError(
            "there is no such topic",
            topic=topic,
            hint=f"The broker has: {shown or 'no topic'}",
        )
    return list(found.partitions)


def _logs(cluster: Cluster, topic: str) -> list[tuple[list[bytes], int]]:
    """Each partition's batches and its last stable offset."""
    partitions = _partitions(cluster, topic)
    return [([bytes(b.data) for b in each.log], each.last_stable_offset) for each in partitions]


def _partition(cluster: Cluster, topic: str, index: int) -> Partition:
    found = cluster.topics.named(topic)
    partition = found.partition(index) if found else None
    if partition is None:
        raise UnknownTopicError(
            "there is no such partition", topic=topic, partition=index, hint="Create it first"
        )
    return partition


def _state(partition: Partition) -> PartitionState:
    return PartitionState(
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replicas),
        in_sync=tuple(partition.in_sync),
        high_watermark=partition.high_watermark,
        end_offset=partition.log.end_offset,
    )


def _refuse_unknown(options: Iterable[str]) -> None:
    """Names as Python refuses them, with the one that was meant.

    Raises:
        TypeError: there is no such option.
    """
    names = [field.name for field in fields(BrokerConfig) if field.init]
    for name in options:
        if name not in names:
            hint = did_you_mean(name, names)
            unknown = f"EmbeddedBroker has no option {name}"
            raise TypeError(f"{unknown}. {hint}" if hint else unknown)
