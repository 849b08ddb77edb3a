"""The tasks that clients perform, and the checks of their results."""

import itertools
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from confluent_kafka import Consumer, Producer, TopicPartition

from tools.support.admin import Admin
from tools.support.readers import by_confluent

COUNT = 100
VALUES = tuple(f"value-{number}" for number in range(COUNT))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS = 20
_numbers = itertools.count(1)
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


class Task(StrEnum):
    """Tasks that are checked, which are the columns of the matrix."""

    PRODUCE = "produce"
    CONSUME = "consume"
    GROUPS = "groups"
    TOPICS = "topics"
    TRANSACTIONS = "transactions"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRow:
    """A client and the tasks that it supports."""

    name: str
    read_version: Callable[[], str]
    checks: Mapping[Task, Check]


def new_topic() -> str:
    """Return an unused topic name. The broker creates the topic on first use."""
    return f"matrix-{next(_numbers)}"


def expect(actual: object, expected: object) -> None:
    """Check that two values are equal.

    Raises:
        AssertionError: the values differ.
    """
    if actual != expected:
        raise AssertionError(f"found {str(actual)[:200]}, expected {str(expected)[:200]}")


def write_values(servers: str, topic: str, codec: str = "none") -> None:
    """Write all values with librdkafka."""
    settings = {"bootstrap.servers": servers, "enable.idempotence": True, "compression.type": codec}
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value, value)
    expect(producer.flush(SECONDS), 0)


def fill(servers: str) -> str:
    """Create a topic with three partitions, write all values to it, and return its name."""
    topic = Admin(servers).create_topic(new_topic(), 3, 3)
    write_values(servers, topic)
    return topic


def values_in(servers: str, topic: str) -> list[str]:
    """Return the values in a topic, sorted."""
    texts = ((record.value or b"").decode() for record in by_confluent(servers, topic))
    return sorted(texts, key=lambda value: int(value.rpartition("-")[2]))


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
            offsets = consumer.committed(places, timeout=SECONDS)
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
