"""errors.tolerance=all and rejections: dead letters, breakers, retries and other partitions."""

from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import AuthorizationError, DeliveryError, UnknownTopicError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.throttling import BreakerConfig, Thresholds, ThrottlingConfig
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session_settings import SessionSettings
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world
from tests.unit.producer.rejections import (
    DEAD,
    RejectingLog,
    cluster,
    letters,
    reason,
    record_errors,
    tolerant,
)

ONCE = BreakerConfig(target=Thresholds(failures=1), job=Thresholds(failures=1))
NAMED = record_errors(1)


def counts(sim: World) -> dict[str, tuple[int, int]]:
    """Count dead letters and dropped rows by reason."""
    return {c.reason: (c.dead_lettered, c.dropped) for c in sim.report().poison}


# Breakers.


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.invalid_timestamp,
        ErrorCode.invalid_record,
    ],
)
@pytest.mark.parametrize("extra", [{}, NAMED])
@pytest.mark.parametrize("tolerates", [True, False])
def test_rejected_records_open_no_breaker(
    code: int, extra: dict[str, object], *, tolerates: bool
) -> None:
    settings = tolerant(breaker=ONCE) if tolerates else SessionSettings(throttling=pressure(ONCE))
    with world(cluster(), settings) as sim:
        sim.deliver([b"first"])
        sim.fault(*[Fault(error=code, extra=extra)] * (1 if tolerates else 3))
        sim.send([b"bad", b"worse"] if extra else [b"bad"])
        if tolerates:
            sim.finish()
        else:
            with pytest.raises(DeliveryError) as caught:
                sim.finish()
            assert caught.value.kafka_error == ErrorCode(code).name.upper()
        watch, now = sim.buffer.breakers, sim.clock.monotonic()
        assert not watch.is_open(TopicPartition("t", 0), 1, now)
        assert watch._job.tally(now).failed == 0


def pressure(breaker: BreakerConfig) -> ThrottlingConfig:
    return ThrottlingConfig(breaker=breaker)


@pytest.mark.parametrize("threshold", [1, 2, 3])
def test_job_breaker_fails_the_task_at_its_failure_threshold(threshold: int) -> None:
    breaker = BreakerConfig(job=Thresholds(failures=threshold))
    with world(cluster(), tolerant(None, breaker=breaker)) as sim:
        sim.fault(*[Fault(error=ErrorCode.topic_authorization_failed)] * 10)
        for number in range(threshold - 1):
            sim.deliver([b"no right"], number % 4)
        sim.send([b"no right"])
        with pytest.raises(DeliveryError, match=plural(threshold, "permanent failure")):
            sim.finish()
        assert len(sim.cluster.seen) == threshold


@pytest.mark.parametrize("threshold", [1, 2, 3])
def test_partition_breaker_opens_at_its_failure_threshold(threshold: int) -> None:
    breaker = BreakerConfig(target=Thresholds(failures=threshold), open_ms=60_000)
    with world(cluster(u=1), tolerant(breaker=breaker)) as sim:
        watch = sim.buffer.breakers
        for number in range(threshold):
            assert not watch.is_open(TopicPartition("t", 0), 1, sim.clock.monotonic())
            sim.fault(Fault(error=ErrorCode.topic_authorization_failed))
            sim.deliver([b"no right %d" % number])
        assert watch.is_open(TopicPartition("t", 0), 1, sim.clock.monotonic())
        sim.send([b"too late"])
        sim.send([b"good"], 0, "u")  # of the same broker, which has not failed
        sim.finish()
        assert sim.cluster.logs["u", 0].values() == [b"good"]
        assert sim.cluster.logs["t", 0].end == 0
        assert [record.value for record in letters(sim)] == [
            *(b"no right %d" % number for number in range(threshold)),
            b"too late",
        ]
        assert counts(sim) == {"TOPIC_UNAUTHORIZED": (threshold, 0), "BREAKER_OPEN": (1, 0)}


def test_single_batch_probes_a_broker_after_its_pause() -> None:
    breaker = BreakerConfig(target=Thresholds(retry_percent=100), min_batches=4, open_ms=5_000)
    with world(cluster(), SessionSettings(throttling=pressure(breaker))) as sim:
        for partition in range(4):
            sim.send([b"first"], partition)
        sim.finish()
        sim.clock.advance(60.0)
        before = len(sim.cluster.seen)
        sim.fault(
            Fault(error=ErrorCode.not_enough_replicas), Fault(error=ErrorCode.not_enough_replicas)
        )
        for partition in range(4):
            sim.send([b"second"], partition)
        sim.run(lambda: len(sim.cluster.seen) > before, 0.1)
        sim.finish(0.1)
        later = [len(seen.batches) for seen in sim.cluster.seen[before:]]
        assert later[:3] == [4, 1, 1]  # opened by four rejections; the first probe fails too
        sim.check_accounting()


# Topics that are denied or missing.


