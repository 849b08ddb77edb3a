"""Administration of open transactions on real brokers."""

import time

import pytest

from spark_kafka_sink.common.errors import FencedError, ProtocolError
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
from spark_kafka_sink.kafka.logs.log_reader import LogReader
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import (
    TransactionalProducer,
    TransactionState,
    TransactionVersion,
)
from tests.integration.admin.conftest import connected
from tests.support.waiting import wait_until_equal
from tools.support.java import run_tool
from tools.support.kafka_cluster import AnyKafka, KafkaCluster
from tools.support.readers import by_confluent
from tools.support.transactions import TIMEOUT_MS, open_transaction, open_transactions

V1, V2 = TransactionVersion.V1, TransactionVersion.V2
MANY = 1_000


def end(client: BlockingClient, transaction: TransactionalProducer, *, commit: bool = True) -> int:
    deadline = client.deadline(60)
    ended = TransactionAdmin(client).end([transaction], commit=commit, deadline=deadline)
    return ended[transaction.transactional_id]


def visible(kafka: AnyKafka, topic: str) -> list[str]:
    """Return the values that a read_committed reader reads."""
    return [
        (record.value or b"").decode() for record in by_confluent(kafka.bootstrap_servers, topic)
    ]


def begin_again(
    client: BlockingClient, transaction: TransactionalProducer
) -> TransactionalProducer:
    name = transaction.transactional_id
    return TransactionAdmin(client).init_producer_id(name, TIMEOUT_MS, client.deadline(60))


def test_commit_can_be_repeated(kafka: AnyKafka, client: BlockingClient, topic: str) -> None:
    kept, dropped = (open_transaction(client, f"{topic}/{name}", topic) for name in ("a", "b"))
    assert (end(client, kept), end(client, kept)) == (0, 0)
    assert (end(client, dropped, commit=False), end(client, dropped, commit=False)) == (0, 0)
    again = begin_again(client, kept)
    begin_again(client, dropped)
    assert visible(kafka, topic) == [kept.transactional_id]
    assert end(client, kept) in {ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch}
    if again.version is V2:
        assert end(client, again) == ErrorCode.invalid_txn_state


def test_fencing_aborts_the_open_transaction(
    kafka: AnyKafka, client: BlockingClient, topic: str
) -> None:
    left = open_transaction(client, f"{topic}/left", topic)
    fenced = TransactionAdmin(client).fence([left.transactional_id], client.deadline(60))
    assert fenced == {left.transactional_id: 0}
    assert end(client, left) in {ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch}
    assert visible(kafka, topic) == []


def test_fenced_producer_gets_an_error(client: BlockingClient, topic: str) -> None:
    admin, name, deadline = TransactionAdmin(client), f"{topic}/d", client.deadline(60)
    older = admin.init_producer_id(name, TIMEOUT_MS, deadline)
    bumped = admin.init_producer_id(name, TIMEOUT_MS, deadline, older)
    assert (bumped.producer_id, bumped.epoch) == (older.producer_id, older.epoch + 1)
    admin.init_producer_id(name, TIMEOUT_MS, deadline)
    with pytest.raises(FencedError):
        admin.init_producer_id(name, TIMEOUT_MS, deadline, bumped)


@pytest.mark.parametrize("kafka", ["4.3.1", "3.9.1", "embedded"], indirect=True)
def test_describe_and_list_open_transactions(
    kafka: AnyKafka, client: BlockingClient, topic: str
) -> None:
    admin, deadline = TransactionAdmin(client), client.deadline(60)
    left = open_transaction(client, f"{topic}/left", topic)
    other = open_transaction(client, f"other-{topic}", topic)
    ended = open_transaction(client, f"{topic}/ended", topic)
    end(client, ended)
    begin_again(client, ended)
    described = admin.describe([left.transactional_id, "nobody"], deadline)[left.transactional_id]
    assert (described.state, described.is_of(left)) == (TransactionState.ONGOING, True)
    assert (described.timeout_ms, described.partitions) == (TIMEOUT_MS, (TopicPartition(topic, 0),))
    assert described.started_ms is not None
    assert abs(described.started_ms - time.time() * 1000) < 60_000
    listed = admin.list(f"{topic}/.*", deadline)
    assert [transaction.transactional_id for transaction in listed] == [left.transactional_id]
    everything = {
        transaction.transactional_id for transaction in admin.list(None, deadline, states=())
    }
    assert {left.transactional_id, other.transactional_id, ended.transactional_id} <= everything
    (producers,) = admin.describe_producers([TopicPartition(topic, 0)], deadline).values()
    open_now = {
        producer.producer_id for producer in producers if producer.transaction_start is not None
    }
    assert open_now == {left.producer_id, other.producer_id}
    admin.fence([left.transactional_id, other.transactional_id], deadline)


