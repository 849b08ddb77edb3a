"""confluent-kafka in transactions: a producer, and a reader of all that is committed."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

SECONDS = 20


def values(kafka, topic, isolation="read_committed", count=None):
    """What confluent-kafka reads from the beginning up to the end that it sees."""
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
    found, ended, deadline = [], set(), time.monotonic() + SECONDS
    while len(ended) < partitions and time.monotonic() < deadline:
        message = reader.poll(0.2)
        if message is not None and message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            ended.add(message.partition())
        elif message is not None:
            found.append(message.value().decode())
    reader.close()
    assert len(ended) == partitions
    return sorted(found)


def transactional(kafka, name="x", **changes):
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name}
    sender = Producer(settings | {"linger.ms": 1} | changes)
    sender.init_transactions(SECONDS)
    return sender
