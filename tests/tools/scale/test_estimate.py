from __future__ import annotations

from dataclasses import fields, replace

import pytest

from tools.scale.__main__ import render_estimates, render_limits, shown
from tools.scale.estimate import LIMITS, Costs, Estimate, Linear, Workload, estimate, first, touched

NOTHING = Linear(fixed=0.0, partition=0.0, broker=0.0)
COSTS = Costs(
    message_bytes=Linear(fixed=1_000.0, partition=10.0, broker=100.0),
    transaction_bytes=500.0,
    merge_seconds=Linear(fixed=0.001, partition=0.0, broker=0.0),
    result_seconds=0.0,
    describe_seconds=Linear(fixed=0.0, partition=0.000_001, broker=0.0),
    describe_bytes=NOTHING,
    decision_bytes=Linear(fixed=200.0, partition=25.0, broker=0.0),
    decision_seconds=NOTHING,
    metadata_bytes=Linear(fixed=0.0, partition=30.0, broker=0.0),
    metadata_seconds=NOTHING,
)
WRITE = Workload(tasks=10_000, slots=1_000, partitions=1_000, brokers=100, rows=100_000)


def test_touched_partitions() -> None:
    assert touched(1, 8) == pytest.approx(1)
    assert touched(10**6, 8) == pytest.approx(8)
    assert touched(1_000, 1_000) == pytest.approx(632, abs=1)


def test_at_least_once() -> None:
    found = estimate(WRITE, COSTS)
    assert found.task_partitions == pytest.approx(1_000)
    assert found.batch_records == pytest.approx(100)
    assert found.connections_per_broker == pytest.approx(1_000 * 101 / 100, rel=0.01)
    assert found.producer_states_per_broker == pytest.approx(1_000 * 1_000 * 3 / 100)
    assert found.driver_bytes == pytest.approx(10_000 * (1_000 + 10_000 + 10_100), rel=0.01)
    assert found.commit_seconds == pytest.approx(10)
    assert found.requests_per_broker == pytest.approx(1_000 / 2 * 100 / 100, rel=0.01)
    assert found.decision_bytes == found.markers_per_broker == found.coordinator_appends == 0


def test_exactly_once_has_a_transaction_for_each_task() -> None:
    found = estimate(replace(WRITE, exactly_once=True), COSTS)
    assert found.producer_states_per_broker == pytest.approx(10_000 * 1_000 * 3 / 100)
    assert found.markers_per_broker == pytest.approx(100_000)
    assert found.describe_seconds == pytest.approx(10)
    assert found.decision_bytes == pytest.approx(10_000 * (200 + 10 * 25))
    assert found.commit_seconds == pytest.approx(10 + 2 * 10 + 1.7)


def test_maximum_size_of_batches_and_requests() -> None:
    few = Workload(tasks=1, slots=1, partitions=1, brokers=1, rows=10**6, task_seconds=1.0)
    found = estimate(few, COSTS)
    assert found.batch_bytes == pytest.approx(1 << 20, rel=0.01)
    assert found.requests_per_broker == pytest.approx(10**6 * 200 / (1 << 20))


def test_first_limit() -> None:
    assert {each.field for each in LIMITS} < {each.name for each in fields(Estimate)}
    slow = estimate(replace(WRITE, exactly_once=True), COSTS)
    assert first(slow).field == "describe_seconds"
    assert first(slow).share(slow) == pytest.approx(2)
    many = estimate(replace(WRITE, tasks=100_000), COSTS)
    assert first(many).field == "commit_memory"


def test_page() -> None:
    writes = (WRITE, replace(WRITE, exactly_once=True))
    estimates, limits = render_estimates(COSTS, writes), render_limits(COSTS, writes)
    assert "| tasks x partitions x brokers | 10,000 x 1,000 x 100 |" in estimates
    assert "second check of the transactions: 200%" in estimates
    assert (
        "| second check of the transactions | 5 s (limit set by the sink) | below 1% | 200% |"
        in limits
    )
    assert [shown(value) for value in (0.123, 12, 1_234, 99_700, 5e9)] == [
        "0.12",
        "12",
        "1.2 k",
        "100 k",
        "5.0 G",
    ]
