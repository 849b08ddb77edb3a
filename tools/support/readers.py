"""Independent clients that read a whole topic into the same list of records.

All readers return the records in the topic at the time of the call, from first to last offset,
sorted by partition and offset. Kafka's console consumer and DumpLogSegments print text: for them,
keys and values must be UTF-8.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PurePartition

from tools.support.java import run_tool

if TYPE_CHECKING:
    from pathlib import Path

    from kafka.consumer.fetcher import ConsumerRecord


Headers = tuple[tuple[str, bytes | None], ...]


class ReaderError(RuntimeError):
    """A reader failed, or timed out before the end of the topic."""


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
    """Return the records sorted by partition, then offset, as every reader returns them."""
    return sorted(records, key=lambda record: (record.partition, record.offset))


COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


def ranges(
    bootstrap_servers: str, topic: str, isolation: str = COMMITTED
) -> dict[int, tuple[int, int]]:
    """Return the first offset and the end offset of each partition, as the broker reports them."""
    with closing(_consumer(bootstrap_servers, isolation)) as consumer:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        return {
            number: consumer.get_watermark_offsets(
                TopicPartition(topic, number), timeout=_TIMEOUT_S
            )
            for number in partitions
        }


def count(bootstrap_servers: str, topic: str) -> int:
    """Return the number of offsets in use in the topic: records and transaction markers."""
    return sum(end - start for start, end in ranges(bootstrap_servers, topic).values())


def await_count(bootstrap_servers: str, topic: str, wanted: int) -> None:
    """Wait until `wanted` offsets are readable.

    A write that does not wait for all replicas ends before readers see its records.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    while (found := count(bootstrap_servers, topic)) < wanted:
        if time.monotonic() > deadline:
            raise ReaderError(f"{topic} has {found} records, not {wanted}")
        time.sleep(0.05)


_TIMEOUT_S = 60
# Framing for kcat: lengths before bytes, and an end marker that no test writes into a header.
_KCAT_END = b"<end-of-record>"
_KCAT_FORMAT = f"%p %o %T %K %S\\n%k%s%h{_KCAT_END.decode()}"


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


def _consumer(bootstrap_servers: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "by-confluent",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 10,  # An empty fetch marks the end of a partition.
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


def by_kafka_python(
    bootstrap_servers: str, topic: str, isolation_level: str = "read_uncommitted"
) -> list[ForeignRecord]:
    """Read with kafka-python, with checksums verified."""
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
    must not contain ``,`` or ``=``, and a null header value is returned as None only if it is not
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
        at = output.index(_KCAT_END, headers_at) + len(_KCAT_END)
        records.append(
            ForeignRecord(
                topic=topic,
                partition=partition,
                offset=offset,
                timestamp=timestamp,
                key=None if key_size < 0 else output[line + 1 : value_at],
                value=None if value_size < 0 else output[value_at:headers_at],
                headers=_kcat_headers(output[headers_at : at - len(_KCAT_END)]),
            )
        )
    return records


def _kcat_headers(printed: bytes) -> Headers:
    pairs = (entry.split(b"=", 1) for entry in printed.split(b",") if entry)
    return tuple((key.decode(), None if value == b"NULL" else value) for key, value in pairs)


_FIELD, _HEADER, _END, _NULL = "<field>", "<header>", "<end>", "<null>"
_PRINTED = ("timestamp", "partition", "offset", "headers", "key", "value")
_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_DUMP = "org.apache.kafka.tools.DumpLogSegments"
_LABELS = len(" key:  payload: ")
_BATCH = re.compile(r"^baseOffset: .*$", re.MULTILINE)
_RECORD = re.compile(
    r"^\| offset: (?P<offset>-?\d+) \w+: (?P<timestamp>-?\d+) keySize: (?P<key>-?\d+) "
    r"valueSize: (?P<value>-?\d+).*? headerKeys: \[(?P<headers>[^\]]*)\]",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBatch:
    """A batch as stored in a segment; `codec` in Kafka's spelling, `is_valid` by its CRC."""

    base_offset: int
    count: int
    codec: str
    is_valid: bool
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    size: int


def by_console_consumer(bootstrap_servers: str, topic: str) -> list[ForeignRecord]:
    """Read with Kafka's console consumer (Java); an empty topic needs no process."""
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


def dump(partition_dir: Path) -> str:
    """Return DumpLogSegments' output for all segments of a partition, records included."""
    files = ",".join(str(path) for path in sorted(partition_dir.glob("*.log")))
    if not files:
        raise ReaderError(f"no segments in {partition_dir}")
    return run_tool(_DUMP, "--print-data-log", "--files", files).decode()


def dumped_batches(printed: str) -> list[DumpedBatch]:
    """Return the batches in the output of `dump`, in log order."""
    return [_batch(line.group()) for line in _BATCH.finditer(printed)]


def _batch(line: str) -> DumpedBatch:
    fields = dict(re.findall(r"(\w+): (\S+)", line))
    return DumpedBatch(
        base_offset=int(fields["baseOffset"]),
        count=int(fields["count"]),
        codec=fields["compresscodec"],
        is_valid=fields["isvalid"] == "true",
        producer_id=int(fields["producerId"]),
        producer_epoch=int(fields["producerEpoch"]),
        base_sequence=int(fields["baseSequence"]),
        last_sequence=int(fields["lastSequence"]),
        size=int(fields["size"]),
    )


def dumped_records(printed: str, topic: str, partition: int) -> list[ForeignRecord]:
    """Return the records in the output of `dump`; header values are None, because it omits them."""
    records = []
    for matched in _RECORD.finditer(printed):
        sizes = int(matched["key"]), int(matched["value"])
        stop = matched.end() + sum(max(size, 0) for size in sizes) + _LABELS
        key, value = _payload(printed[matched.end() : stop].encode(), *sizes)
        names = [name for name in matched["headers"].split(",") if name]
        records.append(
            ForeignRecord(
                topic=topic,
                partition=partition,
                offset=int(matched["offset"]),
                timestamp=int(matched["timestamp"]),
                key=key,
                value=value,
                headers=tuple((name, None) for name in names),
            )
        )
    return records


def _payload(left: bytes, key_size: int, value_size: int) -> tuple[bytes | None, bytes | None]:
    """Split ` key: K payload: V` into key and value; sizes are UTF-8 bytes, -1 for null."""
    key = _cut(left, b" key: ", key_size)
    if key is not None:
        left = left[len(b" key: ") + key_size :]
    return key, _cut(left, b" payload: ", value_size)


def _cut(left: bytes, label: bytes, size: int) -> bytes | None:
    if size < 0:
        return None
    if not left.startswith(label):
        raise ReaderError(f"DumpLogSegments printed {left[:80]!r} where {label!r} belongs")
    return left[len(label) : len(label) + size]
