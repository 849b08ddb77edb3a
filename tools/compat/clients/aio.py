"""Checks of aiokafka, an asyncio client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tools.compat.clients.check import CODECS, COUNT, VALUES, ClientRow, Task, expect, new_topic
from tools.compat.clients.confluent import fill, values_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tools.compat.clients.check import Check

SECONDS = 40


def _run(check: Callable[[str], Awaitable[None]]) -> Check:
    def run(servers: str) -> None:
        asyncio.run(asyncio.wait_for(check(servers), SECONDS))

    return run


async def _send(servers: str, topic: str, codec: str) -> None:
    named = None if codec == "none" else codec
    producer = AIOKafkaProducer(
        bootstrap_servers=servers, enable_idempotence=True, compression_type=named
    )
    await producer.start()
    await asyncio.gather(*[producer.send_and_wait(topic, value.encode()) for value in VALUES])
    await producer.stop()


async def _produce(servers: str) -> None:
    for codec in CODECS:
        topic = new_topic()
        await _send(servers, topic, codec)
        found = await asyncio.to_thread(values_in, servers, topic)
        expect(found, list(VALUES))


async def _read(servers: str, topic: str, **options: Any) -> list[str]:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest", **options
    )
    await consumer.start()
    found = [(await consumer.getone()).value.decode() for _ in range(COUNT)]
    await consumer.stop()
    return sorted(found)


async def _consume(servers: str) -> None:
    expect(await _read(servers, await asyncio.to_thread(fill, servers)), sorted(VALUES))


async def _groups(servers: str) -> None:
    topic = await asyncio.to_thread(fill, servers)
    expect(await _read(servers, topic, group_id=topic), sorted(VALUES))
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=servers, group_id=topic)
    await consumer.start()
    offsets = [await consumer.committed(place) for place in consumer.assignment()]
    await consumer.stop()
    expect(sum(offset or 0 for offset in offsets), COUNT)


async def _topics(servers: str) -> None:
    admin, topic = AIOKafkaAdminClient(bootstrap_servers=servers), new_topic()
    await admin.start()
    await admin.create_topics([NewTopic(topic, 2, 3)])
    expect(topic in await admin.list_topics(), True)
    await admin.delete_topics([topic])
    await admin.close()


async def _transactions(servers: str) -> None:
    topic = new_topic()
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=topic)
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait(topic, b"aborted")
    await producer.abort_transaction()
    async with producer.transaction():
        for value in VALUES:
            await producer.send_and_wait(topic, value.encode())
    await producer.stop()
    expect(await _read(servers, topic, isolation_level="read_committed"), sorted(VALUES))


AIOKAFKA = ClientRow(
    name="aiokafka",
    version=aiokafka.__version__,
    checks={
        Task.PRODUCE: _run(_produce),
        Task.CONSUME: _run(_consume),
        Task.GROUPS: _run(_groups),
        Task.TOPICS: _run(_topics),
        Task.TRANSACTIONS: _run(_transactions),
    },
)
