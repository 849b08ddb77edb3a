"""Checks of confluent-kafka, which wraps librdkafka."""

from __future__ import annotations

import time

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from tools.compat.clients.check import CODECS, COUNT, VALUES, ClientRow, Task, expect, new_topic
from tools.support.admin import Admin
from tools.support.readers import by_confluent

SECONDS = 20


def fill(servers: str, codec: str = "none") -> str:
    """Create a topic of three partitions with all values."""
    topic = Admin(servers).create_topic(new_topic(), 3, 3)
    settings = {"bootstrap.servers": servers, "enable.idempotence": True, "compression.type": codec}
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value, value)
    expect(producer.flush(SECONDS), 0)
    return topic


def values_in(servers: str, topic: str) -> list[str]:
    """Return the values in a topic, sorted."""
    found = ((record.value or b"").decode() for record in by_confluent(servers, topic))
    return sorted(found, key=lambda value: int(value.rpartition("-")[2]))


def _produce(servers: str) -> None:
    for codec in CODECS:
        expect(values_in(servers, fill(servers, codec)), list(VALUES))


def _consume(servers: str) -> None:
    topic = fill(servers)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "-", "check.crcs": True})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(3)])
    expect(_read(consumer, COUNT), sorted(VALUES))
    consumer.close()


def _groups(servers: str) -> None:
    topic = fill(servers)
    settings = {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"}
    for expected in (sorted(VALUES), []):
        consumer = Consumer(settings | {"enable.auto.commit": False})
        consumer.subscribe([topic])
        expect(_read(consumer, len(expected)), expected)
        if expected:
            consumer.commit(asynchronous=False)
        consumer.close()
    admin = AdminClient({"bootstrap.servers": servers})
    groups = admin.list_consumer_groups().result(SECONDS)
    expect(topic in {group.group_id for group in groups.valid}, True)


def _read(consumer: Consumer, count: int, seconds: float = SECONDS) -> list[str]:
    found: list[str] = []
    deadline = time.monotonic() + (seconds if count else 2)
    while time.monotonic() < deadline and (len(found) < count or not count):
        for message in consumer.consume(1000, 0.2):
            expect(message.error(), None)
            found.append((message.value() or b"").decode())
    return sorted(found)


def _topics(servers: str) -> None:
    admin, topic = AdminClient({"bootstrap.servers": servers}), new_topic()
    new = NewTopic(topic, 2, 3, config={"retention.ms": "5000"})
    admin.create_topics([new])[topic].result(SECONDS)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(SECONDS)
    expect(configs["retention.ms"].value, "5000")
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(SECONDS)
    expect(len(admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions), 4)
    admin.delete_topics([topic])[topic].result(SECONDS)


def _transactions(servers: str) -> None:
    topic = Admin(servers).create_topic(new_topic(), 2, 3)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    for commit, values in ((False, ["aborted-1", "aborted-2"]), (True, list(VALUES))):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        producer.flush(SECONDS)
        (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
    settings = {"bootstrap.servers": servers, "group.id": "-", "isolation.level": "read_committed"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(2)])
    expect(_read(consumer, COUNT), sorted(VALUES))
    consumer.close()


CONFLUENT = ClientRow(
    name="confluent-kafka",
    version=f"{confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}",
    checks={
        Task.PRODUCE: _produce,
        Task.CONSUME: _consume,
        Task.GROUPS: _groups,
        Task.TOPICS: _topics,
        Task.TRANSACTIONS: _transactions,
    },
)
