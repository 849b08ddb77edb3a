"""A compacted topic on real brokers: made, appended to in transactions, read raw."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.admin.appender import TransactionalAppender
from spark_kafka_sink.admin.log_reader import LogRead, LogReader
from spark_kafka_sink.admin.topic_admin import TopicAdmin
from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.common.errors import (
    ConfigError,
    FencedError,
    RecordTooLargeError,
    UnknownTopicError,
)
from tools.support.admin import Admin

if TYPE_CHECKING:
    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.protocol.transactions import OpenTransaction
    from tests.integration.admin.conftest import AnyKafka

DECIDED, DONE = (b"orders", b"decided"), (b"orders", b"done")


@pytest.fixture
def log(client: BlockingClient, unique_topic: str) -> str:
    """A topic as the sink makes it."""
    configs = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"}
    assert TopicAdmin(client).create_compacted(unique_topic, None, configs, client.deadline(30))
    return unique_topic


def pairs(read: LogRead) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in read.records]


def fenced(client: BlockingClient, log: str) -> OpenTransaction:
    """A driver at a new epoch: the markers of what was appended before are in the log."""
    return TransactionAdmin(client).init_producer_id(f"{log}/driver", 60_000, client.deadline(60))


def test_what_is_appended_is_read_and_nothing_twice(client: BlockingClient, log: str) -> None:
    deadline = client.deadline(60)
    appender = TransactionalAppender(client, TransactionAdmin(client))
    reader = LogReader(client, log)
    empty = reader.read(None, deadline)
    appender.append(fenced(client, log), log, [DECIDED], deadline)
    owner = fenced(client, log)
    first = reader.read(empty.position, deadline)
    owner = appender.append(owner, log, [DONE], deadline)
    appender.append(owner, log, [(b"other", None)], deadline)
    fenced(client, log)
    second = reader.read(first.position, deadline)
    assert (pairs(empty), pairs(first)) == ([], [DECIDED])
    assert pairs(second) == [DONE, (b"other", None)]
    assert [empty.restarted, first.restarted, second.restarted] == [False] * 3
    assert pairs(reader.read(None, deadline)) == [DECIDED, DONE, (b"other", None)]
    assert pairs(reader.read(second.position, deadline)) == []


def test_a_newer_driver_fences_an_older_one(client: BlockingClient, log: str) -> None:
    admin, deadline = TransactionAdmin(client), client.deadline(60)
    appender = TransactionalAppender(client, admin)
    older = admin.init_producer_id(f"{log}/driver", 60_000, deadline)
    newer = admin.init_producer_id(f"{log}/driver", 60_000, deadline)
    with pytest.raises(FencedError):
        appender.append(older, log, [DECIDED], deadline)
    appender.append(newer, log, [DONE], deadline)
    fenced(client, log)
    assert pairs(LogReader(client, log).read(None, deadline)) == [DONE]


def test_an_append_larger_than_a_batch_is_all_there(client: BlockingClient, log: str) -> None:
    admin, deadline = TransactionAdmin(client), client.deadline(60)
    chunks = [(b"%d" % number, bytes(300_000)) for number in range(5)]
    owner = admin.init_producer_id(f"{log}/driver", 60_000, deadline)
    TransactionalAppender(client, admin).append(owner, log, chunks, deadline)
    fenced(client, log)
    assert pairs(LogReader(client, log).read(None, deadline)) == chunks


def test_a_record_that_is_too_large_leaves_nothing_open(client: BlockingClient, log: str) -> None:
    admin, deadline = TransactionAdmin(client), client.deadline(60)
    appender = TransactionalAppender(client, admin)
    owner = admin.init_producer_id(f"{log}/driver", 60_000, deadline)
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
        appender.append(owner, log, [(b"k", b"small" * 200_000), (b"k", bytes(1 << 21))], deadline)
    fenced(client, log)
    read = LogReader(client, log).read(None, deadline)
    assert (pairs(read), read.position.pending) == ([], ())


def test_a_topic_made_anew_is_read_from_its_beginning(
    client: BlockingClient, kafka: AnyKafka, log: str
) -> None:
    admin, deadline = TransactionAdmin(client), client.deadline(60)
    appender, reader = TransactionalAppender(client, admin), LogReader(client, log)
    owner = admin.init_producer_id(f"{log}/driver", 60_000, deadline)
    appender.append(owner, log, [DECIDED], deadline)
    owner = fenced(client, log)
    before = reader.read(None, deadline)
    delete(kafka, client, log)
    TopicAdmin(client).create_compacted(log, None, {}, deadline)
    appender.append(owner, log, [DONE], deadline)
    fenced(client, log)
    after = reader.read(before.position, deadline)
    assert (pairs(after), after.restarted) == ([DONE], True)


@pytest.mark.parametrize("kafka", ["4.3.1", "3.9.1", "2.8.2"], indirect=True)
def test_a_leader_that_does_not_know_what_was_read_is_read_from_the_beginning(
    client: BlockingClient, log: str
) -> None:
    deadline = client.deadline(60)
    appender, reader = (
        TransactionalAppender(client, TransactionAdmin(client)),
        LogReader(client, log),
    )
    appender.append(fenced(client, log), log, [DECIDED], deadline)
    fenced(client, log)
    before = reader.read(None, deadline).position
    after = reader.read(replace(before, leader_epoch=before.leader_epoch + 9), deadline)
    assert (pairs(after), after.restarted) == ([DECIDED], True)


def delete(kafka: AnyKafka, client: BlockingClient, topic: str) -> None:
    """Delete a topic, and wait until every broker has forgotten it."""
    Admin(kafka.bootstrap_servers).delete_topic(topic)
    client.refresh_metadata(client.deadline(30))
    while topic in client.cluster.topics:
        client.refresh_metadata(client.deadline(30))


def test_a_topic_that_is_there_is_not_made_again(client: BlockingClient, log: str) -> None:
    assert not TopicAdmin(client).create_compacted(log, None, {}, client.deadline(30))


def test_a_topic_that_forgets_by_age_is_refused(
    client: BlockingClient, kafka: AnyKafka, unique_topic: str
) -> None:
    Admin(kafka.bootstrap_servers).create_topic(unique_topic)
    with pytest.raises(ConfigError, match=r"has cleanup\.policy=delete, but compact is required"):
        TopicAdmin(client).create_compacted(unique_topic, None, {}, client.deadline(30))


def test_a_setting_that_brokers_refuse_is_told(client: BlockingClient, unique_topic: str) -> None:
    with pytest.raises(ConfigError, match="the topic cannot be created") as caught:
        TopicAdmin(client).create_compacted(unique_topic, 30, {}, client.deadline(30))
    assert caught.value.error == "INVALID_REPLICATION_FACTOR"


def test_what_brokers_allow_can_be_asked(client: BlockingClient) -> None:
    name = "transaction.max.timeout.ms"
    assert TopicAdmin(client).broker_config(name, client.deadline(30)) == "900000"
    assert TopicAdmin(client).broker_config("no.such.thing", client.deadline(30)) is None


def test_a_topic_that_is_not_there_is_told(client: BlockingClient, unique_topic: str) -> None:
    with pytest.raises(UnknownTopicError, match="the topic does not exist"):
        LogReader(client, unique_topic).read(None, client.deadline(30))
