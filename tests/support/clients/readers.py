"""Clients that are not ours, each reading a whole topic into the same list of records.

All read what is in the topic at the call, from the first offset to the last, and return it sorted
by partition and offset. Kafka's own command line tools are in ``console``.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PurePartition

from tests.support.clients.foreign import ForeignRecord, Headers, ReaderError, in_order, ranges

if TYPE_CHECKING:
    from kafka.consumer.fetcher import ConsumerRecord

_TIMEOUT_S = 60
# Framing for kcat: lengths before bytes, and an end that no test writes into a header.
_END = b"<end-of-record>"
_KCAT_FORMAT = f"%p %o %T %K %S\\n%k%s%h{_END.decode()}"


def by_confluent(bootstrap_servers: str, topic: str) -> list[ForeignRecord]:
    """Read with confluent-kafka (librdkafka)."""
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "by-confluent",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,  # The end of a partition is told by a fetch that brings nothing.
        "check.crcs": True,
    }
    consumer = Consumer(settings)
    try:
        places = [
            TopicPartition(topic, number, OFFSET_BEGINNING)
            for number, (start, end) in ranges(bootstrap_servers, topic).items()
            if end > start
        ]
        consumer.assign(places)
        return in_order(_consume(consumer, len(places)))
    finally:
        consumer.close()


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
            else:
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


def by_kafka_python(
    bootstrap_servers: str, topic: str, isolation_level: str = "read_uncommitted"
) -> list[ForeignRecord]:
    """Read with kafka-python, checksums checked."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers.split(","),
        enable_auto_commit=False,
        check_crcs=True,
        isolation_level=isolation_level,
    )
    try:
        ends = {
            PurePartition(topic, number): end
            for number, (start, end) in ranges(bootstrap_servers, topic).items()
            if end > start
        }
        consumer.assign(list(ends))
        return in_order(_poll(consumer, ends) if ends else [])
    finally:
        consumer.close()


def _poll(consumer: KafkaConsumer, ends: dict[PurePartition, int]) -> list[ForeignRecord]:
    consumer.seek_to_beginning()
    records: list[ForeignRecord] = []
    deadline = time.monotonic() + _TIMEOUT_S
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        if time.monotonic() > deadline:
            raise ReaderError(f"kafka-python read {len(records)} records in {_TIMEOUT_S} s")
        for found in consumer.poll(timeout_ms=200, max_records=10_000).values():
            records += map(_pure_record, found)
    return records


def _pure_record(record: ConsumerRecord) -> ForeignRecord:
    return ForeignRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        key=record.key,
        value=record.value,
        headers=tuple(record.headers),
    )


def by_kcat(bootstrap_servers: str, topic: str) -> list[ForeignRecord]:
    """Read with Debian's kcat.

    Keys and values may be any bytes. kcat prints headers as text without lengths: their values
    must be free of ``,`` and ``=``, and a null header value comes back as None only if it isn't
    the word NULL.
    """
    kcat = shutil.which("kcat")
    if kcat is None:
        raise ReaderError("kcat is not on the path: apt install kcat")
    command = [kcat, "-C", "-q", "-e", "-b", bootstrap_servers, "-t", topic, "-o", "beginning"]
    done = subprocess.run(
        [*command, "-X", "check.crcs=true", "-f", _KCAT_FORMAT],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise ReaderError(f"kcat failed: {done.stderr.decode(errors='replace')}")
    return in_order(_kcat_records(topic, done.stdout))


def _kcat_records(topic: str, output: bytes) -> list[ForeignRecord]:
    records, at = [], 0
    while at < len(output):
        line = output.index(b"\n", at)
        partition, offset, timestamp, key_size, value_size = map(int, output[at:line].split())
        value_at = line + 1 + max(key_size, 0)
        headers_at = value_at + max(value_size, 0)
        at = output.index(_END, headers_at) + len(_END)
        records.append(
            ForeignRecord(
                topic=topic,
                partition=partition,
                offset=offset,
                timestamp=timestamp,
                key=None if key_size < 0 else output[line + 1 : value_at],
                value=None if value_size < 0 else output[value_at:headers_at],
                headers=_kcat_headers(output[headers_at : at - len(_END)]),
            )
        )
    return records


def _kcat_headers(printed: bytes) -> Headers:
    pairs = (entry.split(b"=", 1) for entry in printed.split(b",") if entry)
    return tuple((key.decode(), None if value == b"NULL" else value) for key, value in pairs)
