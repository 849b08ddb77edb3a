"""Checks with unmodified Python clients: confluent-kafka (librdkafka), kafka-python and aiokafka.

`checks` creates the checks for a client, given functions that use the client to send, read, etc.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, TypeAlias

import aiokafka
import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic as PureTopic

from tools.support.admin import Admin
from tools.support.readers import by_confluent

COUNT = 100
VALUES = tuple(f"value-{number}" for number in range(COUNT))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_SECONDS = 20
_numbers = itertools.count(1)


class Task(StrEnum):
    """Tasks that are checked, which are the columns of the matrix."""

    PRODUCE = "produce"
    CONSUME = "consume"
    GROUPS = "groups"
    TOPICS = "topics"
    TRANSACTIONS = "transactions"


Check: TypeAlias = Callable[[str], object]
"""Function that performs a task, given bootstrap servers; raises an exception on failure."""
Send: TypeAlias = Callable[[str, str, str], None]
"""Function that sends all values, given (bootstrap servers, topic, codec)."""
Read: TypeAlias = Callable[..., list[str]]
"""Function that reads COUNT values, given (bootstrap servers, topic).

With `group`, it reads as a member of this group. With `committed`, it is read_committed.
"""
Use: TypeAlias = Callable[[str, str], None]
"""Function that uses a topic, given (bootstrap servers, topic)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRow:
    """A client and the tasks that it supports."""

    name: str
    version: str
    checks: Mapping[Task, Check]


def new_topic() -> str:
    """Return an unused topic name. The broker creates the topic on first use."""
    return f"matrix-{next(_numbers)}"


def expect(found: object, wanted: object) -> None:
    """Check that two values are equal.

    Raises:
        AssertionError: the values differ.
    """
    if found != wanted:
        raise AssertionError(f"found {str(found)[:200]}, expected {str(wanted)[:200]}")


def fill(servers: str) -> str:
    """Create a topic with three partitions, write all values to it, and return its name."""
    topic = Admin(servers).create_topic(new_topic(), 3, 3)
    _confluent_send(servers, topic, "none")
    return topic


def values_in(servers: str, topic: str) -> list[str]:
    """Return the values in a topic, sorted."""
    found = ((record.value or b"").decode() for record in by_confluent(servers, topic))
    return sorted(found, key=lambda value: int(value.rpartition("-")[2]))


def produces(send: Send, codecs: tuple[str, ...] = CODECS) -> Check:
    """Return a check that sends all values with each codec."""

    def check(servers: str) -> None:
        for codec in codecs:
            topic = new_topic()
            send(servers, topic, codec)
            expect(values_in(servers, topic), list(VALUES))

    return check


def consumes(read: Read) -> Check:
    """Return a check that reads all values."""
    return lambda servers: expect(sorted(read(servers, fill(servers))), sorted(VALUES))


def joins(read: Read, then: Use = lambda *_: None) -> Check:
    """Return a check that reads as a group member, finds its offsets, and calls `then`."""

    def check(servers: str) -> None:
        topic = fill(servers)
        expect(sorted(read(servers, topic, group=topic)), sorted(VALUES))
        with closing(Consumer({"bootstrap.servers": servers, "group.id": topic})) as consumer:
            places = [TopicPartition(topic, number) for number in range(3)]
            offsets = consumer.committed(places, timeout=_SECONDS)
        expect(sum(max(0, place.offset) for place in offsets), COUNT)
        then(servers, topic)

    return check


def commits(transact: Use, read: Read) -> Check:
    """Return a check that aborts one transaction, commits one, and reads committed records."""

    def check(servers: str) -> None:
        topic = Admin(servers).create_topic(new_topic(), 2, 3)
        transact(servers, topic)
        expect(sorted(read(servers, topic, committed=True)), sorted(VALUES))

    return check


def checks(send: Send, read: Read, manage: Use, transact: Use) -> dict[Task, Check]:
    """Return the checks by task."""
    return {
        Task.PRODUCE: produces(send),
        Task.CONSUME: consumes(read),
        Task.GROUPS: joins(read),
        Task.TOPICS: lambda servers: manage(servers, new_topic()),
        Task.TRANSACTIONS: commits(transact, read),
    }


def _isolation(*, committed: bool) -> str:
    return "read_committed" if committed else "read_uncommitted"


def _confluent_send(servers: str, topic: str, codec: str) -> None:
    settings = {"bootstrap.servers": servers, "enable.idempotence": True, "compression.type": codec}
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value, value)
    expect(producer.flush(_SECONDS), 0)


