"""Transactional writes and read_committed reads with confluent-kafka."""

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from spark_kafka_sink import EmbeddedBroker

SECONDS = 60


def values(
    kafka: EmbeddedBroker, topic: str, isolation: str = "read_committed", count: int | None = None
) -> list[str]:
    """Return the values that confluent-kafka reads from the beginning to the end offset."""
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": f"reader-{isolation}",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "isolation.level": isolation,
    }
    reader = Consumer(settings)
    partitions = len(kafka.end_offsets(topic))
    reader.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    texts: list[str] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + SECONDS
    while len(ended) < partitions and time.monotonic() < deadline:
        message = reader.poll(0.2)
        error = None if message is None else message.error()
        if message is not None and error is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            ended.add(message.partition())
        elif message is not None:
            texts.append((message.value() or b"").decode())
    reader.close()
    assert len(ended) == partitions
    return sorted(texts)


def transactional(kafka: EmbeddedBroker, name: str = "x", **changes: Any) -> Producer:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name}
    sender = Producer(settings | {"linger.ms": 1} | changes)
    sender.init_transactions(SECONDS)
    return sender
