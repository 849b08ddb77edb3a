"""kafka-python and aiokafka with the embedded broker."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from spark_kafka_sink import EmbeddedBroker

COUNT = 200
VALUES = {str(i).encode() for i in range(COUNT)}


@pytest.mark.parametrize(("codec", "idempotent"), [(None, True), ("gzip", False), ("lz4", True)])
def test_kafka_python(kafka: EmbeddedBroker, codec: str | None, idempotent: bool) -> None:
    servers = kafka.bootstrap_servers
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic("made", 3, 1)])
    assert "made" in admin.list_topics()
    admin.close()
    producer = KafkaProducer(
        bootstrap_servers=servers, compression_type=codec, enable_idempotence=idempotent
    )
    sent = [producer.send("made", value, headers=[("h", b"x")]) for value in VALUES]
    assert len({(f.get(60).partition, f.get(60).offset) for f in sent}) == COUNT
    producer.close()
    for group in (None, "g"):
        consumer = KafkaConsumer(
            "made",
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            consumer_timeout_ms=15_000,
        )
        found = [message for _, message in zip(range(COUNT), consumer, strict=False)]
        consumer.close()
        assert {message.value for message in found} == VALUES
        assert found[0].headers == [("h", b"x")]


def test_aiokafka(kafka: EmbeddedBroker) -> None:
    asyncio.run(asyncio.wait_for(aio(kafka.bootstrap_servers), 40))


async def aio(servers: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_topics([AioNewTopic("made", 3, 1)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    await producer.start()
    sent = await asyncio.gather(*[producer.send_and_wait("made", value) for value in VALUES])
    await producer.stop()
    assert len({(one.partition, one.offset) for one in sent}) == COUNT
    for group in (None, "g"):
        consumer = AIOKafkaConsumer(
            "made", bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest"
        )
        await consumer.start()
        found = [(await consumer.getone()).value for _ in range(COUNT)]
        await consumer.stop()
        assert set(found) == VALUES