@pytest.mark.parametrize("kafka", ["2.8.2"], indirect=True)
def test_brokers_before_3_0_cannot_describe_or_list(client: BlockingClient, topic: str) -> None:
    left = open_transaction(client, f"{topic}/left", topic)
    admin = TransactionAdmin(client)
    with pytest.raises(ProtocolError, match="DESCRIBE_TRANSACTIONS"):
        admin.describe([left.transactional_id], client.deadline(60))
    with pytest.raises(ProtocolError, match="LIST_TRANSACTIONS"):
        admin.list(None, client.deadline(60))
    assert end(client, left) == 0


@pytest.mark.parametrize("kafka", ["4.3.1"], indirect=True)
def test_same_result_as_kafka_tools(
    kafka: KafkaCluster, client: BlockingClient, topic: str
) -> None:
    left = open_transaction(client, f"{topic}/left", topic)
    server = ("--bootstrap-server", kafka.bootstrap_servers)
    tool = "org.apache.kafka.tools.TransactionsCommand"
    listed = run_tool(tool, *server, "list").decode()
    (row,) = [line.split() for line in listed.splitlines() if left.transactional_id in line]
    (ours,) = TransactionAdmin(client).list(f"{topic}/.*", client.deadline(60))
    assert row == [left.transactional_id, str(ours.coordinator), str(left.producer_id), "Ongoing"]
    name = ("--transactional-id", left.transactional_id)
    described = run_tool(tool, *server, "describe", *name).decode()
    assert f"{topic}-0" in described
    assert f" {left.producer_id} " in " ".join(described.split())
    end(client, left)


@pytest.mark.parametrize("kafka", ["4.3.1", "embedded"], indirect=True)
def test_a_thousand_transactions_end_within_three_seconds(
    kafka: AnyKafka, client: BlockingClient, topic: str
) -> None:
    names = [f"{topic}/{number}" for number in range(MANY)]
    transactions = open_transactions(client, names, [TopicPartition(topic, 0)])
    admin, started = TransactionAdmin(client), time.monotonic()
    ended = admin.end(transactions, commit=True, deadline=None)
    took = time.monotonic() - started
    assert ended == dict.fromkeys(names, 0)
    assert took < 3.0
    begin_again(client, transactions[-1])
    # Markers are written after the responses.
    wait_until_equal(lambda: sorted(visible(kafka, topic)), sorted(names))


def test_wait_for_a_new_coordinator(real_kafka3: KafkaCluster, unique_topic: str) -> None:
    real_kafka3.admin.create_topic(unique_topic, partitions=3, replication=3)
    names = [f"{unique_topic}/{number}" for number in range(40)]
    locations = [TopicPartition(unique_topic, number) for number in range(3)]
    with connected(real_kafka3) as client:
        transactions = open_transactions(client, names, locations)
        admin = TransactionAdmin(client)
        listed = admin.list(f"{unique_topic}/.*", client.deadline(60))
        coordinators = {transaction.coordinator for transaction in listed}
        assert len(coordinators) == 3
        readers = [LogReader(client, *location) for location in locations]
        before = [reader.read(None, client.deadline(60)).position for reader in readers]
        real_kafka3.node(1).kill()
        try:
            ended = admin.end(transactions, commit=True, deadline=None)
            remaining = admin.list(f"{unique_topic}/.*", client.deadline(60))
            for transaction in transactions:
                begin_again(client, transaction)
            values = visible(real_kafka3, unique_topic)
            reads = [
                reader.read(position, client.deadline(60))
                for reader, position in zip(readers, before, strict=True)
            ]
        finally:
            real_kafka3.restart(1)
    assert ended == dict.fromkeys(names, 0)
    assert {transaction.coordinator for transaction in remaining} <= {2, 3}
    assert sorted(values) == sorted(names)
    assert not any(read.restarted for read in reads)
    ours = [(record.value or b"").decode() for read in reads for record in read.records]
    assert sorted(ours) == sorted(names)
