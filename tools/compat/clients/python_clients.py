"""Clients in Python: confluent-kafka, kafka-python and aiokafka."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

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

from tools.compat.clients.checks import (
    COUNT,
    SECONDS,
    VALUES,
    ClientRow,
    checks,
    expect,
    write_values,
)


def _isolation(*, committed: bool) -> str:
    return "read_committed" if committed else "read_uncommitted"


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
            partitions = consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        texts: list[str] = []
        while len(texts) < COUNT and (messages := consumer.consume(COUNT, SECONDS)):
            for message in messages:
                expect(message.error(), None)
                texts.append((message.value() or b"").decode())
        if group:
            consumer.commit(asynchronous=False)
    return texts


def _confluent_manage(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    new = NewTopic(topic, 2, 3, config={"retention.ms": "5000"})
    admin.create_topics([new])[topic].result(SECONDS)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(SECONDS)
    expect(configs["retention.ms"].value, "5000")
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(SECONDS)
    expect(len(admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions), 4)
    admin.delete_topics([topic])[topic].result(SECONDS)


def _confluent_transact(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    for end, values in (
        (producer.abort_transaction, ("aborted-1", "aborted-2")),
        (producer.commit_transaction, VALUES),
    ):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        producer.flush(SECONDS)
        end(SECONDS)


CONFLUENT = ClientRow(
    name="confluent-kafka",
    read_version=lambda: (
        f"{confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"
    ),
    checks=checks(write_values, _confluent_read, _confluent_manage, _confluent_transact),
)


def _pure_send(servers: str, topic: str, codec: str) -> None:
    named = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=servers.split(","), compression_type=named)
    for sent in [producer.send(topic, value.encode()) for value in VALUES]:
        sent.get(SECONDS)
    producer.close()


def _pure_read(
    servers: str, topic: str, group: str | None = None, *, committed: bool = False
) -> list[str]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers.split(","),
        auto_offset_reset="earliest",
        consumer_timeout_ms=SECONDS * 1000,
        group_id=group,
        isolation_level=_isolation(committed=committed),
    )
    texts = [record.value.decode() for _, record in zip(range(COUNT), consumer, strict=False)]
    if group:
        consumer.commit()
    consumer.close()
    return texts


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
    read_version=lambda: kafka.__version__,
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


def _await(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return asyncio.run(asyncio.wait_for(function(*arguments, **options), 2 * SECONDS))


AIOKAFKA = ClientRow(
    name="aiokafka",
    read_version=lambda: aiokafka.__version__,
    checks=checks(
        partial(_await, _aio_send),
        partial(_await, _aio_read),
        partial(_await, _aio_manage),
        partial(_await, _aio_transact),
    ),
)
