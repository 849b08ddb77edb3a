"""Functions that read a whole topic with independent clients.

All readers return the records that are in the topic at the time of the call, sorted by partition
and offset. For Kafka's console consumer, which prints text, keys and values must be UTF-8.
"""

import time
from contextlib import closing
from dataclasses import dataclass
from typing import cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tools.support.java import run_tool

Headers = tuple[tuple[str, bytes | None], ...]
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
_TIMEOUT_S = 60
_NO_LEADER = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
_FIELD, _HEADER, _END, _NULL = "<field>", "<header>", "<end>", "<null>"
_PRINTED = ("timestamp", "partition", "offset", "headers", "key", "value")
_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


class ReaderError(RuntimeError):
    """A reader failed or timed out."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ForeignRecord:
    """A record. `timestamp` is in milliseconds; null keys and values are None."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def in_order(records: list[ForeignRecord]) -> list[ForeignRecord]:
    """Return the records sorted by partition and offset."""
    return sorted(records, key=lambda record: (record.partition, record.offset))


def ranges(
    bootstrap_servers: str, topic: str, isolation: str = COMMITTED
) -> dict[int, tuple[int, int]]:
    """Return the first offset and the end offset of each partition, as reported by the broker."""
    with closing(_consumer(bootstrap_servers, isolation)) as consumer:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        return {
            number: _watermarks(consumer, TopicPartition(topic, number)) for number in partitions
        }


def _watermarks(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """Return a partition's first and end offset; wait while a new topic's leader takes over."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in _NO_LEADER or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def count(bootstrap_servers: str, topic: str) -> int:
    """Return the number of offsets in a topic, including those of transaction markers."""
    return sum(end - start for start, end in ranges(bootstrap_servers, topic).values())


def by_confluent(
    bootstrap_servers: str, topic: str, isolation: str = COMMITTED
) -> list[ForeignRecord]:
    """Read with confluent-kafka (librdkafka)."""
    with closing(_consumer(bootstrap_servers, isolation)) as consumer:
        places = [
            TopicPartition(topic, number, OFFSET_BEGINNING)
            for number, (start, end) in ranges(bootstrap_servers, topic, isolation).items()
            if end > start
        ]
        consumer.assign(places)
        return in_order(_consume(consumer, len(places)))


def numbers_in(bootstrap_servers: str, topic: str) -> list[int]:
    """Return the numbers that are the committed values in a topic, sorted; -1 for null."""
    return sorted(int(record.value or b"-1") for record in by_confluent(bootstrap_servers, topic))


def _consumer(bootstrap_servers: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "by-confluent",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 10,  # An empty response indicates the end of a partition.
            "check.crcs": True,
            "reconnect.backoff.max.ms": 500,
        }
    )


def _consume(consumer: Consumer, open_partitions: int) -> list[ForeignRecord]:
    records: list[ForeignRecord] = []
    deadline = time.monotonic() + _TIMEOUT_S
    while open_partitions:
        if time.monotonic() > deadline:
            raise ReaderError(f"confluent-kafka read {len(records)} records in {_TIMEOUT_S} s")
        for message in consumer.consume(10_000, timeout=0.02):
            error = message.error()
            if error is None:
                records.append(_confluent_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions -= 1
            elif not error.retriable():
                raise ReaderError(f"confluent-kafka: {error}")
    return records


def _confluent_record(message: Message) -> ForeignRecord:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return ForeignRecord(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(headers),
    )


def by_console_consumer(bootstrap_servers: str, topic: str) -> list[ForeignRecord]:
    """Read with Kafka's console consumer (Java), which is not started if the topic is empty."""
    expected = count(bootstrap_servers, topic)
    if not expected:
        return []
    properties = {
        **{f"print.{name}": "true" for name in _PRINTED},
        "key.separator": _FIELD,
        "headers.separator": _HEADER,
        "line.separator": _END,
        "null.literal": _NULL,
    }
    arguments = ["--bootstrap-server", bootstrap_servers, "--topic", topic, "--from-beginning"]
    arguments += ["--max-messages", str(expected), "--timeout-ms", "20000"]
    for name, value in properties.items():
        arguments += ["--formatter-property", f"{name}={value}"]
    printed = run_tool(_CONSUMER, *arguments).decode()
    records = [_console_record(topic, line) for line in printed.split(_END)[:-1]]
    if len(records) != expected:
        raise ReaderError(f"the console consumer read {len(records)} of {expected} records")
    return in_order(records)


def _console_record(topic: str, line: str) -> ForeignRecord:
    timestamp, partition, offset, headers, key, value = line.split(_FIELD)
    return ForeignRecord(
        topic=topic,
        partition=int(partition.removeprefix("Partition:")),
        offset=int(offset.removeprefix("Offset:")),
        timestamp=int(timestamp.split(":")[1]),
        key=_nullable(key),
        value=_nullable(value),
        headers=_console_headers(headers),
    )


def _nullable(printed: str) -> bytes | None:
    return None if printed == _NULL else printed.encode()


def _console_headers(printed: str) -> Headers:
    if printed == "NO_HEADERS":
        return ()
    pairs = (entry.split(":", 1) for entry in printed.split(_HEADER))
    return tuple((key, _nullable(value)) for key, value in pairs)
