"""Poison rows of every kind: the good rows of their batch arrive, they become dead letters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_kafka_sink.base.clock import SystemClock
from spark_kafka_sink.base.config import SinkConfig
from spark_kafka_sink.base.errors import (
    ColumnError,
    DeliveryError,
    RecordTooLargeError,
    UnknownTopicError,
)
from spark_kafka_sink.base.report import DeliveryReport, TaskInfo
from spark_kafka_sink.broker import EmbeddedBroker
from spark_kafka_sink.producer.pool import borrow_session, discard_session
from spark_kafka_sink.producer.settings import SessionSettings
from spark_kafka_sink.spark.columns import read_rows
from spark_kafka_sink.spark.contract import Contract
from tests.integration.producing import rows
from tests.kafka.admin import Admin
from tests.kafka.readers import by_confluent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kafka.foreign import ForeignRecord

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TOLERATE = {"errors.tolerance": "all"}
TOO_LARGE = "x" * 1_100_000


def _batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows of value, topic, partition, headers."""
    value, topic, partition, headers = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(value, pa.string()),
            pa.array(topic, pa.string()),
            pa.array(partition, pa.int32()),
            pa.array(headers, HEADERS),
        ],
        names=["value", "topic", "partition", "headers"],
    )


def _write(
    bootstrap_servers: str, batch: pa.RecordBatch, options: dict[str, str]
) -> DeliveryReport:
    config = SinkConfig.parse({"kafka.bootstrap.servers": bootstrap_servers, **options})
    contract = Contract(
        value=0,
        key=None,
        topic=1,
        partition=2,
        headers=3,
        timestamp=None,
        fixed_topic=None,
        tolerant=config.poison.tolerant,
    )
    session = borrow_session(
        config.producer, SessionSettings(poison=config.poison, pressure=config.pressure, task=7)
    )
    try:
        session.append(read_rows(batch, contract, SystemClock()))
        session.flush()
        return session.report(TaskInfo())
    finally:
        discard_session(session)


def _poison(topic: str) -> list[tuple[Any, ...]]:
    return [
        ("good", topic, None, [{"key": "h", "value": b"1"}]),
        ("no topic", None, None, None),
        ("no such partition", topic, 99, []),
        (TOO_LARGE, topic, None, [{"key": "q", "value": None}]),
        ("no header key", topic, 1, [{"key": None, "value": b"z"}]),
        ("good too", topic, 1, None),
    ]


def _context(record: ForeignRecord, name: str) -> bytes | None:
    return dict(record.headers)[f"__connect.errors.{name}"]


@pytest.fixture
def topics(any_kafka: Any, unique_topic: str) -> tuple[str, str, str]:
    """The broker's address, a topic of two partitions, and a dead letter topic."""
    admin = Admin(any_kafka.bootstrap_servers)
    letters = f"{unique_topic}-dead"
    admin.create_topic(unique_topic, partitions=2)
    admin.create_topic(letters, partitions=1)
    return any_kafka.bootstrap_servers, unique_topic, letters


def test_good_rows_arrive_and_the_others_are_dead_letters(topics: tuple[str, str, str]) -> None:
    servers, topic, letters = topics
    options = {**TOLERATE, "errors.deadletterqueue.topic.name": letters}
    report = _write(servers, _batch(_poison(topic)), options)

    good = by_confluent(servers, topic)
    assert sorted(record.value for record in good) == [b"good", b"good too"]
    dead = {
        _context(record, "exception.message"): record for record in by_confluent(servers, letters)
    }
    assert [record.value for record in dead.values()] == [
        b"no topic",
        b"no such partition",
        None,
        b"no header key",
    ]
    assert [_context(record, "topic") for record in dead.values()] == [
        None,
        *[topic.encode()] * 3,
    ]
    assert [_context(record, "partition") for record in dead.values()] == [None, b"99", None, b"1"]
    assert {_context(record, "task.id") for record in dead.values()} == {b"7"}
    classes = [_context(record, "exception.class.name") for record in dead.values()]
    assert [name.rpartition(b".")[2] for name in classes if name] == [
        b"ColumnError",
        b"ColumnError",
        b"RecordTooLargeError",
        b"ColumnError",
    ]
    own = [record.headers[: len(record.headers) - 8] for record in dead.values()]
    assert own == [(), (), (("q", None),), (("", b"z"),)]

    assert report.persisted == 6
    assert {count.reason: count.dead_lettered for count in report.poison} == {
        "NULL_TOPIC": 1,
        "PARTITION_OUT_OF_RANGE": 1,
        "OVERSIZED": 1,
        "NULL_HEADER_KEY": 1,
    }
    assert all("row " in count.examples[0] for count in report.poison)
    assert DeliveryReport.from_json(report.to_json()) == report


