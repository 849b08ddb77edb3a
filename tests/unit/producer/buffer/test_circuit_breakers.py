"""States of a breaker; breakers per partition, broker and job; retry storms; stalled brokers."""

import pytest

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.config.throttling import BreakerConfig, Thresholds, ThrottlingConfig
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.producer.buffer.circuit_breakers import (
    BatchOutcome,
    Breaker,
    BreakerState,
    CircuitBreakers,
    OutcomeTally,
    Window,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
GOOD, RETRIED, FAILED = BatchOutcome
NODE, OTHER = 1, 2
CLOSED, OPEN, HALF_OPEN = BreakerState
CONFIG = BreakerConfig(min_batches=10, window_ms=30_000, open_ms=5_000)


def breakers(
    thresholds: Thresholds | None = None, job: Thresholds | None = None
) -> CircuitBreakers:
    breaker = BreakerConfig(
        target=thresholds or Thresholds(), job=job or Thresholds(), min_batches=4, open_ms=5_000
    )
    return CircuitBreakers(ThrottlingConfig(breaker=breaker))


def test_failures_open_only_the_breaker_of_their_partition() -> None:
    watch = breakers(Thresholds(failures=2))
    for at in (10.0, 11.0):
        watch.record(A, NODE, FAILED, "X", at)
        watch.record(B, OTHER, GOOD, "NONE", at)
    assert watch.is_open(A, OTHER, 12.0)
    assert not watch.is_open(B, OTHER, 12.0)
    assert watch.has_breakers


def test_failures_of_a_broker_open_all_its_partitions() -> None:
    watch = breakers(Thresholds(failures=2))
    watch.record(A, NODE, FAILED, "X", 10.0)
    watch.record(B, NODE, FAILED, "X", 10.0)
    assert watch.is_open(TopicPartition("t", 7), NODE, 10.0)
    assert not watch.is_open(A, OTHER, 10.0)


def test_open_breaker_sends_nothing_and_half_open_sends_one_batch() -> None:
    watch = breakers(Thresholds(failures=1))
    watch.record(A, NODE, FAILED, "X", 10.0)
    for thing in (A, NODE):
        assert not watch.may_send(thing, is_busy=False, now=14.0)
        assert watch.may_send(thing, is_busy=False, now=15.0)
        assert not watch.may_send(thing, is_busy=True, now=15.0)
    assert not watch.is_open(A, NODE, 15.0)
    watch.record(A, NODE, GOOD, "NONE", 15.0)
    assert watch.may_send(A, is_busy=True, now=15.0)


def test_no_breaker_opens_by_default() -> None:
    watch = breakers()
    for _ in range(100):
        assert watch.record(A, NODE, FAILED, "X", 10.0) is None
    assert not watch.is_open(A, NODE, 10.0)
    assert watch.may_send(A, is_busy=True, now=10.0)
    assert not watch.has_breakers


def test_job_breaker_reports_its_counts() -> None:
    watch = breakers(job=Thresholds(retry_percent=60))
    reasons: list[DeliveryError | None] = [
        watch.record(A, NODE, outcome, error, 10.0)
        for outcome, error in [
            (GOOD, "NONE"),
            (GOOD, "NONE"),
            (RETRIED, "NOT_ENOUGH_REPLICAS"),
            (RETRIED, "REQUEST_TIMED_OUT"),
            (RETRIED, "NOT_ENOUGH_REPLICAS"),
        ]
    ]
    assert reasons[:4] == [None] * 4
    text = str(reasons[4])
    assert "of 5 responses in 30 s, 3 retriable errors (60 %) and 0 permanent failures" in text
    assert "NOT_ENOUGH_REPLICAS 2, REQUEST_TIMED_OUT 1" in text
    assert "errors.breaker.job.retryPercent (60) and errors.breaker.job.failures (off)" in text
    assert watch.record(A, NODE, RETRIED, "X", 10.0) is None


def test_job_breaker_counts_all_partitions() -> None:
    watch = breakers(thresholds=Thresholds(failures=9), job=Thresholds(failures=3))
    reasons = [
        watch.record(TopicPartition("t", n), n, FAILED, "TOPIC_AUTHORIZATION_FAILED", 10.0)
        for n in range(3)
    ]
    assert [reason is not None for reason in reasons] == [False, False, True]
    assert "3 permanent failures" in str(reasons[2])
    assert not any(watch.is_open(TopicPartition("t", n), n, 10.0) for n in range(3))


def test_retry_storm_lowers_the_rates() -> None:
    watch = breakers()
    for number in range(9):
        watch.record(A, NODE, RETRIED, "X", 10.0 + number / 10)
    assert watch.ramp.factor(11.0) == 1.0
    watch.record(A, NODE, RETRIED, "X", 11.0)
    assert watch.ramp.factor(11.0) == 1 / 16
    assert watch.ramp.factor(12.5) == 1 / 8


def test_few_retries_are_not_a_storm() -> None:
    watch = breakers()
    for number in range(100):
        watch.record(A, NODE, RETRIED if number % 3 == 0 else GOOD, "X", 10.0)
    assert watch.ramp.factor(10.0) == 1.0


def test_throttling_lowers_the_rates() -> None:
    watch = breakers()
    watch.on_throttled(10.0)
    assert watch.ramp.factor(10.0) == 1 / 16


def test_failures_of_one_partition_are_not_a_storm() -> None:
    watch = breakers()
    for number in range(100):
        watch.record(A, NODE, RETRIED, "X", 10.0 + number / 100)
        if number % 10 == 0:
            for topic_partition in (B, TopicPartition("t", 2)):
                watch.record(topic_partition, OTHER, GOOD, "NONE", 10.0 + number / 100)
    assert watch.ramp.factor(11.0) == 1.0
    for number in range(10):
        watch.record(B, OTHER, RETRIED, "X", 11.0 + number / 100)
    assert watch.ramp.factor(11.1) == 1 / 16


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
