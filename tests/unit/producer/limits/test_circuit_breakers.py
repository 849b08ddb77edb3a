"""Breakers per partition, broker and job; retry storms; stalled brokers."""

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.config.throttling import BreakerConfig, Thresholds, ThrottlingConfig
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.producer.limits.breaker import BatchOutcome
from spark_kafka_sink.producer.limits.circuit_breakers import CircuitBreakers
from spark_kafka_sink.producer.session_settings import SessionSettings
from tests.support.harness.fake import Fault
from tests.support.harness.world import world

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
GOOD, RETRIED, FAILED = BatchOutcome
NODE, OTHER = 1, 2


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
        watch.record(FIRST, NODE, FAILED, "X", at)
        watch.record(SECOND, OTHER, GOOD, "NONE", at)
    assert watch.is_open(FIRST, OTHER, 12.0)
    assert not watch.is_open(SECOND, OTHER, 12.0)
    assert watch.has_breakers


def test_failures_of_a_broker_open_all_its_partitions() -> None:
    watch = breakers(Thresholds(failures=2))
    watch.record(FIRST, NODE, FAILED, "X", 10.0)
    watch.record(SECOND, NODE, FAILED, "X", 10.0)
    assert watch.is_open(TopicPartition("t", 7), NODE, 10.0)
    assert not watch.is_open(FIRST, OTHER, 10.0)


def test_open_breaker_sends_nothing_and_half_open_sends_one_batch() -> None:
    watch = breakers(Thresholds(failures=1))
    watch.record(FIRST, NODE, FAILED, "X", 10.0)
    for thing in (FIRST, NODE):
        assert not watch.may_send(thing, is_busy=False, now=14.0)
        assert watch.may_send(thing, is_busy=False, now=15.0)
        assert not watch.may_send(thing, is_busy=True, now=15.0)
    assert not watch.is_open(FIRST, NODE, 15.0)
    watch.record(FIRST, NODE, GOOD, "NONE", 15.0)
    assert watch.may_send(FIRST, is_busy=True, now=15.0)


def test_no_breaker_opens_by_default() -> None:
    watch = breakers()
    for _ in range(100):
        assert watch.record(FIRST, NODE, FAILED, "X", 10.0) is None
    assert not watch.is_open(FIRST, NODE, 10.0)
    assert watch.may_send(FIRST, is_busy=True, now=10.0)
    assert not watch.has_breakers


def test_job_breaker_reports_its_counts() -> None:
    watch = breakers(job=Thresholds(retry_percent=60))
    reasons: list[DeliveryError | None] = [
        watch.record(FIRST, NODE, outcome, error, 10.0)
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
    assert watch.record(FIRST, NODE, RETRIED, "X", 10.0) is None


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
        watch.record(FIRST, NODE, RETRIED, "X", 10.0 + number / 10)
    assert watch.ramp.factor(11.0) == 1.0
    watch.record(FIRST, NODE, RETRIED, "X", 11.0)
    assert watch.ramp.factor(11.0) == 1 / 16
    assert watch.ramp.factor(12.5) == 1 / 8


def test_few_retries_are_not_a_storm() -> None:
    watch = breakers()
    for number in range(100):
        watch.record(FIRST, NODE, RETRIED if number % 3 == 0 else GOOD, "X", 10.0)
    assert watch.ramp.factor(10.0) == 1.0


def test_throttling_lowers_the_rates() -> None:
    watch = breakers()
    watch.on_throttled(10.0)
    assert watch.ramp.factor(10.0) == 1 / 16


def test_failures_of_one_partition_are_not_a_storm() -> None:
    watch = breakers()
    for number in range(100):
        watch.record(FIRST, NODE, RETRIED, "X", 10.0 + number / 100)
        if number % 10 == 0:
            for topic_partition in (SECOND, TopicPartition("t", 2)):
                watch.record(topic_partition, OTHER, GOOD, "NONE", 10.0 + number / 100)
    assert watch.ramp.factor(11.0) == 1.0
    for number in range(10):
        watch.record(SECOND, OTHER, RETRIED, "X", 11.0 + number / 100)
    assert watch.ramp.factor(11.1) == 1 / 16


def guarded(breaker: BreakerConfig) -> SessionSettings:
    return SessionSettings(throttling=ThrottlingConfig(breaker=breaker))


def test_open_breaker_sends_nothing_until_its_pause_ends() -> None:
    breaker = BreakerConfig(target=Thresholds(retry_percent=75), min_batches=4, open_ms=9_000)
    with world(settings=guarded(breaker)) as sim:
        sim.deliver_batches(1)
        sim.fault(*[Fault(error=ErrorCode.not_enough_replicas)] * 3)
        sim.send_batches(1)
        sim.run(lambda: len(sim.cluster.seen) == 4, 0.1)
        sim.steps(1, 0.1)
        opened = sim.clock.monotonic()
        info = sim.client.metadata.cluster.topics["t"]
        assert sim.session.admission.find_open_breakers(info) == {0, 1, 2, 3, UNASSIGNED}
        sim.finish(0.1)
        assert sim.cluster.seen[-1].at - opened == pytest.approx(9.0, abs=0.3)
        assert sim.session.admission.find_open_breakers(info) == frozenset()
        sim.check_accounting()


def test_job_breaker_fails_session_with_its_reason() -> None:
    breaker = BreakerConfig(job=Thresholds(retry_percent=80), min_batches=5)
    with world(settings=guarded(breaker)) as sim:
        sim.fault(*[Fault(error=ErrorCode.not_enough_replicas)] * 50)
        sim.send_batches(2)
        with pytest.raises(DeliveryError, match="breaker opened: of 5 responses"):
            sim.finish(0.1)
        assert sim.statuses() == {DeliveryStatus.NOT_PERSISTED: 6}
        assert len(sim.cluster.seen) == 5
        sim.check_accounting()