def _confluent_read(
    servers: str, topic: str, group: str | None = None, *, committed: bool = False
) -> list[str]:
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": servers,
        "group.id": group or f"{topic}-reader",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "check.crcs": True,
        "isolation.level": _isolation(committed=committed),
    }
    with closing(Consumer(settings)) as consumer:
        if group:
            consumer.subscribe([topic])
        else:
            partitions = consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: list[str] = []
        while len(found) < COUNT and (messages := consumer.consume(COUNT, _SECONDS)):
            for message in messages:
                expect(message.error(), None)
                found.append((message.value() or b"").decode())
        if group:
            consumer.commit(asynchronous=False)
    return found


def _confluent_manage(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    new = NewTopic(topic, 2, 3, config={"retention.ms": "5000"})
    admin.create_topics([new])[topic].result(_SECONDS)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(_SECONDS)
    expect(configs["retention.ms"].value, "5000")
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(_SECONDS)
    expect(len(admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions), 4)
    admin.delete_topics([topic])[topic].result(_SECONDS)


def _confluent_transact(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(_SECONDS)
    for end, values in (
        (producer.abort_transaction, ("aborted-1", "aborted-2")),
        (producer.commit_transaction, VALUES),
    ):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        producer.flush(_SECONDS)
        end(_SECONDS)


CONFLUENT = ClientRow(
    name="confluent-kafka",
    version=f"{confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}",
    checks=checks(_confluent_send, _confluent_read, _confluent_manage, _confluent_transact),
)


def _pure_send(servers: str, topic: str, codec: str) -> None:
    named = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=servers.split(","), compression_type=named)
    for sent in [producer.send(topic, value.encode()) for value in VALUES]:
        sent.get(_SECONDS)
    producer.close()


def _pure_read(
    servers: str, topic: str, group: str | None = None, *, committed: bool = False
) -> list[str]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers.split(","),
        auto_offset_reset="earliest",
        consumer_timeout_ms=_SECONDS * 1000,
        group_id=group,
        isolation_level=_isolation(committed=committed),
    )
    found = [one.value.decode() for _, one in zip(range(COUNT), consumer, strict=False)]
    if group:
        consumer.commit()
    consumer.close()
    return found


def _pure_manage(servers: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=servers.split(","))
    admin.create_topics([PureTopic(topic, 2, 3)])
    expect(topic in admin.list_topics(), True)
    admin.delete_topics([topic])
    expect(topic in admin.list_topics(), False)
    admin.close()


def _pure_transact(servers: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=servers.split(","), transactional_id=topic)
    producer.init_transactions()
    for end, values in (
        (producer.abort_transaction, ("aborted",)),
        (producer.commit_transaction, VALUES),
    ):
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value.encode())
        producer.flush()
        end()
    producer.close()


KAFKA_PYTHON = ClientRow(
    name="kafka-python",
    version=kafka.__version__,
    checks=checks(_pure_send, _pure_read, _pure_manage, _pure_transact),
)


async def _aio_send(servers: str, topic: str, codec: str) -> None:
    named = None if codec == "none" else codec
    async with AIOKafkaProducer(
        bootstrap_servers=servers, enable_idempotence=True, compression_type=named
    ) as producer:
        await asyncio.gather(*[producer.send_and_wait(topic, value.encode()) for value in VALUES])


async def _aio_read(
    servers: str, topic: str, group: str | None = None, *, committed: bool = False
) -> list[str]:
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        group_id=group,
        isolation_level=_isolation(committed=committed),
    ) as consumer:
        return [(await consumer.getone()).value.decode() for _ in range(COUNT)]


async def _aio_manage(servers: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_topics([AioTopic(topic, 2, 3)])
    expect(topic in await admin.list_topics(), True)
    await admin.delete_topics([topic])
    await admin.close()


async def _aio_transact(servers: str, topic: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=topic) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted")
        await producer.abort_transaction()
        async with producer.transaction():
            for value in VALUES:
                await producer.send_and_wait(topic, value.encode())


def _run(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return asyncio.run(asyncio.wait_for(function(*arguments, **options), 2 * _SECONDS))


AIOKAFKA = ClientRow(
    name="aiokafka",
    version=aiokafka.__version__,
    checks=checks(
        partial(_run, _aio_send),
        partial(_run, _aio_read),
        partial(_run, _aio_manage),
        partial(_run, _aio_transact),
    ),
)
