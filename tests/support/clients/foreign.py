"""What a foreign reader finds in a topic, in one form for all readers."""

from __future__ import annotations

import time
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

_TIMEOUT_S = 30

Headers = tuple[tuple[str, bytes | None], ...]


class ReaderError(RuntimeError):
    """A reader failed, or did not get to the end of the topic in time."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ForeignRecord:
    """One record; `timestamp` in milliseconds, null keys and values as None."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def in_order(records: list[ForeignRecord]) -> list[ForeignRecord]:
    """Sorted by partition, then offset: the order that every reader returns."""
    return sorted(records, key=lambda record: (record.partition, record.offset))


def ranges(bootstrap_servers: str, topic: str) -> dict[int, tuple[int, int]]:
    """Partition to its first offset and the offset after its last one, as the broker says now."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "ranges"})
    try:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        found = {}
        for number in partitions:
            wanted = TopicPartition(topic, number)
            found[number] = consumer.get_watermark_offsets(wanted, timeout=_TIMEOUT_S)
        return found
    finally:
        consumer.close()


def count(bootstrap_servers: str, topic: str) -> int:
    """Offsets in use in the whole topic: its records, and transaction markers where there are."""
    return sum(end - start for start, end in ranges(bootstrap_servers, topic).values())


def await_count(bootstrap_servers: str, topic: str, wanted: int) -> None:
    """Wait until so many offsets can be read.

    A write that is not acknowledged by all replicas ends before readers see its records.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    while (found := count(bootstrap_servers, topic)) < wanted:
        if time.monotonic() > deadline:
            raise ReaderError(f"{topic} has {found} records, not {wanted}")
        time.sleep(0.05)
