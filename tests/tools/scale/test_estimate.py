from __future__ import annotations

from dataclasses import replace

import pytest

from spark_kafka_sink import DeliveryReport
from tools.scale import estimate as figures
from tools.scale.__main__ import Measured, render_estimates, render_limits, shown
from tools.scale.estimate import LIMITS, Costs, Workload, estimate, tightest, touched

COSTS = Costs(
    message_bytes=21_100.0,
    transaction_bytes=500.0,
    merge_seconds=0.001,
    describe_bytes=0.0,
    describe_seconds=0.001,
    decision_bytes=450.0,
)
WRITE = Workload(tasks=10_000, slots=1_000, partitions=1_000, brokers=100, rows=100_000)
ONCE = replace(WRITE, exactly_once=True)


def test_touched_partitions() -> None:
    assert touched(1, 8) == pytest.approx(1)
    assert touched(10**6, 8) == pytest.approx(8)
    assert touched(1_000, 1_000) == pytest.approx(632, abs=1)


def test_at_least_once() -> None:
    found = estimate(WRITE, COSTS)
    assert found["records per batch"] == pytest.approx(100)
    assert found[figures.CONNECTIONS] == pytest.approx(1_000 * 101 / 100, rel=0.01)
    assert found[figures.STATES] == pytest.approx(1_000 * 1_000 * 3 / 100)
    assert found[figures.MESSAGES] == pytest.approx(10_000 * 21_100)
    assert found[figures.COMMIT] == pytest.approx(10)
    assert found[figures.REQUESTS] == pytest.approx(1_000 / 2 * 100 / 100, rel=0.01)
    assert not {figures.DECISION, figures.MARKERS, figures.APPENDS} & found.keys()


def test_exactly_once_has_a_transaction_for_each_task() -> None:
    found = estimate(ONCE, COSTS)
    assert list(found)[: len(estimate(WRITE, COSTS))] == list(estimate(WRITE, COSTS))
    assert found[figures.STATES] == pytest.approx(10_000 * 1_000 * 3 / 100)
    assert found[figures.MARKERS] == pytest.approx(100_000)
    assert found[figures.DESCRIBE] == pytest.approx(10)
    assert found[figures.DECISION] == pytest.approx(10_000 * 450)
    assert found[figures.MESSAGES] == pytest.approx(10_000 * 21_600)
    assert found[figures.COMMIT] == pytest.approx(10 + 2 * 10 + 1.7)


def test_maximum_size_of_batches_and_requests() -> None:
    few = Workload(tasks=1, slots=1, partitions=1, brokers=1, rows=10**6, task_seconds=1.0)
    found = estimate(few, COSTS)
    assert found["records per batch"] == pytest.approx((1 << 20) / 200, rel=0.01)
    assert found[figures.REQUESTS] == pytest.approx(10**6 * 200 / (1 << 20))


def test_tightest_limit() -> None:
    slow = estimate(ONCE, COSTS)
    assert {each.figure for each in LIMITS} < slow.keys()
    assert tightest(slow).figure == figures.DESCRIBE
    assert tightest(slow).share(slow) == pytest.approx(2)
    assert tightest(estimate(replace(WRITE, tasks=100_000), COSTS)).figure == figures.MEMORY


def test_page() -> None:
    found = [Measured(size=WRITE, costs=COSTS, reports=[DeliveryReport()])]
    estimates, limits = render_estimates(found, exactly_once=True), render_limits(found)
    assert "| tasks x partitions x brokers | 10,000 x 1,000 x 100 |" in estimates
    assert f"| tightest limit | {figures.DESCRIBE}: 200% |" in estimates
    assert f"| {figures.DESCRIBE} | 5 s (limit set by the sink) | below 1% | 200% |" in limits
    assert [shown(value) for value in (0.123, 12, 1_234, 99_700, 5e9, 0.000_012)] == [
        "123 m",
        "12",
        "1.2 k",
        "100 k",
        "5.0 G",
        "12 µ",
    ]
