"""More clients that read a whole topic, with the interface of `tools.support.readers`.

DumpLogSegments prints text, so it requires UTF-8 keys and values.
"""

import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaConsumer
from kafka import TopicPartition as PurePartition
from kafka.consumer.fetcher import ConsumerRecord

from tests.support.waiting import wait_until
from tools.support.java import run_tool
from tools.support.readers import ForeignRecord, Headers, ReaderError, count, in_order, ranges

_TIMEOUT_S = 60
# Format for kcat: lengths before bytes, and an end marker that no test uses in a header.
_KCAT_END = b"<end-of-record>"
_KCAT_FORMAT = f"%p %o %T %K %S\\n%k%s%h{_KCAT_END.decode()}"
_DUMP = "org.apache.kafka.tools.DumpLogSegments"
_LABELS = len(" key:  payload: ")
_BATCH = re.compile(r"^baseOffset: .*$", re.MULTILINE)
_RECORD = re.compile(
    r"^\| offset: (?P<offset>-?\d+) \w+: (?P<timestamp>-?\d+) keySize: (?P<key>-?\d+) "
    r"valueSize: (?P<value>-?\d+).*? headerKeys: \[(?P<headers>[^\]]*)\]",
    re.MULTILINE,
)


def await_count(bootstrap_servers: str, topic: str, expected: int) -> None:
    """Wait until `expected` offsets are readable.

    A write that does not wait for all replicas ends before its records are readable.
    """
    wait_until(lambda: count(bootstrap_servers, topic) >= expected)


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
        for messages in consumer.poll(timeout_ms=200, max_records=10_000).values():
            records += map(_pure_record, messages)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBatch:
    """A batch in a segment; `codec` is Kafka's name, `is_valid` the result of the CRC check."""

    base_offset: int
    count: int
    codec: str
    is_valid: bool
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    size: int


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
        raise ReaderError(f"DumpLogSegments printed {left[:80]!r} instead of {label!r}")
    return left[len(label) : len(label) + size]
