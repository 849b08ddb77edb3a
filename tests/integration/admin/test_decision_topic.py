"""The compacted decision topic on real brokers: creation, transactional appends and reads."""

from dataclasses import replace

import pytest

from spark_kafka_sink.common.errors import (
    ConfigError,
    FencedError,
    RecordTooLargeError,
    UnknownTopicError,
)
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
from spark_kafka_sink.kafka.logs.appender import TransactionalAppender
from spark_kafka_sink.kafka.logs.log_reader import LogRead, LogReader
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
from tools.support.admin import Admin
from tools.support.kafka_cluster import AnyKafka

DECIDED, DONE = (b"orders", b"decided"), (b"orders", b"done")


@pytest.fixture
def log(client: BlockingClient, unique_topic: str) -> str:
    """Create a topic like the sink."""
    configs = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
    assert TopicAdmin(client).create_compacted(unique_topic, None, configs, client.deadline(30))
    return unique_topic


def pairs(read: LogRead) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in read.records]


def fence(client: BlockingClient, log: str) -> TransactionalProducer:
    """Initialize a driver with a new epoch, so that earlier appends have markers in the log."""
    return TransactionAdmin(client).init_producer_id(f"{log}/driver", 60_000, client.deadline(60))


def test_read_appended_records(client: BlockingClient, log: str) -> None:
    deadline = client.deadline(60)
    appender = TransactionalAppender(client, TransactionAdmin(client))
    reader = LogReader(client, log)
    empty = reader.read(None, deadline)
    appender.append(fence(client, log), log, [DECIDED], deadline)
    owner = fence(client, log)
    first = reader.read(empty.position, deadline)
    owner = appender.append(owner, log, [DONE], deadline)
    appender.append(owner, log, [(b"other", None)], deadline)
    fence(client, log)
    second = reader.read(first.position, deadline)
    assert (pairs(empty), pairs(first)) == ([], [DECIDED])
    assert pairs(second) == [DONE, (b"other", None)]
    assert [empty.restarted, first.restarted, second.restarted] == [False] * 3
    assert pairs(reader.read(None, deadline)) == [DECIDED, DONE, (b"other", None)]
    assert pairs(reader.read(second.position, deadline)) == []


def test_newer_driver_fences_an_older_one(client: BlockingClient, log: str) -> None:
    admin, deadline = TransactionAdmin(client), client.deadline(60)
    appender = TransactionalAppender(client, admin)
    older = admin.init_producer_id(f"{log}/driver", 60_000, deadline)
    newer = admin.init_producer_id(f"{log}/driver", 60_000, deadline)
    with pytest.raises(FencedError):
        appender.append(older, log, [DECIDED], deadline)
    appender.append(newer, log, [DONE], deadline)
    fence(client, log)
    assert pairs(LogReader(client, log).read(None, deadline)) == [DONE]


def test_append_larger_than_a_batch(client: BlockingClient, log: str) -> None:
    admin, deadline = TransactionAdmin(client), client.deadline(60)
    chunks = [(b"%d" % number, bytes(300_000)) for number in range(5)]
    owner = admin.init_producer_id(f"{log}/driver", 60_000, deadline)
    TransactionalAppender(client, admin).append(owner, log, chunks, deadline)
    fence(client, log)
    assert pairs(LogReader(client, log).read(None, deadline)) == chunks


def test_oversized_record_leaves_no_open_transaction(client: BlockingClient, log: str) -> None:
    admin, deadline = TransactionAdmin(client), client.deadline(60)
    appender = TransactionalAppender(client, admin)
    owner = admin.init_producer_id(f"{log}/driver", 60_000, deadline)
    with pytest.raises(RecordTooLargeError):
        appender.append(owner, log, [(b"k", b"small" * 200_000), (b"k", bytes(1 << 21))], deadline)
    fence(client, log)
    read = LogReader(client, log).read(None, deadline)
    assert (pairs(read), read.position.pending) == ([], ())


def test_recreated_topic_is_read_from_the_beginning(
    client: BlockingClient, kafka: AnyKafka, log: str
) -> None:
    admin, deadline = TransactionAdmin(client), client.deadline(60)
    appender, reader = TransactionalAppender(client, admin), LogReader(client, log)
    owner = admin.init_producer_id(f"{log}/driver", 60_000, deadline)
    appender.append(owner, log, [DECIDED], deadline)
    owner = fence(client, log)
    before = reader.read(None, deadline)
    delete(kafka, client, log)
    TopicAdmin(client).create_compacted(log, None, {}, deadline)
    appender.append(owner, log, [DONE], deadline)
    fence(client, log)
    after = reader.read(before.position, deadline)
    assert (pairs(after), after.restarted) == ([DONE], True)


@pytest.mark.parametrize("kafka", ["4.3.1", "3.9.1", "2.8.2"], indirect=True)
def test_leader_without_read_records_is_read_from_the_beginning(
    client: BlockingClient, log: str
) -> None:
    deadline = client.deadline(60)
    appender, reader = (
        TransactionalAppender(client, TransactionAdmin(client)),
        LogReader(client, log),
    )
    appender.append(fence(client, log), log, [DECIDED], deadline)
    fence(client, log)
    before = reader.read(None, deadline).position
    after = reader.read(replace(before, leader_epoch=before.leader_epoch + 9), deadline)
    assert (pairs(after), after.restarted) == ([DECIDED], True)


def delete(kafka: AnyKafka, client: BlockingClient, topic: str) -> None:
    """Delete a topic and wait until no broker has it."""
    Admin(kafka.bootstrap_servers).delete_topics(topic)
    client.refresh_metadata(client.deadline(30))
    while topic in client.cluster.topics:
        client.refresh_metadata(client.deadline(30))


def test_existing_topic_is_not_created(client: BlockingClient, log: str) -> None:
    assert not TopicAdmin(client).create_compacted(log, None, {}, client.deadline(30))


def test_topic_without_compaction_is_rejected(
    client: BlockingClient, kafka: AnyKafka, unique_topic: str
) -> None:
    Admin(kafka.bootstrap_servers).create_topic(unique_topic)
    with pytest.raises(ConfigError, match=r"cleanup\.policy=delete"):
        TopicAdmin(client).create_compacted(unique_topic, None, {}, client.deadline(30))


def test_rejected_topic_setting(client: BlockingClient, unique_topic: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TopicAdmin(client).create_compacted(unique_topic, 30, {}, client.deadline(30))
    assert caught.value.kafka_error == "INVALID_REPLICATION_FACTOR"


def test_read_broker_limits(client: BlockingClient) -> None:
    name = "transaction.max.timeout.ms"
    assert TopicAdmin(client).broker_config(name, client.deadline(30)) == "900000"
    assert TopicAdmin(client).broker_config("no.such.thing", client.deadline(30)) is None


def test_missing_topic_is_an_error(client: BlockingClient, unique_topic: str) -> None:
    with pytest.raises(UnknownTopicError):
        LogReader(client, unique_topic).read(None, client.deadline(30))
