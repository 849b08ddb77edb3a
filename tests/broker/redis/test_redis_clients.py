"""Other clients, and the producer, with a broker that stores records in Redis Streams."""

import asyncio
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Producer

from spark_kafka_sink import EmbeddedBroker
from tests.broker.redis.reading import entries
from tests.support.producer_writes import produce, rows
from tests.support.readers import by_kafka_python, by_kcat
from tests.support.redis_server import RedisServer
from tools.support.readers import ForeignRecord, by_confluent

HEADERS = (("a", b"1"), ("a", b""), ("b", None), ("a", b"2"))
COUNT = 500


def content(records: list[ForeignRecord]) -> list[tuple[object, ...]]:
    return [
        (record.partition, record.key, record.value, record.headers, record.timestamp)
        for record in records
    ]


@pytest.mark.parametrize("reader", [by_confluent, by_kafka_python, by_kcat])
def test_other_clients_read_records_of_librdkafka(
    redis_kafka: EmbeddedBroker, reader: Callable[[str, str], list[ForeignRecord]]
) -> None:
    servers = redis_kafka.bootstrap_servers
    sender = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
    sent = []
    for number in range(COUNT):
        key = None if number % 5 == 0 else b"%d" % number
        value = None if number % 7 == 0 else b"v%d" % number
        headers = HEADERS[: number % 5]
        stamp = 1_700_000_000_000 + number
        location: dict[str, Any] = {"partition": number % 4, "timestamp": stamp}
        sender.produce("t", value, key, headers=list(headers), **location)
        sent.append((number % 4, key, value, headers, stamp))
        if number % 100 == 99:
            sender.flush(60)
    assert content(reader(servers, "t")) == sorted(sent, key=lambda record: (record[0], record[4]))


def test_aiokafka_and_its_group_across_a_restart(redis_url: str) -> None:
    async def write_and_read(servers: str, value: bytes) -> bytes:
        sender = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
        await sender.start()
        await sender.send_and_wait("t", value)
        await sender.stop()
        reader = AIOKafkaConsumer(
            "t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
        )
        await reader.start()
        text: bytes = (await reader.getone()).value
        await reader.stop()
        return text

    for value in (b"one", b"two", b"three"):
        with EmbeddedBroker(storage=redis_url, topics={"t": 1}) as kafka:
            task = write_and_read(kafka.bootstrap_servers, value)
            assert asyncio.run(asyncio.wait_for(task, 40)) == value


def test_waiting_consumer_gets_first_record_of_empty_topic(redis_kafka: EmbeddedBroker) -> None:
    """The consumer waits at offset 0; the first record has a much larger offset."""
    command = ["kcat", "-b", redis_kafka.bootstrap_servers, "-C", "-t", "t", "-p", "0", "-q"]
    command += ["-o", "0", "-c", "1", "-f", "%s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
        try:
            produce(redis_kafka.bootstrap_servers, rows("t", [b"first"], partitions=[0]))
            out, _ = reader.communicate(timeout=60)
            assert out == b"first"
        finally:
            reader.kill()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_producer_writes_to_redis_streams(
    redis_kafka: EmbeddedBroker, redis_server: RedisServer, unique_topic: str, codec: str | None
) -> None:
    values = [b"value %d" % number for number in range(5000)]
    keys = [b"key %d" % (number % 100) for number in range(5000)]
    headers = [HEADERS[: number % 5] for number in range(5000)]
    report = produce(
        redis_kafka.bootstrap_servers,
        rows("t", values, keys=keys, headers=headers),
        batch_size=20_000,
        compression_type=codec,
    )
    assert report.records == 5000
    partitions: dict[bytes, int] = {}
    stored: list[bytes] = []
    for partition in range(4):
        for _, fields in entries(redis_server, f"{unique_topic}:t:{partition}"):
            assert partitions.setdefault(fields[b"key"], partition) == partition
            stored.append(fields[b"value"])
    assert sorted(stored) == sorted(values)
    assert len(partitions) == 100
    assert len(by_kafka_python(redis_kafka.bootstrap_servers, "t")) == 5000
