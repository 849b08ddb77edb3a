"""Transactions of other clients with the embedded broker."""

from typing import Any, cast

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.broker.partition.log_validator import AppendOptions
from tests.broker.transactions.confluent import SECONDS, transactional, values
from tests.support.waiting import wait_until
from tools.support.java import kafka_jvm, run_tool
from tools.support.raw_client import batch

COMMAND = "org.apache.kafka.tools.TransactionsCommand"


class TestConfluent:
    def test_an_open_transaction_is_invisible(self, kafka: EmbeddedBroker) -> None:
        sender = transactional(kafka)
        sender.begin_transaction()
        sender.produce("t", "open", partition=0)
        sender.flush(SECONDS)
        assert values(kafka, "t") == []
        assert values(kafka, "t", "read_uncommitted") == ["open"]
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        location = TopicPartition("t", 0)
        ends = {}
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            requested = admin.list_offsets({location: latest}, isolation_level=level)
            ends[level] = requested[location].result(SECONDS).offset
        assert list(ends.values()) == [0, 1]
        sender.commit_transaction(SECONDS)
        assert values(kafka, "t") == ["open"]

    def test_second_producer_fences_the_first(self, kafka: EmbeddedBroker) -> None:
        first = transactional(kafka)
        first.begin_transaction()
        first.produce("t", "lost", partition=0)
        first.flush(SECONDS)
        second = transactional(kafka)
        with pytest.raises(KafkaException) as raised:
            first.commit_transaction(SECONDS)
        assert raised.value.args[0].fatal()
        second.begin_transaction()
        second.produce("t", "kept", partition=0)
        second.commit_transaction(SECONDS)
        assert values(kafka, "t") == ["kept"]

    def test_transaction_is_aborted_after_its_timeout(self, kafka: EmbeddedBroker) -> None:
        sender = transactional(kafka, **cast("dict[str, Any]", {"transaction.timeout.ms": 1000}))
        sender.begin_transaction()
        sender.produce("t", "late", partition=0)
        sender.flush(SECONDS)
        wait_until(lambda: kafka.end_offsets("t")[0] >= 2)
        with pytest.raises(KafkaException):
            sender.commit_transaction(SECONDS)
        assert values(kafka, "t") == []

    def test_consume_transform_produce(self, kafka: EmbeddedBroker) -> None:
        kafka.create_topic("in", 2)
        source = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for i in range(50):
            source.produce("in", str(i), str(i))
        source.flush(SECONDS)
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "ctp"}
        reader = Consumer(settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
        reader.subscribe(["in"])
        sender = transactional(kafka)
        done = 0
        for turn in range(100):
            sender.begin_transaction()
            batch = [m for m in reader.consume(10, 1.0) if m.error() is None]
            for message in batch:
                sender.produce("t", message.value())
            positions = reader.position(reader.assignment())
            sender.send_offsets_to_transaction(positions, reader.consumer_group_metadata(), SECONDS)
            if turn == 2:
                sender.abort_transaction(SECONDS)
                committed = reader.committed(reader.assignment(), SECONDS)
                for location in committed:
                    reader.seek(
                        TopicPartition(location.topic, location.partition, max(location.offset, 0))
                    )
                continue
            sender.commit_transaction(SECONDS)
            done += len(batch)
            if done == 50:
                break
        reader.close()
        assert values(kafka, "t") == sorted(map(str, range(50)))
        after = Consumer(settings)
        locations = after.committed([TopicPartition("in", p) for p in range(2)], SECONDS)
        assert sum(location.offset for location in locations) == 50
        after.close()

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_all_transaction_versions(self, version: int) -> None:
        with EmbeddedBroker(topics={"t": 2}, transaction_version=version, nodes=2) as kafka:
            sender = transactional(kafka)
            for turn in range(4):
                sender.begin_transaction()
                sender.produce("t", f"{turn}", partition=turn % 2)
                sender.commit_transaction(SECONDS)
            assert values(kafka, "t") == ["0", "1", "2", "3"]


def java_producer_epoch(cluster: Cluster) -> int:
    transaction = cluster.transaction_coordinator.find("java")
    assert transaction is not None
    return transaction.epoch


def tool(kafka: EmbeddedBroker, *arguments: str) -> list[list[str]]:
    printed = run_tool(COMMAND, "--bootstrap-server", kafka.bootstrap_servers, *arguments)
    return [line.split() for line in printed.decode().splitlines() if line.strip()]


def test_kafka_transactions_command(kafka: EmbeddedBroker) -> None:
    sender = transactional(kafka, "seen")
    sender.begin_transaction()
    sender.produce("t", "open", partition=1)
    sender.flush(SECONDS)
    header, row = tool(kafka, "list")
    listed = dict(zip(header, row, strict=True))
    assert (listed["TransactionalId"], listed["TransactionState"]) == ("seen", "Ongoing")
    header, row = tool(kafka, "describe", "--transactional-id", "seen")
    described = dict(zip(header, row, strict=True))
    assert described["ProducerId"] == listed["ProducerId"]
    assert (described["TransactionState"], described["TopicPartitions"]) == ("Ongoing", "t-1")
    header, row = tool(kafka, "describe-producers", "--topic", "t", "--partition", "1")
    producer = dict(zip(header, row, strict=True))
    assert producer["ProducerId"] == listed["ProducerId"]
    assert (producer["LastSequence"], producer["CurrentTransactionStartOffset"]) == ("0", "0")
    sender.commit_transaction(SECONDS)
    header, row = tool(kafka, "list")
    assert dict(zip(header, row, strict=True))["TransactionState"] == "CompleteCommit"


def append_without_coordinator(cluster: Cluster) -> None:
    """Open a transaction that no coordinator knows, as Kafka did before KIP-890."""
    partition = cluster.topics.partition("t", 1)
    assert partition is not None
    records = bytes(batch(producer=(1000, 0, 0), is_transactional=True, timestamp=1))
    partition.append(records, AppendOptions(partition.config, produce_version=9, now_ms=1))


def test_find_and_abort_hanging_transaction(kafka: EmbeddedBroker) -> None:
    kafka.run(append_without_coordinator)
    header, row = tool(kafka, "find-hanging", "--topic", "t")
    columns = dict(zip(header, row, strict=True))
    assert (columns["Topic"], columns["Partition"], columns["StartOffset"]) == ("t", "1", "0")
    tool(kafka, "abort", "--topic", "t", "--partition", "1", "--start-offset", "0")
    assert kafka.end_offsets("t") == [0, 2, 0, 0]
    assert values(kafka, "t") == []
    assert len(tool(kafka, "find-hanging", "--topic", "t")) == 1


@pytest.mark.parametrize("version", [1, 2])
def test_java_producer_and_consumer(version: int) -> None:
    with EmbeddedBroker(topics={"t": 2}, transaction_version=version) as kafka, kafka_jvm() as jvm:
        clients = jvm.packages.org.apache.kafka.clients
        strings = "org.apache.kafka.common.serialization.StringSerializer"
        settings = jvm.packages.java.util.Properties()
        for key, value in {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": "java",
            "key.serializer": strings,
            "value.serializer": strings,
            "max.block.ms": "20000",
        }.items():
            settings.setProperty(key, value)
        sender = clients.producer.KafkaProducer(settings)
        sender.initTransactions()
        for turn in range(6):
            sender.beginTransaction()
            for i in range(5):
                record = clients.producer.ProducerRecord("t", f"k{i}", f"{turn}-{i}")
                sender.send(record)
            if turn % 2:
                sender.commitTransaction()
            else:
                sender.flush()
                sender.abortTransaction()
        epoch = kafka.run(java_producer_epoch)
        sender.close()
        assert values(kafka, "t") == sorted(f"{t}-{i}" for t in (1, 3, 5) for i in range(5))
        assert epoch == (6 if version == 2 else 0)