def test_without_a_topic_poison_rows_are_dropped_and_counted(topics: tuple[str, str, str]) -> None:
    servers, topic, _ = topics
    report = _write(servers, _batch(_poison(topic)), TOLERATE)
    assert report.persisted == 2
    assert sum(count.dropped for count in report.poison) == 4
    assert not any(count.dead_lettered for count in report.poison)


def test_context_headers_can_be_left_out(topics: tuple[str, str, str]) -> None:
    servers, topic, letters = topics
    options = {
        **TOLERATE,
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.context.headers.enable": "false",
    }
    _write(servers, _batch(_poison(topic)), options)
    assert [record.headers for record in by_confluent(servers, letters)] == [
        (),
        (),
        (("q", None),),
        (("", b"z"),),
    ]


@pytest.mark.parametrize(
    ("row", "error"),
    [(1, ColumnError), (2, ColumnError), (3, RecordTooLargeError), (4, ColumnError)],
)
def test_nothing_is_tolerated_unless_asked_for(
    topics: tuple[str, str, str], row: int, error: type[Exception]
) -> None:
    servers, topic, _ = topics
    with pytest.raises(error):
        _write(servers, _batch([_poison(topic)[row]]), {})


def test_a_dead_letter_topic_that_is_missing_fails_the_task(topics: tuple[str, str, str]) -> None:
    servers, topic, _ = topics
    options = {
        **TOLERATE,
        "errors.deadletterqueue.topic.name": f"{topic}-nowhere",
        "kafka.allow.auto.create.topics": "false",
        "kafka.max.block.ms": "1500",
    }
    with pytest.raises(UnknownTopicError, match="nowhere"):
        _write(servers, _batch(_poison(topic)), options)


def test_a_job_that_only_makes_dead_letters_is_stopped(topics: tuple[str, str, str]) -> None:
    servers, topic, letters = topics
    options = {**TOLERATE, "errors.deadletterqueue.topic.name": letters}
    only_bad = _batch([("v", topic, 99, None)] * 1_000)
    with pytest.raises(DeliveryError, match=r"1,000 of 1,000 rows .* errors\.maxRatio is 1\.0"):
        _write(servers, only_bad, options)
    half_bad = _batch([("v", topic, 99 if row % 2 else None, None) for row in range(1_000)])
    assert _write(servers, half_bad, options).persisted == 1_000
    with pytest.raises(DeliveryError, match="500 of 1,000"):
        _write(servers, half_bad, {**options, "errors.maxRatio": "0.25"})


def test_records_that_the_broker_refuses_are_dead_letters_and_the_rest_goes_again(
    any_kafka: Any, unique_topic: str
) -> None:
    """A compacted topic refuses records without a key, and names them (KIP-467)."""
    servers, letters = any_kafka.bootstrap_servers, f"{unique_topic}-dead"
    admin = Admin(servers)
    admin.create_topic(unique_topic, partitions=1, configs={"cleanup.policy": "compact"})
    admin.create_topic(letters, partitions=1)
    keys = [None if row % 10 == 3 else b"%d" % row for row in range(100)]
    options = {**TOLERATE, "errors.deadletterqueue.topic.name": letters}
    report = _write_keyed(servers, unique_topic, keys, options)

    found = by_confluent(servers, unique_topic)
    assert [record.key for record in found] == [key for key in keys * 3 if key is not None]
    dead = by_confluent(servers, letters)
    assert [record.value for record in dead] == [b"v%d" % row for row in range(3, 100, 10)] * 3
    assert {_context(record, "partition") for record in dead} == {b"0"}
    assert b"broker refused" in (_context(dead[0], "exception.message") or b"")
    assert report.persisted == 300
    assert [(count.reason, count.dead_lettered) for count in report.poison] == [("REFUSED", 30)]


