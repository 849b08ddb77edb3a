"""Checks of kafka-python, a pure Python client."""

from __future__ import annotations

from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from tools.compat.clients.check import CODECS, COUNT, VALUES, ClientRow, Task, expect, new_topic
from tools.compat.clients.confluent import fill, values_in

SECONDS = 20


def _produce(servers: str) -> None:
    for codec in CODECS:
        topic = new_topic()
        named = None if codec == "none" else codec
        producer = KafkaProducer(bootstrap_servers=servers.split(","), compression_type=named)
        for sent in [producer.send(topic, value.encode()) for value in VALUES]:
            sent.get(SECONDS)
        producer.close()
        expect(values_in(servers, topic), list(VALUES))


def _read(servers: str, topic: str, **options: Any) -> list[str]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers.split(","),
        auto_offset_reset="earliest",
        consumer_timeout_ms=options.pop("timeout_ms", SECONDS * 1000),
        **options,
    )
    found = [one.value.decode() for _, one in zip(range(COUNT), consumer, strict=False)]
    if options.get("group_id"):
        consumer.commit()
    consumer.close()
    return sorted(found)


def _consume(servers: str) -> None:
    expect(_read(servers, fill(servers)), sorted(VALUES))


def _groups(servers: str) -> None:
    topic = fill(servers)
    expect(_read(servers, topic, group_id=topic), sorted(VALUES))
    expect(_read(servers, topic, group_id=topic, timeout_ms=3000), [])


def _topics(servers: str) -> None:
    admin, topic = KafkaAdminClient(bootstrap_servers=servers.split(",")), new_topic()
    admin.create_topics([NewTopic(topic, 2, 3)])
    expect(topic in admin.list_topics(), True)
    admin.delete_topics([topic])
    expect(topic in admin.list_topics(), False)
    admin.close()


def _transactions(servers: str) -> None:
    topic = new_topic()
    producer = KafkaProducer(bootstrap_servers=servers.split(","), transactional_id=topic)
    producer.init_transactions()
    for commit, values in ((False, ["aborted"]), (True, VALUES)):
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value.encode())
        producer.flush()
        (producer.commit_transaction if commit else producer.abort_transaction)()
    producer.close()
    expect(_read(servers, topic, isolation_level="read_committed"), sorted(VALUES))


KAFKA_PYTHON = ClientRow(
    name="kafka-python",
    version=kafka.__version__,
    checks={
        Task.PRODUCE: _produce,
        Task.CONSUME: _consume,
        Task.GROUPS: _groups,
        Task.TOPICS: _topics,
        Task.TRANSACTIONS: _transactions,
    },
)
