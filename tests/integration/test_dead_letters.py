"""Bad rows of every kind become dead letters; the valid rows of their batch are written."""

import time
from typing import Any

import pytest

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.producer.session_pool import borrow_session, discard_session
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.integration.support.tolerant_writes import TOLERATE, batch, context, write, write_keyed
from tests.support.producer_writes import rows
from tools.support.admin import Admin
from tools.support.readers import by_confluent

TOO_LARGE = "x" * 1_100_000


def bad_rows(topic: str) -> list[tuple[Any, ...]]:
    return [
        ("good", topic, None, [{"key": "h", "value": b"1"}]),
        ("no topic", None, None, None),
        ("no such partition", topic, 99, []),
        (TOO_LARGE, topic, None, [{"key": "q", "value": None}]),
        ("no header key", topic, 1, [{"key": None, "value": b"z"}]),
        ("good too", topic, 1, None),
    ]


@pytest.fixture
def topics(any_kafka: Any, unique_topic: str) -> tuple[str, str, str]:
    """Return the bootstrap servers, a topic with two partitions and a dead letter topic."""
    admin = Admin(any_kafka.bootstrap_servers)
    letters = f"{unique_topic}-dead"
    admin.create_topic(unique_topic, partitions=2)
    admin.create_topic(letters, partitions=1)
    return any_kafka.bootstrap_servers, unique_topic, letters


def test_bad_rows_become_dead_letters(topics: tuple[str, str, str]) -> None:
    servers, topic, letters = topics
    options = {**TOLERATE, "errors.deadletterqueue.topic.name": letters}
    report = write(servers, batch(bad_rows(topic)), options)

    good = by_confluent(servers, topic)
    assert sorted(record.value or b"" for record in good) == [b"good", b"good too"]
    dead = {
        context(record, "exception.message"): record for record in by_confluent(servers, letters)
    }
    assert [record.value for record in dead.values()] == [
        b"no topic",
        b"no such partition",
        None,
        b"no header key",
    ]
    assert [context(record, "topic") for record in dead.values()] == [None, *[topic.encode()] * 3]
    assert [context(record, "partition") for record in dead.values()] == [None, b"99", None, b"1"]
    assert {context(record, "task.id") for record in dead.values()} == {b"7"}
    classes = [context(record, "exception.class.name") for record in dead.values()]
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


def test_rows_of_missing_topics_become_dead_letters(topics: tuple[str, str, str]) -> None:
    servers, topic, letters = topics
    options = {
        **TOLERATE,
        "errors.deadletterqueue.topic.name": letters,
        "kafka.allow.auto.create.topics": "false",
        "kafka.max.block.ms": "1500",
    }
    names = [topic, f"{topic}-gone", "not/a/name", topic]
    report = write(servers, batch([(name, name, None, None) for name in names]), options)
    assert [record.value for record in by_confluent(servers, topic)] == [topic.encode()] * 2
    dead = by_confluent(servers, letters)
    assert {record.value for record in dead} == {f"{topic}-gone".encode(), b"not/a/name"}
    assert all(dict(letter.headers)["__connect.errors.topic"] == letter.value for letter in dead)
    assert {count.reason: count.dead_lettered for count in report.poison} == {
        "UNKNOWN_TOPIC": 1,
        "INVALID_TOPIC": 1,
    }


@pytest.mark.parametrize("sent", [False, True])
def test_oversized_keys_and_headers_are_omitted(
    topics: tuple[str, str, str], *, sent: bool
) -> None:
    """They exceed max.request.size, or only the max.message.bytes of each topic."""
    servers, topic, letters = topics
    options = {**TOLERATE, "errors.deadletterqueue.topic.name": letters}
    if sent:
        options["kafka.max.request.size"] = str(16 << 20)
    keys: list[bytes | None] = [b"k", b"K" * 2_000_000, b"k2"]
    assert write_keyed(servers, topic, keys, options).persisted == 9
    large = [{"key": "h", "value": b"H" * 2_000_000}]
    assert write(servers, batch([("value", topic, 0, large)]), options).persisted == 1
    assert sorted(record.key or b"" for record in by_confluent(servers, topic)) == sorted(
        [b"k", b"k2"] * 3
    )
    *of_keys, of_headers = by_confluent(servers, letters)
    assert [(record.key, record.value) for record in of_keys] == [(None, None)] * 3
    for dead, words in [(of_keys[0], b"value and key"), (of_headers, b"value and headers")]:
        assert words in (context(dead, "exception.message") or b"")
        assert (context(dead, "exception.class.name") or b"").endswith(b"RecordTooLargeError")
    assert "h" not in dict(of_headers.headers)


def test_dead_letter_of_a_row_with_invalid_timestamp(topics: tuple[str, str, str]) -> None:
    """Brokers reject timestamps more than an hour ahead, also in dead letters."""
    servers, topic, letters = topics
    now = round(time.time() * 1000)
    future = now + 1_000 * 3_600_000
    times = {b"good": now, b"future": future, b"lost": now - 5_000, b"lost in future": future}
    config = SinkConfig.parse(
        {
            "kafka.bootstrap.servers": servers,
            **TOLERATE,
            "errors.deadletterqueue.topic.name": letters,
        }
    )
    session = borrow_session(config.producer, SessionSettings(dead_letters=config.dead_letters))
    try:
        partitions = [0, 0, 9, 9]
        stamps = list(times.values())
        session.append(rows(topic, list(times), timestamps=stamps, partitions=partitions))
        session.flush()
        report = session.report(TaskAttempt())
    finally:
        discard_session(session)
    assert [record.value for record in by_confluent(servers, topic)] == [b"good"]
    by_value = {record.value: record for record in by_confluent(servers, letters)}
    assert by_value.keys() == times.keys() - {b"good"}
    assert by_value[b"lost"].timestamp == times[b"lost"]
    for value, words in [(b"future", b"imestamp"), (b"lost in future", b"no such partition")]:
        assert abs(by_value[value].timestamp - now) < 60_000
        assert words in (context(by_value[value], "exception.message") or b"")
    assert report.persisted == report.records == 4
