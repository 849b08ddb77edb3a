"""The state machine of one circuit breaker, and the window of its outcomes."""

import pytest

from spark_kafka_sink.config.throttling import BreakerConfig, Thresholds
from spark_kafka_sink.producer.limits.breaker import (
    BatchOutcome,
    Breaker,
    BreakerState,
    OutcomeTally,
    Window,
)

GOOD, RETRIED, FAILED = BatchOutcome
CLOSED, OPEN, HALF_OPEN = BreakerState
CONFIG = BreakerConfig(min_batches=10, window_ms=30_000, open_ms=5_000)


def breaker(retry_percent: int = 0, failures: int = 0) -> Breaker:
    return Breaker(CONFIG, Thresholds(retry_percent, failures))


def test_breaker_opens_at_retry_percentage_after_minimum_count() -> None:
    partition_breaker = breaker(retry_percent=50)
    assert not any(partition_breaker.record(RETRIED, 100.0) for _ in range(4))
    assert not any(partition_breaker.record(GOOD, 100.0) for _ in range(5))
    assert partition_breaker.state(100.0) is CLOSED
    assert partition_breaker.record(RETRIED, 100.0)


def test_successes_keep_it_closed() -> None:
    partition_breaker = breaker(retry_percent=50)
    for _ in range(100):
        assert not partition_breaker.record(GOOD, 100.0)
        assert not partition_breaker.record(GOOD, 100.0)
        assert not partition_breaker.record(RETRIED, 100.0)


def test_unset_thresholds_are_never_reached() -> None:
    partition_breaker = breaker()
    assert not any(partition_breaker.record(outcome, 100.0) for outcome in [RETRIED, FAILED] * 100)


def test_breaker_pauses_and_probes() -> None:
    partition_breaker = breaker(failures=1)
    assert partition_breaker.record(FAILED, 100.0)
    assert partition_breaker.state(104.9) is OPEN
    assert partition_breaker.state(105.0) is HALF_OPEN
    assert not partition_breaker.record(GOOD, 105.0)
    assert partition_breaker.state(105.0) is CLOSED


@pytest.mark.parametrize("outcome", [RETRIED, FAILED])
def test_failed_probe_reopens_it(outcome: BatchOutcome) -> None:
    partition_breaker = breaker(failures=1)
    partition_breaker.record(FAILED, 100.0)
    assert partition_breaker.record(outcome, 107.0)
    assert partition_breaker.state(111.9) is OPEN
    assert partition_breaker.state(112.0) is HALF_OPEN


def test_responses_while_open_are_ignored() -> None:
    partition_breaker = breaker(failures=1)
    partition_breaker.record(FAILED, 100.0)
    assert not partition_breaker.record(FAILED, 101.0)
    assert not partition_breaker.record(GOOD, 102.0)
    assert partition_breaker.state(104.0) is OPEN
    assert partition_breaker.state(105.0) is HALF_OPEN


def test_closing_resets_the_counts() -> None:
    partition_breaker = breaker(failures=2)
    partition_breaker.record(FAILED, 100.0)
    partition_breaker.record(FAILED, 100.0)
    partition_breaker.record(GOOD, 106.0)
    assert not partition_breaker.record(FAILED, 107.0)
    assert partition_breaker.state(107.0) is CLOSED


def test_responses_outside_the_window_are_ignored() -> None:
    partition_breaker = breaker(failures=2)
    assert not partition_breaker.record(FAILED, 100.0)
    assert not partition_breaker.record(FAILED, 131.0)
    assert partition_breaker.record(FAILED, 140.0)


def test_window_slides() -> None:
    window = Window(10.0)
    for second in range(30):
        window.add(GOOD, float(second))
        window.add(RETRIED, float(second))
        assert window.tally(float(second)).total == 2 * min(second + 1, 10)
    assert window.tally(29.0) == OutcomeTally(delivered=10, retried=10)
    assert window.tally(38.9).total == 2
    assert window.tally(60.0) == OutcomeTally()


def test_threshold_needs_its_percentage_and_minimum_count() -> None:
    assert OutcomeTally(3, 1, 0).retry_percent == 25.0
    assert OutcomeTally().retry_percent == 0.0
    assert OutcomeTally(5, 5, 0).reaches(Thresholds(50), 10)
    assert not OutcomeTally(5, 5, 0).reaches(Thresholds(51), 10)
    assert not OutcomeTally(5, 5, 0).reaches(Thresholds(50), 11)
