"""Kafka's own command line tools as readers: the console consumer and DumpLogSegments.

Both print text, so keys and values must be UTF-8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.clients.foreign import ForeignRecord, Headers, ReaderError, count, in_order
from tests.support.kafka.java import run_tool

if TYPE_CHECKING:
    from pathlib import Path

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
    """A batch as it lies in a segment; `codec` in Kafka's spelling, `is_valid` by its CRC."""

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
    """All segments of a partition's folder as DumpLogSegments prints them, records included."""
    files = ",".join(str(path) for path in sorted(partition_dir.glob("*.log")))
    if not files:
        raise ReaderError(f"no segments in {partition_dir}")
    return run_tool(_DUMP, "--print-data-log", "--files", files).decode()


def dumped_batches(printed: str) -> list[DumpedBatch]:
    """The batches in what `dump` returned, in log order."""
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
    """The records in what `dump` returned; it names header keys only, so header values are None."""
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
    """Cut key and value out of ` key: K payload: V`; sizes are bytes of UTF-8, -1 for null."""
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
