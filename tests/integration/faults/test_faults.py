"""Brokers stop, move leaders, hang and crash during writes: no loss, no duplicates, in order."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.producer_writes import numbered, session
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import by_confluent

PARTITIONS = 6
ROWS = 120
CHUNKS = 150


@pytest.fixture(scope="module")
def fragile_kafka() -> Iterator[KafkaCluster]:
    """Run one node that tests kill and restart."""
    with KafkaCluster() as kafka:
        yield kafka


def write_while(
    kafka: KafkaCluster, topic: str, disrupt: Callable[[], None], pause_s: float = 0.02
) -> DeliveryReport:
    """Write numbers to all partitions in small batches before, during and after `disrupt`.

    The writer has its own thread, as a node stops with the thread that started it.
    """
    running, done = threading.Event(), threading.Event()

    def write() -> DeliveryReport:
        with session(kafka.bootstrap_servers, linger_ms=5, request_timeout_ms=3000) as producer:
            chunk = 0
            while chunk < CHUNKS or not done.is_set():
                producer.append(numbered(topic, chunk * ROWS, ROWS, PARTITIONS))
                chunk += 1
                if chunk == CHUNKS // 3:
                    running.set()
                time.sleep(pause_s)
            producer.flush()
            return producer.report(TaskAttempt())

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        running.wait(60)
        try:
            disrupt()
        finally:
            done.set()
        return writing.result()


def check_no_loss_or_duplicates(kafka: KafkaCluster, topic: str, report: DeliveryReport) -> None:
    records = by_confluent(kafka.bootstrap_servers, topic)
    assert report.persisted == report.records == len(records) >= CHUNKS * ROWS
    for partition in range(PARTITIONS):
        values = [int(r.value or b"") for r in records if r.partition == partition]
        assert values == list(range(partition, report.records, PARTITIONS))


def test_moved_leaders_lose_and_repeat_nothing(
    real_kafka3: KafkaCluster, unique_topic: str
) -> None:
    admin = real_kafka3.admin
    admin.create_topic(unique_topic, PARTITIONS, replication=3)

    def move() -> None:
        for partition in range(3):
            to = admin.leader(unique_topic, partition) % 3 + 1
            admin.move_leader(unique_topic, partition, to)

    report = write_while(real_kafka3, unique_topic, move)
    check_no_loss_or_duplicates(real_kafka3, unique_topic, report)
    assert dict(report.errors).get("NOT_LEADER_OR_FOLLOWER", 0) > 0


def test_restarted_node_loses_and_repeats_nothing(
    real_kafka3: KafkaCluster, unique_topic: str
) -> None:
    real_kafka3.admin.create_topic(
        unique_topic, PARTITIONS, replication=3, configs={"min.insync.replicas": "2"}
    )

    def restart() -> None:
        real_kafka3.node(2).stop()
        real_kafka3.restart(2)

    report = write_while(real_kafka3, unique_topic, restart, pause_s=0.1)
    check_no_loss_or_duplicates(real_kafka3, unique_topic, report)
    assert report.retries > 0


def test_node_is_killed(real_kafka3: KafkaCluster, unique_topic: str) -> None:
    real_kafka3.admin.create_topic(
        unique_topic, PARTITIONS, replication=3, configs={"min.insync.replicas": "2"}
    )
    try:
        report = write_while(real_kafka3, unique_topic, real_kafka3.node(3).kill, pause_s=0.05)
    finally:
        real_kafka3.restart(3)
    check_no_loss_or_duplicates(real_kafka3, unique_topic, report)


def test_only_broker_is_killed_and_restarts(fragile_kafka: KafkaCluster, unique_topic: str) -> None:
    fragile_kafka.admin.create_topic(unique_topic, PARTITIONS)

    def restart() -> None:
        fragile_kafka.node(1).kill()
        fragile_kafka.restart(1)

    report = write_while(fragile_kafka, unique_topic, restart)
    check_no_loss_or_duplicates(fragile_kafka, unique_topic, report)
    assert report.retries > 0


def test_broker_hangs_longer_than_request_timeout(
    fragile_kafka: KafkaCluster, unique_topic: str
) -> None:
    fragile_kafka.admin.create_topic(unique_topic, PARTITIONS)

    def hang() -> None:
        fragile_kafka.node(1).pause()
        time.sleep(5)  # longer than request.timeout.ms
        fragile_kafka.node(1).resume()

    report = write_while(fragile_kafka, unique_topic, hang)
    check_no_loss_or_duplicates(fragile_kafka, unique_topic, report)
    assert report.retries > 0


class EndlessWriter:
    """Appends until an error occurs; the broker hangs during the write and is killed later."""

    def __init__(self, kafka: KafkaCluster, producer: ProducerSession, topic: str) -> None:
        self.appended = 0
        self._kafka = kafka
        self._producer = producer
        self._topic = topic

    def run(self) -> None:
        while True:
            self._producer.append(numbered(self._topic, self.appended, ROWS, PARTITIONS))
            self.appended += ROWS
            if self.appended == 50 * ROWS:
                self._kafka.node(1).pause()
            if self.appended == 60 * ROWS:
                self._kafka.node(1).kill()
            if self.appended == 100 * ROWS:
                self._producer.flush()
            time.sleep(0.01)


def write_until_it_fails(
    kafka: KafkaCluster, topic: str
) -> tuple[DeliveryError, DeliveryReport, int]:
    """Return the error, the report and the number of appended rows."""
    options = {"linger_ms": 1, "request_timeout_ms": 1500, "delivery_timeout_ms": 4000}
    with session(kafka.bootstrap_servers, **options) as producer:
        endless = EndlessWriter(kafka, producer, topic)
        with pytest.raises(DeliveryError) as caught:
            endless.run()
        return caught.value, producer.report(TaskAttempt()), endless.appended


def test_broker_never_restarts(fragile_kafka: KafkaCluster, unique_topic: str) -> None:
    fragile_kafka.admin.create_topic(unique_topic, PARTITIONS)
    started = time.monotonic()
    try:
        error, report, appended = write_until_it_fails(fragile_kafka, unique_topic)
        took = time.monotonic() - started
    finally:
        fragile_kafka.restart(1)
    assert took < 60
    text = str(error)
    assert "delivery.timeout.ms = 4000" in text
    assert fragile_kafka.bootstrap_servers in text
    counts = {
        status: sum(s.records for s in error.statuses if s.status is status)
        for status in DeliveryStatus
    }
    assert counts[DeliveryStatus.POSSIBLY_PERSISTED] > 0
    assert counts[DeliveryStatus.NOT_PERSISTED] > 0
    assert f"possibly persisted {counts[DeliveryStatus.POSSIBLY_PERSISTED]:,}" in text
    assert f"not persisted {counts[DeliveryStatus.NOT_PERSISTED]:,}" in text
    assert report.records == appended
    assert report.persisted + sum(counts.values()) == appended
    fragile_kafka.admin.await_served(unique_topic)
    check_possibly_persisted(fragile_kafka, unique_topic, report)


def check_possibly_persisted(kafka: KafkaCluster, topic: str, report: DeliveryReport) -> None:
    """Check that each partition has all persisted and at most the possibly persisted records."""
    records = by_confluent(kafka.bootstrap_servers, topic)
    assert report.partitions
    for part in report.partitions:
        values = [int(r.value or b"") for r in records if r.partition == part.partition]
        first = part.partition
        assert values == list(range(first, first + len(values) * PARTITIONS, PARTITIONS))
        assert part.persisted <= len(values) <= part.persisted + part.possibly_persisted
