"""Fifty brokers and a thousand partitions: the estimated number of connections is correct."""

from __future__ import annotations

from collections import Counter

from tools.scale.estimate import Workload
from tools.scale.measure import BROKERS, PARTITIONS, TOPIC, many_brokers, merged, write

ROWS = 10_000


def test_session_on_fifty_brokers() -> None:
    workload = Workload(tasks=1, slots=1, partitions=PARTITIONS, brokers=BROKERS, rows=ROWS)
    with many_brokers() as cluster:
        cost = write(cluster.bootstrap_servers, ROWS)
        found = Counter(record.value for record in cluster.records(TOPIC))
    assert found == Counter(b"%d" % number for number in range(ROWS))
    assert (cost.persisted, cost.partitions) == (ROWS, PARTITIONS)
    assert cost.connections == round(workload.worker_connections) == BROKERS + 1
    assert cost.most_connections == 1
    assert cost.requests < 4 * BROKERS


def test_commit_messages_are_merged() -> None:
    size, _ = merged(5, partitions=1_000, brokers=100)
    assert size < 5 * 20_000
