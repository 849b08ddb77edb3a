"""Acknowledgements, thousands of partitions, missing topics and times."""

from collections import Counter

import pytest

from spark_kafka_sink.common.errors import KafkaProdError, UnknownTopicError
from spark_kafka_sink.report.delivery_report import DeliveryReport
from tests.support.producer_writes import numbered, produce, rows, session
from tools.support.admin import Admin
from tools.support.kafka_cluster import AnyKafka
from tools.support.readers import by_confluent, count, ranges


@pytest.mark.parametrize("acks", ["all", "-1", "1"])
def test_acknowledged_records_are_persisted(
    acks: str, any_kafka: AnyKafka, unique_topic: str
) -> None:
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, 3)
    report = produce(any_kafka.bootstrap_servers, numbered(unique_topic, 0, 3000, 3), acks=acks)
    assert report.persisted == 3000
    assert sum(part.sent for part in report.partitions) == 0
    records = by_confluent(any_kafka.bootstrap_servers, unique_topic)
    assert [int(record.value or b"") for record in records] == [
        number for start in range(3) for number in range(start, 3000, 3)
    ]


def test_records_without_acks_are_not_persisted(any_kafka: AnyKafka, unique_topic: str) -> None:
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, 3)
    report = produce(any_kafka.bootstrap_servers, numbered(unique_topic, 0, 3000, 3), acks=0)
    assert report.persisted == 0
    assert sum(part.sent for part in report.partitions) == 3000
    assert all(part.first_offset is None for part in report.partitions)
    # The records are written, but later than the report.
    with session(any_kafka.bootstrap_servers) as later:
        later.append(numbered(unique_topic, 3000, 3, 3))
        later.flush()
    assert count(any_kafka.bootstrap_servers, unique_topic) == 3003


def test_a_thousand_partitions(any_kafka: AnyKafka, unique_topic: str) -> None:
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, 1000)
    chunks = [numbered(unique_topic, first, 10_000, 1000) for first in range(0, 30_000, 10_000)]
    report = produce(any_kafka.bootstrap_servers, *chunks)
    assert {part.partition for part in report.partitions} == set(range(1000))
    assert {part.persisted for part in report.partitions} == {30}
    ends = ranges(any_kafka.bootstrap_servers, unique_topic)
    assert Counter(ends.values()) == {(0, 30): 1000}


def test_missing_topic_is_not_created(any_kafka: AnyKafka, unique_topic: str) -> None:
    options = {"allow_auto_create_topics": "false", "max_block_ms": 1500}
    with pytest.raises(UnknownTopicError) as caught:
        produce(any_kafka.bootstrap_servers, rows(unique_topic, [b"a"]), **options)
    assert caught.value.topic == unique_topic
    assert caught.value.kafka_error == "UNKNOWN_TOPIC_OR_PARTITION"
    assert unique_topic not in Admin(any_kafka.bootstrap_servers).client().list_topics().topics


def test_missing_topic_is_created(any_kafka: AnyKafka, unique_topic: str) -> None:
    report = produce(any_kafka.bootstrap_servers, rows(unique_topic, [b"a", b"b"]))
    assert report.persisted == 2
    records = by_confluent(any_kafka.bootstrap_servers, unique_topic)
    assert [record.value for record in records] == [b"a", b"b"]


@pytest.mark.parametrize("topic", ["no spaces", "a/b", "x" * 250, ""])
def test_invalid_topic_name_fails_immediately(topic: str, any_kafka: AnyKafka) -> None:
    with pytest.raises(KafkaProdError) as caught:
        produce(any_kafka.bootstrap_servers, rows(topic, [b"a"]), max_block_ms=20_000)
    assert caught.value.kafka_error in ("INVALID_TOPIC_EXCEPTION", "INVALID_TOPIC")
    assert caught.value.topic == topic


def test_times_of_the_writing_thread(any_kafka: AnyKafka, unique_topic: str) -> None:
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic)
    many = rows(unique_topic, [b"x" * 1000] * 5000)
    report = produce(any_kafka.bootstrap_servers, many, buffer_memory=300_000, batch_size=50_000)
    metrics = report.metrics
    assert metrics.buffer_waits > 0
    assert 0 < metrics.buffer_wait < metrics.append_time
    assert metrics.flush_time > 0
    assert metrics.append_time + metrics.flush_time <= (report.duration_sum_ms + 1) * 1000
    assert DeliveryReport.from_json(report.to_json()).metrics == metrics
