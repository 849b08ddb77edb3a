"""Rejected records, batches, topics and partitions, with error tolerance."""

import re
from typing import Any

import pytest

from spark_kafka_sink.common.errors import RecordTooLargeError
from tests.integration.support.tolerant_writes import TOLERATE, batch, context, write, write_keyed
from tools.support.admin import Admin
from tools.support.readers import by_confluent


def test_rejected_records_become_dead_letters(any_kafka: Any, unique_topic: str) -> None:
    """A compacted topic rejects records without a key and lists them (KIP-467)."""
    servers, letters = any_kafka.bootstrap_servers, f"{unique_topic}-dead"
    admin = Admin(servers)
    admin.create_topic(unique_topic, partitions=1, configs={"cleanup.policy": "compact"})
    admin.create_topic(letters, partitions=1)
    keys = [None if row % 10 == 3 else b"%d" % row for row in range(100)]
    options = {**TOLERATE, "errors.deadletterqueue.topic.name": letters}
    report = write_keyed(servers, unique_topic, keys, options)

    records = by_confluent(servers, unique_topic)
    assert [record.key for record in records] == [key for key in keys * 3 if key is not None]
    dead = by_confluent(servers, letters)
    assert [record.value for record in dead] == [b"v%d" % row for row in range(3, 100, 10)] * 3
    assert {context(record, "partition") for record in dead} == {b"0"}
    assert b"broker rejected" in (context(dead[0], "exception.message") or b"")
    assert report.persisted == 300
    assert [(count.reason, count.dead_lettered) for count in report.poison] == [("REJECTED", 30)]


def test_record_too_large_for_the_topic_is_a_dead_letter(any_kafka: Any, unique_topic: str) -> None:
    servers, letters = any_kafka.bootstrap_servers, f"{unique_topic}-dead"
    admin = Admin(servers)
    admin.create_topic(unique_topic, partitions=1, configs={"max.message.bytes": "2000"})
    admin.create_topic(letters, partitions=1)
    large = [("v" * (5_000 if row == 7 else 100), unique_topic, 0, None) for row in range(40)]
    options = {**TOLERATE, "errors.deadletterqueue.topic.name": letters}
    report = write(servers, batch(large), options)

    assert [len(record.value or b"") for record in by_confluent(servers, unique_topic)] == [
        100
    ] * 39
    (dead,) = by_confluent(servers, letters)
    assert dead.value is None
    assert (context(dead, "exception.class.name") or b"").endswith(b"RecordTooLargeError")
    assert report.persisted == 40
    assert report.splits > 0
    (count,) = report.poison
    assert (count.reason, count.dead_lettered) == ("OVERSIZED", 1)
    named = r"row 7 is 5,0\d\d bytes when serialized, more than the broker accepts"
    assert re.fullmatch(f"{unique_topic}-0: {named}", count.examples[0])
    with pytest.raises(RecordTooLargeError, match=named):
        write(servers, batch(large), {})


def test_batches_larger_than_a_segment_are_split(any_kafka: Any, unique_topic: str) -> None:
    """If errors are tolerated, only the row that exceeds a segment is rejected."""
    servers, letters = any_kafka.bootstrap_servers, f"{unique_topic}-dead"
    limits = {"segment.bytes": str(1 << 20), "max.message.bytes": str(8 << 20)}
    admin = Admin(servers)
    admin.create_topic(unique_topic, partitions=1, configs=limits)
    admin.create_topic(letters, partitions=1)
    tolerance = {**TOLERATE, "errors.deadletterqueue.topic.name": letters}
    options = {
        "kafka.batch.size": str(4 << 20),
        "kafka.max.request.size": str(8 << 20),
        "kafka.linger.ms": "1000",
    }
    good = [("v" * 100_000, unique_topic, 0, None)] * 20
    assert write(servers, batch(good), options).splits > 0
    bad = [("v" * 1_200_000, unique_topic, 0, None)]
    report = write(servers, batch(good[:5] + bad + good[6:]), options | tolerance)
    records = by_confluent(servers, unique_topic)
    assert [len(record.value or b"") for record in records] == [100_000] * 39
    (dead,) = by_confluent(servers, letters)
    assert context(dead, "topic") == unique_topic.encode()
    assert report.persisted == 20
    assert report.splits > 0
