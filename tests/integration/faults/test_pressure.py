"""Backpressure on real sockets: hanging brokers and rate limits of a session."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import BufferTimeoutError
from spark_kafka_sink.config.throttling import RateLimits, ThrottlingConfig
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.producer.session_pool import discard_session
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.producer_writes import config, rows, session
from tests.support.waiting import wait_until
from tools.support.admin import Admin
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import by_confluent

PARTITIONS = 6
BUFFER = 4 << 20
VALUE = b"." * 990
ROWS = 1_000
STALLED = 2


def unkeyed(topic: str) -> Rows:
    return rows(topic, [VALUE] * ROWS)


def spread(topic: str) -> Rows:
    """Return the same number of rows for each partition."""
    return rows(topic, [VALUE] * ROWS, partitions=[number % PARTITIONS for number in range(ROWS)])


@contextmanager
def hanging_broker(kafka: KafkaCluster, node: int) -> Iterator[None]:
    """Suspend a broker: its connections stay open, but it does not respond."""
    kafka.node(node).pause()
    try:
        yield
    finally:
        kafka.node(node).resume()


def persisted(producer: ProducerSession, led_by: set[int]) -> int:
    """Return the number of acknowledged records in the partitions of these leaders."""
    parts = producer.report(TaskAttempt()).partitions
    return sum(part.persisted for part in parts if part.partition in led_by)


def wait_for_more(producer: ProducerSession, led_by: set[int], than: int) -> None:
    """Block until more than `than` records are acknowledged in these partitions."""
    wait_until(lambda: persisted(producer, led_by) > than)


def test_rows_without_key_avoid_a_hanging_broker(
    real_kafka3: KafkaCluster, unique_topic: str
) -> None:
    real_kafka3.admin.create_topic(unique_topic, PARTITIONS)
    leaders = real_kafka3.admin.leaders(unique_topic)
    stalled = {partition for partition, leader in leaders.items() if leader == STALLED}
    assert 0 < len(stalled) < PARTITIONS
    options = {"buffer_memory": BUFFER, "batch_size": 65_536, "linger_ms": 5}
    with session(real_kafka3.bootstrap_servers, **options) as producer:
        for _ in range(20):
            producer.append(unkeyed(unique_topic))
        producer.flush()
        others = set(leaders) - stalled
        before = persisted(producer, others)
        with hanging_broker(real_kafka3, STALLED):
            for _ in range(40):
                producer.append(unkeyed(unique_topic))
            # The others received ten times the buffer while one broker accepted nothing.
            assert persisted(producer, others) - before > 40 * ROWS - BUFFER // len(VALUE)
        producer.flush()
        report = producer.report(TaskAttempt())
    assert report.persisted == report.records == 60 * ROWS
    assert len(by_confluent(real_kafka3.bootstrap_servers, unique_topic)) == 60 * ROWS


def test_rows_of_other_partitions_are_delivered(
    real_kafka3: KafkaCluster, unique_topic: str
) -> None:
    real_kafka3.admin.create_topic(unique_topic, PARTITIONS)
    leaders = real_kafka3.admin.leaders(unique_topic)
    stalled = {partition for partition, leader in leaders.items() if leader == STALLED}
    options = {"buffer_memory": BUFFER, "batch_size": 65_536, "max_block_ms": 3_000}
    with session(real_kafka3.bootstrap_servers, **options) as producer:
        producer.append(spread(unique_topic))
        producer.flush()
        others = set(leaders) - stalled
        other_rows = sum(number % PARTITIONS in others for number in range(ROWS))
        with hanging_broker(real_kafka3, STALLED):
            error, appended = append_until_it_fails(producer, unique_topic)
            # Also rows for other partitions of the chunk that was only partially accepted.
            wait_for_more(producer, others, appended * other_rows - 1)
        assert persisted(producer, others) <= (1 + appended) * other_rows
        assert error.partition in stalled
        assert error.broker == real_kafka3.bootstrap_servers.split(",")[STALLED - 1]
        producer.flush()


def append_until_it_fails(producer: ProducerSession, topic: str) -> tuple[BufferTimeoutError, int]:
    """Return the error and the number of appended chunks, including the one that failed."""
    for appended in range(1, 100):
        try:
            producer.append(spread(topic))
        except BufferTimeoutError as error:
            return error, appended
    raise AssertionError("the buffer took everything")


@contextmanager
def limited(broker: EmbeddedBroker, rates: RateLimits) -> Iterator[ProducerSession]:
    client = ProducerClient(config(broker.bootstrap_servers, {}))
    settings = SessionSettings(throttling=ThrottlingConfig(rates=rates))
    producer = ProducerSession(client, settings=settings)
    try:
        yield producer
    finally:
        discard_session(producer)


@pytest.mark.parametrize(
    "rates",
    [
        RateLimits(records_per_second=2_000.0),
        RateLimits(bytes_per_second=2_000.0 * (len(VALUE) + 10)),
    ],
)
def test_rate_limit_is_kept(
    embedded_broker: EmbeddedBroker, unique_topic: str, rates: RateLimits
) -> None:
    Admin(embedded_broker.bootstrap_servers).create_topic(unique_topic, 2)
    with limited(embedded_broker, rates) as producer:
        started = time.monotonic()
        for _ in range(4):
            producer.append(unkeyed(unique_topic))
        producer.flush()
        took = time.monotonic() - started
    # 4,000 rows at 2,000 a second; the limit allows a burst of a quarter of a second.
    assert took >= 1.7