@pytest.mark.parametrize(
    ("code", "row_error"),
    [
        (ErrorCode.topic_authorization_failed, "TOPIC_UNAUTHORIZED"),
        (ErrorCode.invalid_topic_exception, "INVALID_TOPIC"),
    ],
)
@pytest.mark.parametrize("keep", [True, False])
def test_denied_topic_does_not_fail_other_topics(code: int, row_error: str, *, keep: bool) -> None:
    with world(cluster(u=1), tolerant(DEAD if keep else None)) as sim:
        sim.fault(Fault(error=code))
        sim.deliver([b"a", b"b"])
        sim.deliver([b"good"], 0, "u")
        assert sim.cluster.logs["u", 0].values() == [b"good"]
        assert counts(sim) == {row_error: (2, 0) if keep else (0, 2)}
        assert [record.value for record in letters(sim)] == ([b"a", b"b"] if keep else [])
        if keep:
            assert dict(letters(sim)[0].headers)["__connect.errors.topic"] == b"t"
            assert "AUTHORIZATION" in reason(letters(sim)[0]) or "INVALID" in reason(
                letters(sim)[0]
            )
        assert sim.buffer.pool.used == 0
        assert sim.buffer.state.incomplete_batches == 0


def test_rows_after_those_of_a_denied_topic_have_no_sequence_gap() -> None:
    with world(cluster(), tolerant()) as sim:
        sim.deliver([b"0"])
        sim.fault(Fault(error=ErrorCode.topic_authorization_failed))
        sim.deliver_batches(4)
        sim.deliver([b"last"])
        assert len(letters(sim)) == 3
        assert sim.cluster.logs["t", 0].end == 1 + 9 + 1


def test_possibly_appended_batch_of_denied_topic_fails_the_task() -> None:
    with world(cluster(), tolerant()) as sim:
        sim.fault(Fault(lose=True), Fault(error=ErrorCode.topic_authorization_failed))
        sim.send([b"a"])
        with pytest.raises(AuthorizationError):
            sim.finish()
        assert letters(sim) == []


def test_denied_dead_letter_topic_fails_the_task() -> None:
    with world(cluster(), tolerant()) as sim:
        sim.fault(
            Fault(error=ErrorCode.topic_authorization_failed),
            Fault(error=ErrorCode.topic_authorization_failed),
        )
        sim.send([b"a"])
        with pytest.raises(AuthorizationError) as caught:
            sim.finish()
        assert caught.value.topic == DEAD
        sim.check_memory_accounting()


# Topics that the metadata rejects: the writer's thread waits for them, so the test advances the
# clock in another thread (see `append_while_stepping`).


@pytest.mark.parametrize(
    ("code", "row_error"),
    [
        (ErrorCode.topic_authorization_failed, "TOPIC_UNAUTHORIZED"),
        (ErrorCode.invalid_topic_exception, "INVALID_TOPIC"),
        (ErrorCode.unknown_topic_or_partition, "UNKNOWN_TOPIC"),
    ],
)
@pytest.mark.parametrize("keep", [True, False])
def test_rows_of_topics_with_metadata_errors_are_bad_rows(
    code: int, row_error: str, *, keep: bool
) -> None:
    with world(cluster(u=2), tolerant(DEAD if keep else None), max_block_ms=500) as sim:
        sim.cluster.metadata_errors["nope"] = code
        sim.append_while_stepping(rows(["u", "nope", "u", "nope", "t"]))
        sim.append_while_stepping(rows(["nope"]))
        sim.append_while_stepping(rows(["u"]))
        sim.finish()
        assert sim.cluster.logs["t", 0].end + sim.cluster.logs["t", 1].end <= 1
        written = [log.end for (name, _), log in sim.cluster.logs.items() if name in {"t", "u"}]
        assert sum(written) == 4
        assert counts(sim) == {row_error: (3, 0) if keep else (0, 3)}
        dead = letters(sim)
        assert [record.value for record in dead] == ([b"1", b"3", b"0"] if keep else [])
        assert {dict(r.headers)["__connect.errors.topic"] for r in dead} <= {b"nope"}


def test_missing_topic_is_waited_for_only_once() -> None:
    with world(cluster(), tolerant(), max_block_ms=60_000) as sim:
        sim.append_while_stepping(rows(["nope"]))
        before = sim.clock.monotonic()
        sim.append_while_stepping(rows(["nope"]))
        assert sim.clock.monotonic() - before < 30.0
        assert counts(sim) == {"UNKNOWN_TOPIC": (2, 0)}


def test_later_missing_topics_have_shorter_waits() -> None:
    with world(cluster(), tolerant(), max_block_ms=600_000) as sim:
        sim.append_while_stepping(rows(["nope"]), 1.0)
        before = sim.clock.monotonic()
        for number in range(10):
            sim.append_while_stepping(rows([f"nope-{number}"]), 0.2)
        assert sim.clock.monotonic() - before < 300
        assert counts(sim) == {"UNKNOWN_TOPIC": (11, 0)}


