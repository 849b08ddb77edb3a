"""Elections and reassignments of one partition, without replication: tests set who is in sync."""

from collections.abc import Collection
from unittest.mock import Mock

import pytest

from spark_kafka_sink.broker.cluster.elections import Elections
from spark_kafka_sink.broker.cluster.nodes import NodeControl, NodeSockets
from spark_kafka_sink.broker.cluster.topic_store import TopicStore
from spark_kafka_sink.broker.cluster.topics import Topics, TopicSpec
from spark_kafka_sink.broker.config.broker_config import BrokerConfig
from spark_kafka_sink.broker.config.topic_config import DEFAULT_LOG_CONFIG
from spark_kafka_sink.broker.partition.log_validator import AppendOptions
from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.broker.partition.topic import Topic
from spark_kafka_sink.broker.requests.purgatory import DelayedOperationPurgatory
from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.broker.storage.memory_backend import MemoryBackend
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER
from tests.support.clock import ManualClock
from tools.support.raw_client import batch

NODES = [1, 2, 3]
APPEND = AppendOptions(config=DEFAULT_LOG_CONFIG, produce_version=12, now_ms=0)


class Simulation:
    """Three nodes, and a partition of four records that its first replica leads."""

    def __init__(self, replicas: list[int]) -> None:
        backend = MemoryBackend()
        store = TopicStore(backend, backend.journal)
        self.topics = Topics(BrokerConfig(), NODES, store, (), lambda _: None)
        self.topic: Topic = self.topics.create(TopicSpec(name="t", assignments={0: replicas}))
        self.partition: Partition = self.topic.partitions[0]
        self.partition.append(bytes(batch(4, timestamp=0)), APPEND)
        self.replicate()
        self.nodes = NodeControl(
            NODES,
            config=BrokerConfig(),
            sockets=NodeSockets(*[lambda _: None] * 4),
            clock=ManualClock(),
            on_lost=lambda _: None,
            on_started=lambda: None,
        )
        self.elections = Elections(self.nodes, self.topics, DelayedOperationPurgatory())

    def replicate(self) -> None:
        """Copy all records to all replicas."""
        self.partition.in_sync = list(self.partition.replicas)
        self.partition.replica_states.ends.update(dict.fromkeys(self.partition.replicas, 4))

    def stop(self, node: int) -> None:
        self.nodes.stop(node)
        self.elections.on_node_lost(node)

    def set_state(self, leader: int, in_sync: list[int], stopped: Collection[int] = ()) -> None:
        for node in stopped:
            self.stop(node)
        self.partition.leader, self.partition.in_sync = leader, in_sync


@pytest.mark.parametrize(
    ("leader", "in_sync", "stopped", "unclean", "code", "elected"),
    [
        (2, [2, 3], (), False, ErrorCode.election_not_needed, 2),
        (3, [2, 3], (), False, ErrorCode.none, 2),
        (3, [3], (), False, ErrorCode.preferred_leader_not_available, 3),
        (3, [2, 3], (2,), False, ErrorCode.preferred_leader_not_available, 3),
        (3, [3], (), True, ErrorCode.election_not_needed, 3),
        (NO_LEADER, [2], (2,), True, ErrorCode.none, 3),
        (NO_LEADER, [3], (), True, ErrorCode.none, 3),
        (NO_LEADER, [2], (2, 3), True, ErrorCode.eligible_leaders_not_available, NO_LEADER),
    ],
)
def test_requested_election(
    leader: int,
    in_sync: list[int],
    stopped: tuple[int, ...],
    unclean: bool,
    code: ErrorCode,
    elected: int,
) -> None:
    simulation = Simulation([2, 3])
    partition = simulation.partition
    simulation.set_state(leader, in_sync, stopped)
    epoch = partition.leader_epoch
    assert simulation.elections.elect(partition, unclean=unclean) is code
    assert partition.leader == elected
    assert partition.leader_epoch == epoch + (code is ErrorCode.none)
    if unclean and code is ErrorCode.none:
        assert partition.in_sync == [3]


