"""Fifty brokers and a thousand partitions: the estimated number of connections is correct."""

from __future__ import annotations

from collections import Counter

from tools.scale.__main__ import TASKS, TOPIC, many_brokers, merged, write
from tools.scale.estimate import Workload

ROWS = 10_000
BROKERS = 50
SIZE = Workload(tasks=1, slots=1, partitions=1_000, brokers=BROKERS, rows=ROWS)


def test_session_on_fifty_brokers() -> None:
    with many_brokers(SIZE) as cluster:
        reports = write(cluster.bootstrap_servers, ROWS)
        found = Counter(record.value for record in cluster.records(TOPIC))
    assert found == Counter(b"%d" % number for number in range(ROWS))
    report, brokers = reports[0], reports[0].metrics.brokers
    assert (report.persisted, len(report.partitions)) == (ROWS, SIZE.partitions)
    connects = Counter({each.node_id: each.connects for each in brokers})
    assert connects.total() == round(SIZE.worker_connections) == BROKERS + 1
    assert max(connects.values()) == 1
    assert sum(each.tx for each in brokers) < 4 * BROKERS
    size, _ = merged(reports, 2 * TASKS)
    assert size < 2 * TASKS * 20_000
