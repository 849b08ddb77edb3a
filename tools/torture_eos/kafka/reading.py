"""What foreign readers find in a topic, and what open transactions keep from them."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from tools.support.java import run_tool
from tools.support.readers import ReaderError
from tools.torture_eos.check import Found
from tools.torture_eos.plans.source import number_of

if TYPE_CHECKING:
    from confluent_kafka import Message

_TIMEOUT_S = 60
_ASK_S = 5.0
_TRANSACTIONS_TOOL = "org.apache.kafka.tools.TransactionsCommand"
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


def read(servers: str, topic: str, isolation: str = COMMITTED) -> list[Found]:
    """Everything that a reader of this isolation level can read now."""
    consumer = _consumer(servers, isolation)
    try:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        return _consume(consumer, len(partitions))
    finally:
        consumer.close()


def held_back(servers: str, topic: str) -> dict[int, int]:
    """Partition to the first offset that an open transaction keeps from readers, where one does."""
    found = {}
    ends = {isolation: _ends(servers, topic, isolation) for isolation in (COMMITTED, UNCOMMITTED)}
    for partition, end in ends[UNCOMMITTED].items():
        if (stable := ends[COMMITTED][partition]) < end:
            found[partition] = stable
    return found


def open_transactions(servers: str) -> list[str]:
    """The transactional ids that Kafka's own kafka-transactions lists as open."""
    printed = run_tool(_TRANSACTIONS_TOOL, "--bootstrap-server", servers, "list").decode()
    lines = (line.split() for line in printed.splitlines())
    return sorted(words[0] for words in lines if words and words[-1] in _OPEN)


def await_stable(servers: str, topic: str, seconds: float) -> dict[int, int]:
    """What is still held back after so many seconds; markers come a moment after a commit."""
    deadline = time.monotonic() + seconds
    while (held := held_back(servers, topic)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return held


class TopicWatch:
    """Asks again and again how many offsets a topic has in use."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._consumer = _consumer(servers, UNCOMMITTED)
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]

    def count(self) -> int:
        """-1 when a broker does not say."""
        count = 0
        try:
            for partition in self._partitions:
                low, high = self._consumer.get_watermark_offsets(partition, timeout=1.0)
                count += high - low
        except (KafkaException, TypeError):
            return -1
        return count

    def close(self) -> None:
        self._consumer.close()


def take_over(servers: str, transactional_id: str) -> None:
    """Fence whoever has this id, as a foreign producer."""
    settings = {"bootstrap.servers": servers, "transactional.id": transactional_id, "log_level": 0}
    Producer(settings).init_transactions(_TIMEOUT_S)


def _consumer(servers: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "torture-eos",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 10,
            "check.crcs": True,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
        }
    )


def _ends(servers: str, topic: str, isolation: str) -> dict[int, int]:
    consumer = _consumer(servers, isolation)
    try:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_ASK_S)[1]
            for number in partitions
        }
    finally:
        consumer.close()


def _consume(consumer: Consumer, partitions: int) -> list[Found]:
    found: list[Found] = []
    ended = set[int]()
    deadline = time.monotonic() + _TIMEOUT_S
    while len(ended) < partitions:
        if time.monotonic() > deadline:
            raise ReaderError(f"read {len(found)} records in {_TIMEOUT_S} s")
        for message in consumer.consume(10_000, timeout=0.05):
            error = message.error()
            if error is None:
                found.append(_found(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(_number(message.partition()))
            else:
                with suppress(AttributeError):
                    if error.retriable():
                        continue
                raise ReaderError(f"confluent-kafka: {error}")
    return found


def _found(message: Message) -> Found:
    value = message.value()
    return Found(_number(message.partition()), _number(message.offset()), number_of(value))


def _number(value: int | None) -> int:
    assert value is not None
    return value
