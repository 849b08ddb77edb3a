"""Queries of a partition's state have no side effects."""

from __future__ import annotations

from spark_kafka_sink.broker.partition.high_watermark import ReplicaStates
from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.broker.partition.producer_state import PartitionTransactions


def test_last_stable_offset() -> None:
    transactions = PartitionTransactions()
    transactions.begin(producer_id=1, first_offset=2)
    transactions.end(1, 5, commit=True)
    for _ in range(2):
        assert [transactions.stable_offset(mark) for mark in (6, 5)] == [6, 2]
    transactions.replicated(6)
    assert transactions.stable_offset(5) == 5


def test_follower_lag() -> None:
    states = ReplicaStates()
    states.appended(10, now=0.0)
    assert not any(states.is_lagging(2, now, allowed=1.0) for now in (1.0, 50.0))
    states.track(2, now=50.0)
    assert [states.is_lagging(2, now, allowed=1.0) for now in (51.0, 51.5)] == [False, True]
    states.ends[2] = 10
    assert not states.is_lagging(2, 99.0, allowed=1.0)


def test_leader_epoch_starts_with_its_leader() -> None:
    partition = Partition(topic="t", index=0, leader=1, replicas=[1], in_sync=[1])
    assert partition.log.epochs.latest == -1
    for _ in range(2):
        partition.begin_leader_epoch()
        assert [tuple(one) for one in partition.log.epochs.starts] == [(0, 0)]
    partition.leader_epoch = 3
    partition.begin_leader_epoch()
    assert [tuple(one) for one in partition.log.epochs.starts] == [(3, 0)]
