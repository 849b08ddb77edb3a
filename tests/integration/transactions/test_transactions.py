"""Transactions V2 on Kafka 4.3.1 and the embedded broker, V1 on 2.1.1, 2.8.2 and 3.9.1."""

import time
from collections.abc import Sequence

import pytest

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy, Tolerance
from spark_kafka_sink.kafka.protocol.transactions import TransactionVersion
from spark_kafka_sink.producer.session_pool import borrow_session, discard_session
from spark_kafka_sink.producer.session_pool import give_back_session as give_back
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.integration.support.transactions import end, settings, transaction
from tests.support.producer_writes import config, numbered, rows
from tests.support.readers import by_kafka_python
from tests.support.waiting import wait_until
from tools.support.admin import Admin
from tools.support.jars import OLD_KAFKA
from tools.support.kafka_cluster import AnyKafka, ZooKeeperCluster
from tools.support.readers import by_confluent

LARGE, OLD = b"x" * 30_000, 1_000_000_000_000
CONFIG = {"max.message.bytes": "20000"}


@pytest.fixture(params=["real_kafka", "embedded_broker", *OLD_KAFKA])
def kafka(request: pytest.FixtureRequest) -> AnyKafka:
    """Return each broker in turn."""
    if request.param in OLD_KAFKA:
        old: ZooKeeperCluster = request.getfixturevalue("old_kafkas")[request.param]
        return old
    broker: AnyKafka = request.getfixturevalue(request.param)
    return broker


def check_committed(kafka: AnyKafka, topic: str, expected: Sequence[bytes | None]) -> None:
    """Check that two read_committed readers read these values in this order."""
    # The response to EndTxn arrives before the markers are in every log.
    wait_until(lambda: len(by_confluent(kafka.bootstrap_servers, topic)) >= len(expected))
    records = by_confluent(kafka.bootstrap_servers, topic)  # read_committed by default
    others = by_kafka_python(kafka.bootstrap_servers, topic, isolation_level="read_committed")
    assert records == others
    assert [record.value for record in records] == expected