def test_a_record_too_large_for_the_topic_is_a_dead_letter(
    any_kafka: Any, unique_topic: str
) -> None:
    servers, letters = any_kafka.bootstrap_servers, f"{unique_topic}-dead"
    admin = Admin(servers)
    admin.create_topic(unique_topic, partitions=1, configs={"max.message.bytes": "2000"})
    admin.create_topic(letters, partitions=1)
    large = [("v" * (5_000 if row == 7 else 100), unique_topic, 0, None) for row in range(40)]
    options = {**TOLERATE, "errors.deadletterqueue.topic.name": letters}
    report = _write(servers, _batch(large), options)

    assert [len(record.value or b"") for record in by_confluent(servers, unique_topic)] == [
        100
    ] * 39
    (dead,) = by_confluent(servers, letters)
    assert dead.value is None
    assert report.persisted == 40
    assert report.splits > 0


def _write_keyed(
    servers: str, topic: str, keys: list[bytes | None], options: dict[str, str]
) -> DeliveryReport:
    """The same keyed rows three times, each time as a batch of its own."""
    config = SinkConfig.parse(
        {"kafka.bootstrap.servers": servers, "kafka.linger.ms": "0", **options}
    )
    values = [b"v%d" % row for row in range(len(keys))]
    session = borrow_session(config.producer, SessionSettings(poison=config.poison))
    try:
        for _ in range(3):
            session.append(rows(topic, values, keys=keys))
        session.flush()
        return session.report(TaskInfo())
    finally:
        discard_session(session)


def test_rows_of_a_partition_whose_breaker_is_open_are_dead_letters() -> None:
    """Partition 1 takes nothing for a while; the rows for partition 0, on another broker, go on."""
    refusals = "produce:topic=t:partition=1:error=NOT_ENOUGH_REPLICAS:next=4"
    topics = {"t": 2, "dead": 1}
    with EmbeddedBroker(nodes=2, topics=topics, faults=[refusals]) as kafka:
        config = SinkConfig.parse(
            {
                "kafka.bootstrap.servers": kafka.bootstrap_servers,
                "kafka.linger.ms": "0",
                "kafka.retry.backoff.ms": "10",
                "kafka.retry.backoff.max.ms": "10",
                "errors.deadletterqueue.topic.name": "dead",
                "errors.breaker.retryPercent": "100",
                "errors.breaker.minBatches": "4",
                "errors.breaker.openMs": "1000",
                **TOLERATE,
            }
        )
        settings = SessionSettings(poison=config.poison, pressure=config.pressure)
        session = borrow_session(config.producer, settings)
        try:
            session.append(rows("t", [b"first"], partitions=[1]))
            deadline = time.monotonic() + 10
            while not session._gate.broken(session.client.metadata.cluster.topics["t"]):
                assert time.monotonic() < deadline, "the breaker never opened"
                time.sleep(0.01)
            session.append(rows("t", [b"a", b"b", b"c"], partitions=[0, 1, 0]))
            session.flush()
            report = session.report(TaskInfo())
        finally:
            discard_session(session)
        found = by_confluent(kafka.bootstrap_servers, "t")
        assert [(record.partition, record.value) for record in found] == [
            (0, b"a"),
            (0, b"c"),
            (1, b"first"),
        ]
        (dead,) = by_confluent(kafka.bootstrap_servers, "dead")
        assert dead.value == b"b"
        assert b"circuit breaker" in (_context(dead, "exception.message") or b"")
        assert [(count.reason, count.dead_lettered) for count in report.poison] == [
            ("BREAKER_OPEN", 1)
        ]


