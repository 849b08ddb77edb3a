"""confluent-kafka with the embedded broker."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from spark_kafka_sink import EmbeddedBroker

SECONDS = 60


@pytest.fixture
def admin(kafka: EmbeddedBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture
def consumer(kafka: EmbeddedBroker) -> Iterator[Callable[..., Consumer]]:
    consumers = []

    def make(group: str = "g", **changes: Any) -> Consumer:
        settings = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "session.timeout.ms": 6000,
        }
        consumers.append(Consumer(settings | changes))
        return consumers[-1]

    yield make
    for opened in consumers:
        opened.close()


def producer(kafka: EmbeddedBroker, **changes: Any) -> Producer:
    return Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5} | changes)


def read(consumer: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + SECONDS
    while len(messages) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None
            messages.append(message)
    assert len(messages) == count
    return messages


@pytest.mark.quick
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_idempotent_producer_with_each_codec(
    kafka: EmbeddedBroker, consumer: Callable[..., Consumer], codec: str
) -> None:
    sender = producer(kafka, **{"enable.idempotence": True, "compression.type": codec})
    offsets = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        offsets.append((message.partition(), message.offset()))

    for i in range(500):
        headers: list[tuple[str, str | bytes | None]] = [("h", str(i).encode())]
        sender.produce(
            "t", f"v{i}", f"k{i}", timestamp=1_000 + i, headers=headers, callback=delivered
        )
    assert sender.flush(SECONDS) == 0
    reader = consumer()
    reader.subscribe(["t"])
    messages = read(reader, 500)
    assert sorted(offsets) == sorted((m.partition(), m.offset()) for m in messages)
    for message in messages:
        number = int((message.value() or b"")[1:])
        assert message.key() == f"k{number}".encode()
        assert message.timestamp()[1] == 1_000 + number
        assert message.headers() == [("h", str(number).encode())]


def test_two_members_share_the_partitions(
    kafka: EmbeddedBroker, consumer: Callable[..., Consumer]
) -> None:
    first, second = consumer("pair"), consumer("pair")
    first.subscribe(["t"])
    second.subscribe(["t"])
    wait_for(first, second, lambda: {len(first.assignment()), len(second.assignment())} == {2})
    assert {p.partition for p in first.assignment() + second.assignment()} == {0, 1, 2, 3}
    second.close()
    wait_for(first, first, lambda: len(first.assignment()) == 4)


def wait_for(first: Consumer, second: Consumer, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not done() and time.monotonic() < deadline:
        first.poll(0.05)
        second.poll(0.05)
    assert done()


def test_committed_offsets_stay_until_their_group_is_deleted(
    kafka: EmbeddedBroker, consumer: Callable[..., Consumer], admin: AdminClient
) -> None:
    reader = consumer("committing")
    reader.commit(offsets=[TopicPartition("t", 1, 42)], asynchronous=False)
    committed = reader.committed([TopicPartition("t", 1), TopicPartition("t", 0)], SECONDS)
    assert [partition.offset for partition in committed] == [42, -1001]
    groups = admin.list_consumer_groups().result(SECONDS)
    assert [group.group_id for group in groups.valid] == ["committing"]
    described = admin.describe_consumer_groups(["committing"])["committing"].result(SECONDS)
    assert described.state.name == "EMPTY"
    admin.delete_consumer_groups(["committing"])["committing"].result(SECONDS)
    assert admin.list_consumer_groups().result(SECONDS).valid == []
