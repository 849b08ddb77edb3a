"""Secured clusters under load: no loss and no duplicates."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.broker.security.clients import Login, confluent_options
from tests.support.producer_writes import numbered, session

PARTITIONS, ROWS = 4, 40
SESSION_MS = 1200
SECONDS = 60


def cluster(**options: Any) -> EmbeddedBroker:
    users = {"alice": "secret"}
    settings: dict[str, Any] = {"topics": {"t": PARTITIONS}, "tls": True, "sasl": users} | options
    return EmbeddedBroker(**settings)


def values(kafka: EmbeddedBroker, partition: int) -> list[int]:
    batches = kafka.batches("t", partition)
    return [int(record.value or b"") for data in batches for record in decode_batch(data)]


def write(
    kafka: EmbeddedBroker, chunks: int, between: Callable[[int], None], **options: Any
) -> DeliveryReport:
    """Write with the producer; call `between` before each chunk."""
    login = kafka.client_options("alice", prefix="")
    servers = login.pop("bootstrap.servers")
    with session(servers, **{"linger_ms": 1, "batch_size": 1000, **login, **options}) as producer:
        for chunk in range(chunks):
            between(chunk)
            producer.append(numbered("t", chunk * ROWS, ROWS, PARTITIONS))
        producer.flush()
        return producer.report(TaskAttempt())


def check(kafka: EmbeddedBroker, report: DeliveryReport, chunks: int) -> None:
    assert report.persisted == chunks * ROWS
    for partition in range(PARTITIONS):
        assert values(kafka, partition) == list(range(partition, chunks * ROWS, PARTITIONS))


def test_reauthentication_of_the_producer() -> None:
    with cluster(connections_max_reauth_ms=SESSION_MS, nodes=3) as kafka:
        report = write(kafka, 60, lambda _: time.sleep(3 * SESSION_MS / 1000 / 60))
        check(kafka, report, 60)


def test_certificate_and_password_change_during_a_write() -> None:
    """Open connections continue; new connections use the new certificate."""
    with cluster(nodes=3, replication_factor=3) as kafka:

        def between(chunk: int) -> None:
            if chunk == 10:
                kafka.change_certificate()
            if chunk == 20:
                kafka.faults.add("produce:close:next=2")

        check(kafka, write(kafka, 40, between), 40)


def test_removed_user_fails_the_write() -> None:
    with cluster(connections_max_reauth_ms=SESSION_MS) as kafka:

        def between(chunk: int) -> None:
            if chunk == 5:
                kafka.set_password("alice", "another")
            time.sleep(0.05)

        started = time.monotonic()
        with pytest.raises(AuthenticationError):
            write(kafka, 200, between)
        assert time.monotonic() - started < SECONDS


def test_reauthentication_of_librdkafka() -> None:
    with cluster(connections_max_reauth_ms=SESSION_MS) as kafka:
        login = Login(
            mechanism="SCRAM-SHA-256", user="alice", password="secret", ca_file=kafka.ca_file
        )
        options = {"bootstrap.servers": kafka.bootstrap_servers, **confluent_options(login)}
        errors: list[KafkaError] = []
        sender = Producer(options | {"enable.idempotence": True, "error_cb": errors.append})
        deadline = time.monotonic() + 3 * SESSION_MS / 1000
        sent = 0
        while time.monotonic() < deadline:
            sender.produce("t", b"%d" % sent, partition=0)
            sender.flush(SECONDS)
            sent += 1
        assert values(kafka, 0) == list(range(sent))
        reader = Consumer(options | {"group.id": "g", "auto.offset.reset": "earliest"})
        reader.subscribe(["t"])
        consumed: list[int] = []
        while len(consumed) < sent:
            read = [message for message in reader.consume(sent, 1.0) if not message.error()]
            consumed += [int(message.value() or b"") for message in read]
        reader.close()
        assert consumed == list(range(sent))


def test_reauthentication_with_storage_in_redis_loses_nothing(redis_url: str) -> None:
    """Requests do not run in the event loop there, but logins do."""
    with cluster(storage=redis_url, connections_max_reauth_ms=SESSION_MS) as kafka:
        report = write(kafka, 30, lambda _: time.sleep(2 * SESSION_MS / 1000 / 30))
        assert report.persisted == 30 * ROWS


def test_restarted_nodes_lose_and_repeat_nothing() -> None:
    with cluster(nodes=3, replication_factor=3) as kafka:

        def between(chunk: int) -> None:
            if chunk == 5:
                kafka.stop_node(2)
            if chunk == 15:
                kafka.start_node(2)
            if chunk == 20:
                kafka.pause_node(3)
            if chunk == 25:
                kafka.start_node(3)

        check(kafka, write(kafka, 40, between, retry_backoff_ms=10), 40)