@pytest.mark.parametrize(
    ("in_sync", "lost", "leader", "left"),
    [
        ([1, 2, 3], 1, 2, [2, 3]),
        ([1, 3], 1, 3, [3]),
        ([1], 1, NO_LEADER, [1]),
        ([1, 2, 3], 2, 1, [1, 3]),
    ],
)
def test_lost_node(in_sync: list[int], lost: int, leader: int, left: list[int]) -> None:
    """Only a replica in sync is elected, and the last one remains in sync."""
    simulation = Simulation(NODES)
    simulation.set_state(1, in_sync)
    simulation.stop(lost)
    assert (simulation.partition.leader, simulation.partition.in_sync) == (leader, left)
    simulation.nodes.start(lost)
    simulation.elections.on_node_started()
    assert simulation.partition.leader == (1 if leader == NO_LEADER else leader)


def test_records_that_the_new_leader_lacks_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the log cannot be truncated, the partition has no leader until it can."""
    simulation = Simulation([1, 2])
    partition = simulation.partition
    partition.replica_states.ends[2] = 0
    with monkeypatch.context() as patch:
        patch.setattr(partition.log.storage, "truncate", Mock(side_effect=OSError("no space")))
        simulation.stop(1)
        simulation.elections.tick()
        assert (partition.leader, partition.log.end_offset) == (NO_LEADER, 4)
    simulation.elections.tick()
    assert (partition.leader, partition.log.end_offset) == (2, 0)


def test_moved_leader_keeps_all_records() -> None:
    simulation = Simulation([1, 2])
    partition = simulation.partition
    simulation.set_state(1, [1, 2], stopped=(2,))
    with pytest.raises(KafkaProdError, match="node 2 cannot lead t-0"):
        simulation.elections.move(partition, 2)
    simulation.elections.move(partition, 3)
    assert (partition.leader, partition.replicas, partition.log.end_offset) == (3, [3, 2], 4)


@pytest.mark.parametrize(
    ("before", "target", "leader"),
    [([1, 2], [3, 2], 3), ([1], [2], 2), ([1, 2, 3], [2], 2), ([1], [3, 1], 1)],
)
def test_reassignment(before: list[int], target: list[int], leader: int) -> None:
    simulation = Simulation(before)
    partition, elections = simulation.partition, simulation.elections
    elections.reassign(simulation.topic, partition, target)
    added = [node for node in target if node not in before]
    assert partition.replicas == [*target, *(node for node in before if node not in target)]
    if added:
        elections.tick()
        assert elections.reassigned() == [partition]
    simulation.replicate()
    elections.tick()
    assert not elections.reassigned()
    assert (partition.replicas, partition.leader) == (target, leader)
    assert partition.log.end_offset == 4
    assert not partition.adding + partition.removing


def test_cancelled_reassignment() -> None:
    simulation = Simulation([1, 2])
    topic, partition, elections = simulation.topic, simulation.partition, simulation.elections
    with pytest.raises(ResponseError) as caught:
        elections.cancel_reassignment(topic, partition)
    assert caught.value.code is ErrorCode.no_reassignment_in_progress
    elections.reassign(topic, partition, [3])
    simulation.set_state(3, [3])
    with pytest.raises(ResponseError, match="None of the original replicas"):
        elections.cancel_reassignment(topic, partition)
    simulation.set_state(3, [2, 3])
    elections.cancel_reassignment(topic, partition)
    assert (partition.replicas, partition.leader, partition.in_sync) == ([1, 2], 2, [2])


def test_deleted_topic_is_no_longer_reassigned() -> None:
    simulation = Simulation([1, 2])
    simulation.elections.reassign(simulation.topic, simulation.partition, [3])
    simulation.topics.delete(simulation.topic)
    simulation.elections.tick()
    assert not simulation.elections.reassigned()