def test_rows_of_topics_that_are_not_there_are_dead_letters_and_others_go_on(
    topics: tuple[str, str, str],
) -> None:
    servers, topic, letters = topics
    options = {
        **TOLERATE,
        "errors.deadletterqueue.topic.name": letters,
        "kafka.allow.auto.create.topics": "false",
        "kafka.max.block.ms": "1500",
    }
    names = [topic, f"{topic}-gone", "not/a/name", topic]
    report = _write(servers, _batch([(name, name, None, None) for name in names]), options)
    assert [record.value for record in by_confluent(servers, topic)] == [topic.encode()] * 2
    dead = by_confluent(servers, letters)
    assert {record.value for record in dead} == {f"{topic}-gone".encode(), b"not/a/name"}
    assert {count.reason: count.dead_lettered for count in report.poison} == {
        "UNKNOWN_TOPIC": 1,
        "INVALID_TOPIC": 1,
    }


def test_batches_larger_than_a_segment_are_halved_until_they_fit(
    any_kafka: Any, unique_topic: str
) -> None:
    """RECORD_LIST_TOO_LARGE names no record; only the row that fits no segment is lost."""
    servers, letters = any_kafka.bootstrap_servers, f"{unique_topic}-dead"
    limits = {"segment.bytes": str(1 << 20), "max.message.bytes": str(8 << 20)}
    admin = Admin(servers)
    admin.create_topic(unique_topic, partitions=1, configs=limits)
    admin.create_topic(letters, partitions=1)
    options = {
        **TOLERATE,
        "errors.deadletterqueue.topic.name": letters,
        "kafka.batch.size": str(4 << 20),
        "kafka.max.request.size": str(8 << 20),
        "kafka.linger.ms": "1000",
    }
    values = ["v" * (1_200_000 if row == 5 else 100_000) for row in range(20)]
    report = _write(servers, _batch([(v, unique_topic, 0, None) for v in values]), options)
    found = by_confluent(servers, unique_topic)
    assert [len(record.value or b"") for record in found] == [100_000] * 19
    (dead,) = by_confluent(servers, letters)
    assert _context(dead, "topic") == unique_topic.encode()
    assert report.persisted == 20
    assert report.splits > 0


def test_a_topic_without_the_right_to_write_does_not_end_the_others() -> None:
    refusals = "produce:topic=secret:error=TOPIC_AUTHORIZATION_FAILED"
    with EmbeddedBroker(topics={"secret": 2, "open": 1, "dead": 1}, faults=[refusals]) as kafka:
        servers = kafka.bootstrap_servers
        options = {**TOLERATE, "errors.deadletterqueue.topic.name": "dead"}
        batch = _batch([(f"{n}", "secret" if n % 3 else "open", None, None) for n in range(90)])
        report = _write(servers, batch, options)
        assert len(by_confluent(servers, "open")) == 30
        dead = by_confluent(servers, "dead")
        assert len(dead) == 60
        assert b"TOPIC_AUTHORIZATION_FAILED" in (_context(dead[0], "exception.message") or b"")
        assert [(c.reason, c.dead_lettered) for c in report.poison] == [("TOPIC_UNAUTHORIZED", 60)]
        with pytest.raises(DeliveryError, match="TOPIC_AUTHORIZATION_FAILED"):
            _write(servers, batch, {})


def test_the_jobs_breaker_counts_batches_that_a_task_outlives() -> None:
    refusals = "produce:topic=secret:error=TOPIC_AUTHORIZATION_FAILED"
    with EmbeddedBroker(topics={"secret": 1}, faults=[refusals]) as kafka:
        options = {
            **TOLERATE,
            "errors.breaker.job.failures": "3",
            "kafka.batch.size": "1000",
            "kafka.linger.ms": "0",
        }
        with pytest.raises(DeliveryError, match=r"breaker opened.* 3 failures for good"):
            _write(kafka.bootstrap_servers, _batch([("v" * 900, "secret", 0, None)] * 20), options)