def test_topic_created_later_is_written() -> None:
    with world(cluster(), tolerant(), max_block_ms=500) as sim:
        sim.append_while_stepping(rows(["late"]))
        sim.cluster.create("late", 1)
        sim.run(lambda: "late" in sim.client.metadata.cluster.topics)
        sim.append_while_stepping(rows(["late"]))
        sim.finish()
        assert sim.cluster.logs["late", 0].end == 1
        assert counts(sim) == {"UNKNOWN_TOPIC": (1, 0)}


def test_missing_dead_letter_topic_fails_the_task() -> None:
    with world(FakeCluster(topics={"t": 1}), tolerant(), max_block_ms=300) as sim:
        with pytest.raises(UnknownTopicError) as caught:
            sim.append_while_stepping(rows(["nope"]))
        assert caught.value.topic == DEAD
        assert "the dead letter topic was not available" in caught.value.message
        hint = "Correct errors.deadletterqueue.topic.name, or create the topic: topic.create=true"
        assert hint in (caught.value.hint or "")


def rows(topics: list[str]) -> Rows:
    names = sorted(set(topics))
    column = pa.array([names.index(name) for name in topics], pa.int32()).to_numpy()
    values = pa.array([b"%d" % number for number in range(len(topics))], pa.binary())
    return Rows(
        columns=Columns(value=values),
        topics=tuple(names),
        topic_indexes=column if len(names) > 1 else None,
    )


# Batches that are rejected without naming the record.


@pytest.mark.parametrize(
    "code", [ErrorCode.record_list_too_large, ErrorCode.invalid_timestamp, ErrorCode.invalid_record]
)
@pytest.mark.parametrize("keep", [True, False])
def test_rejected_batch_is_halved_until_bad_records_are_found(code: int, *, keep: bool) -> None:
    with world(cluster(), tolerant(DEAD if keep else None), batch_size=16_384) as sim:
        picky = sim.cluster.logs["t", 0] = RejectingLog(code)
        values = [b"bad%03d" % n if n in {0, 17, 63} else b"%06d" % n for n in range(64)]
        sim.send(values)
        sim.deliver([b"after"])
        good = [value for value in values if not value.startswith(b"bad")]
        assert picky.values() == [*good, b"after"]
        bad = [b"bad000", b"bad017", b"bad063"]
        dead = sorted(record.value or b"" for record in letters(sim))
        assert dead == (
            (bad if code != ErrorCode.record_list_too_large else [b""] * 3) if keep else []
        )
        reason = "OVERSIZED" if code == ErrorCode.record_list_too_large else "REJECTED"
        assert counts(sim) == {reason: (3, 0) if keep else (0, 3)}
        assert picky.judged < 64
        assert sim.buffer.pool.used == 0


def test_invalid_record_indexes_are_ignored() -> None:
    nobody = record_errors(9)
    with world(cluster(), tolerant()) as sim:
        sim.fault(Fault(error=ErrorCode.invalid_record, extra=nobody))
        sim.deliver([b"a", b"b", b"c"])
        assert sim.cluster.logs["t", 0].values() == [b"a", b"b", b"c"]
        assert counts(sim) == {}


# Slow start after throttling.


@pytest.mark.parametrize("trouble", [Fault(throttle_ms=5), None])
def test_rate_is_limited_after_throttling_even_without_configured_limit(
    sim: World, trouble: Fault | None
) -> None:
    for _ in range(20):  # 30,000 bytes per second
        sim.append_while_stepping(many(100))
        sim.steps(20)
    sim.fault(trouble)
    sim.append_while_stepping(many(1))
    sim.finish()
    sim.steps(1)
    before = sim.clock.monotonic()
    for _ in range(6):
        sim.append_while_stepping(many(100), 0.0002)
    took = sim.clock.monotonic() - before
    sim.finish()
    sim.check_memory_accounting()
    assert (1.5 < took < 4.5) if trouble else took < 1.0


def many(count: int) -> Rows:
    return Rows(columns=Columns(value=pa.array([b"v" * 20] * count, pa.binary())), topics=("t",))


def test_new_topic_is_requested_immediately_while_another_is_missing() -> None:
    """The request in flight does not include it; the back-off applies only to the other topic."""
    backoff: dict[str, Any] = {"retry_backoff_ms": 1_000, "retry_backoff_max_ms": 60_000}
    with world(cluster(), **backoff) as sim:
        seen = sim.cluster.requests
        sim.cluster.create("u", 1)
        sim.add_topics(("gone",))
        for _ in range(6):
            before = len(seen)
            sim.run(lambda before=before: len(seen) > before, 0.1)  # type: ignore[misc]
        sim.add_topics(("u",))
        started = sim.clock.monotonic()
        sim.run(lambda: "u" in sim.client.metadata.cluster.topics)
        assert sim.clock.monotonic() - started < 0.2
