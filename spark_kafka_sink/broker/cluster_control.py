"""What a test may do to a running cluster: stop, pause, slow its nodes, move leaders and clocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from spark_kafka_sink.common.errors import UnknownTopicError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.partition.partition import Partition

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition at one moment; `leader` is -1 where there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    high_watermark: int
    end_offset: int


class ClusterControl(ABC):
    """Commands of an embedded broker; each returns when it is done."""

    @abstractmethod
    def run(self, function: Callable[[Cluster], T]) -> T:
        """Call a function with the state, on the thread that owns it."""

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
