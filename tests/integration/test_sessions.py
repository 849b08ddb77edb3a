"""Tasks reuse the producer id of a successful session, but nothing of a failed one."""

import os
import time

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import ColumnError, DeliveryError
from spark_kafka_sink.common.recreated_topics import WrittenTopic, check_recreated
from spark_kafka_sink.producer.session_pool import (
    borrow_session,
    discard_session,
    give_back_session,
)
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support import readers
from tests.support.producer_writes import config, numbered, rows, write_task
from tools.support.admin import Admin
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import by_confluent

TASKS = 5
NUMBERS = [b"%d" % number for number in range(40)]


def test_tasks_share_a_producer_id_with_different_epochs(
    real_kafka: KafkaCluster, unique_topic: str
) -> None:
    real_kafka.admin.create_topic(unique_topic, 2)
    for task in range(TASKS):
        chunk = numbered(unique_topic, task * 100, 100, 2)
        report = write_task(real_kafka.bootstrap_servers, chunk, client_id=unique_topic)
        assert report.persisted == 100
        assert [part.first_offset for part in report.partitions] == [task * 50] * 2
    for partition in range(2):
        batches = readers.dumped_batches(
            readers.dump(real_kafka.partition_dir(unique_topic, partition))
        )
        assert len({batch.producer_id for batch in batches}) == 1
        assert [batch.producer_epoch for batch in batches] == list(range(TASKS))
        assert [batch.base_sequence for batch in batches] == [0] * TASKS


def test_failed_session_is_not_reused(real_kafka: KafkaCluster, unique_topic: str) -> None:
    real_kafka.admin.create_topic(unique_topic, 1)
    servers = real_kafka.bootstrap_servers
    write_task(servers, numbered(unique_topic, 0, 10, 1), client_id=unique_topic)
    with pytest.raises(ColumnError):
        write_task(servers, rows(unique_topic, [b"a"], partitions=[9]), client_id=unique_topic)
    write_task(servers, numbered(unique_topic, 10, 10, 1), client_id=unique_topic)
    batches = readers.dumped_batches(readers.dump(real_kafka.partition_dir(unique_topic, 0)))
    assert len({batch.producer_id for batch in batches}) == len(batches) == 2
    assert [batch.base_sequence for batch in batches] == [0, 0]


def test_topic_recreated_during_a_task(real_kafka: KafkaCluster, unique_topic: str) -> None:
    """The records of the deleted topic are lost, and the error contains their number."""
    servers = real_kafka.bootstrap_servers
    real_kafka.admin.create_topic(unique_topic, 2)
    session = borrow_session(config(servers, {"client_id": unique_topic}))
    try:
        session.append(numbered(unique_topic, 0, 1_500, 2))
        session.flush()
        real_kafka.admin.delete_topics(unique_topic)
        real_kafka.admin.create_topic(unique_topic, 2)
        session.append(numbered(unique_topic, 1_500, 100, 2))
        with pytest.raises(DeliveryError, match="recreated during the write") as caught:
            session.flush()
        assert "had acknowledged 1,500 records of the write" in str(caught.value)
        assert caught.value.topic == unique_topic
    finally:
        discard_session(session)


def test_topic_recreated_between_tasks(real_kafka: KafkaCluster, unique_topic: str) -> None:
    servers, written = real_kafka.bootstrap_servers, list[WrittenTopic]()
    for rows_of_task in (300, 20):
        real_kafka.admin.create_topic(unique_topic, 2)
        session = borrow_session(config(servers, {"client_id": unique_topic}))
        session.append(numbered(unique_topic, 0, rows_of_task, 2))
        session.flush()
        written += session.written_topics
        give_back_session(session)
        real_kafka.admin.delete_topics(unique_topic)
    with pytest.raises(DeliveryError, match="300 records"):
        check_recreated(written)


def test_reused_client_handles_recreated_topic_with_fewer_partitions(
    real_kafka: KafkaCluster, unique_topic: str
) -> None:
    """Rows for removed partitions would otherwise wait until delivery.timeout.ms."""
    servers = real_kafka.bootstrap_servers
    real_kafka.admin.create_topic(unique_topic, 4)
    write_task(servers, rows(unique_topic, NUMBERS, keys=NUMBERS), client_id=unique_topic)
    real_kafka.admin.delete_topics(unique_topic)
    real_kafka.admin.create_topic(unique_topic, 1)
    time.sleep(1.0)  # newer metadata can be reused
    report = write_task(servers, rows(unique_topic, NUMBERS, keys=NUMBERS), client_id=unique_topic)
    assert report.persisted == len(NUMBERS)
    assert len(by_confluent(servers, unique_topic)) == len(NUMBERS)


def test_forked_child_does_not_use_connections_of_its_parent(
    embedded_broker: EmbeddedBroker, unique_topic: str
) -> None:
    servers = embedded_broker.bootstrap_servers
    Admin(servers).create_topic(unique_topic, partitions=1)
    session = borrow_session(config(servers, {"client_id": unique_topic}))
    try:
        session.append(rows(unique_topic, [b"before"]))
        session.flush()
        opened = len(session.client.network.brokers())
        child = os.fork()
        if child == 0:
            try:
                discard_session(session)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        session.append(rows(unique_topic, [b"after"]))
        session.flush()
        assert session.report(TaskAttempt()).retries == 0
        assert len(session.client.network.brokers()) == opened
    finally:
        discard_session(session)
    assert [record.value for record in by_confluent(servers, unique_topic)] == [b"before", b"after"]