def values(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def test_committed_records_are_visible(kafka: AnyKafka, unique_topic: str) -> None:
    Admin(kafka.bootstrap_servers).create_topic(unique_topic, 3, 1)
    with transaction(kafka.bootstrap_servers, batch_size=2_000) as producer:
        for start in range(0, 3_000, 500):
            producer.append(numbered(unique_topic, start, 500, 3))
        producer.flush()
        opened, report = producer.flush_transaction(), producer.report(TaskAttempt())
    assert by_confluent(kafka.bootstrap_servers, unique_topic) == []
    assert sum(part.persisted for part in report.partitions) == 3_000
    assert all(part.last_offset == 999 for part in report.partitions)
    assert opened is not None
    old = isinstance(kafka, ZooKeeperCluster)
    assert opened.version is (TransactionVersion.V1 if old else TransactionVersion.V2)
    end(kafka.bootstrap_servers, opened)
    expected = [value for n in range(3) for value in values(range(n, 3_000, 3))]
    check_committed(kafka, unique_topic, expected)


def test_rows_without_key(kafka: AnyKafka, unique_topic: str) -> None:
    """Partitions are added to the transaction when they are chosen."""
    Admin(kafka.bootstrap_servers).create_topic(unique_topic, 5, 1)
    with transaction(kafka.bootstrap_servers, batch_size=1_000) as producer:
        producer.append(rows(unique_topic, values(range(2_000))))
        producer.flush()
        opened = producer.flush_transaction()
    end(kafka.bootstrap_servers, opened)
    servers = kafka.bootstrap_servers
    wait_until(lambda: len(by_confluent(servers, unique_topic)) >= 2_000)
    stored = [int(record.value or b"-1") for record in by_confluent(servers, unique_topic)]
    assert sorted(stored) == list(range(2_000))


def test_aborted_records_are_not_visible(kafka: AnyKafka, unique_topic: str) -> None:
    Admin(kafka.bootstrap_servers).create_topic(unique_topic, 2, 1)
    with transaction(kafka.bootstrap_servers) as producer:
        producer.append(numbered(unique_topic, 0, 1_000, 2))
        producer.flush()
        assert producer.abort_transaction(20.0)
    with transaction(kafka.bootstrap_servers) as producer:
        producer.append(rows(unique_topic, [b"kept"], partitions=[0]))
        producer.flush()
        opened = producer.flush_transaction()
    end(kafka.bootstrap_servers, opened)
    check_committed(kafka, unique_topic, [b"kept"])


@pytest.mark.parametrize("refusal", ["too large", "too old"])
def test_rejected_batches_in_flight(kafka: AnyKafka, unique_topic: str, refusal: str) -> None:
    """Some of five batches in flight are rejected; their records become dead letters."""
    dead = f"{unique_topic}-dead"
    bad = {7, 8, 31, 52, 59}
    settings = CONFIG if refusal == "too large" else oldest_allowed(kafka)
    Admin(kafka.bootstrap_servers).create_topic(unique_topic, 1, 1, settings)
    Admin(kafka.bootstrap_servers).create_topic(dead, 1, 1)
    tolerant = SessionSettings(
        dead_letters=DeadLetterPolicy(tolerance=Tolerance.ALL, dead_letter_topic=dead)
    )
    now = int(time.time() * 1000)
    good = [b"%d" % number + b"." * 900 for number in range(60)]
    sent = [LARGE if n in bad and refusal == "too large" else good[n] for n in range(60)]
    stamps = [OLD if n in bad and refusal == "too old" else now for n in range(60)]
    with transaction(kafka.bootstrap_servers, sink=tolerant, batch_size=2_000) as producer:
        producer.append(rows(unique_topic, [b"first"], partitions=[0], timestamps=[now]))
        producer.flush()
        producer.append(rows(unique_topic, sent, partitions=[0] * 60, timestamps=stamps))
        producer.flush()
        opened = producer.flush_transaction()
    assert by_confluent(kafka.bootstrap_servers, dead) == []
    end(kafka.bootstrap_servers, opened)
    expected = [b"first", *(good[number] for number in range(60) if number not in bad)]
    check_committed(kafka, unique_topic, expected)
    # Dead letters of oversized records have no value.
    kept = [None if sent[number] is LARGE else sent[number] for number in sorted(bad)]
    check_committed(kafka, dead, kept)


def oldest_allowed(kafka: AnyKafka) -> dict[str, str]:
    """Return topic settings that reject old timestamps."""
    day = str(24 * 3600 * 1000)
    if isinstance(kafka, ZooKeeperCluster):
        return {"message.timestamp.difference.max.ms": day}
    return {"message.timestamp.before.max.ms": day}


def test_timeout_above_the_broker_limit(kafka: AnyKafka, unique_topic: str) -> None:
    Admin(kafka.bootstrap_servers).create_topic(unique_topic, 1, 1)
    too_long = settings(16 * 60_000)
    with transaction(kafka.bootstrap_servers, too_long) as producer:
        producer.append(rows(unique_topic, [b"v"]))
        with pytest.raises(DeliveryError) as caught:
            producer.flush()
    assert caught.value.kafka_error == "INVALID_TRANSACTION_TIMEOUT"
    assert "transaction.max.timeout.ms" in str(caught.value)


def test_next_task_has_a_different_producer_id(kafka: AnyKafka, unique_topic: str) -> None:
    Admin(kafka.bootstrap_servers).create_topic(unique_topic, 2, 1)
    producer = config(kafka.bootstrap_servers, {"client_id": unique_topic})
    first = borrow_session(producer, transaction=settings())
    first.append(rows(unique_topic, [b"in"], partitions=[0]))
    first.flush()
    opened = first.flush_transaction()
    give_back(first)
    second = borrow_session(producer)
    second.append(rows(unique_topic, [b"out"], partitions=[1]))
    second.flush()
    assert second.flush_transaction() is None
    assert second.client is first.client
    third = borrow_session(producer, transaction=settings())
    third.flush()
    assert third.flush_transaction() is None
    discard_session(third)
    discard_session(second)
    check_committed(kafka, unique_topic, [b"out"])
    end(kafka.bootstrap_servers, opened)
    check_committed(kafka, unique_topic, [b"in", b"out"])
