"""RecordBatches v2 written and read by Kafka's MemoryRecords."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tools.support.java import Jvm

_NO_SPACE_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRecord:
    """One record; `timestamp` in milliseconds."""

    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenBatch:
    """A batch to write or a batch that was read; `codec` in Kafka's lower-case spelling."""

    records: tuple[GoldenRecord, ...]
    codec: str = "none"
    base_offset: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False


def write_batch(jvm: Jvm, batch: GoldenBatch) -> bytes:
    """Return the bytes that Kafka's MemoryRecordsBuilder creates for `batch`."""
    internal = jvm.common.record.internal
    builder = internal.MemoryRecords.builder(
        jvm.packages.java.nio.ByteBuffer.allocate(_NO_SPACE_LIMIT),
        2,
        _compression(jvm, batch.codec),
        jvm.common.record.TimestampType.CREATE_TIME,
        batch.base_offset,
        -1,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.transactional,
        -1,
    )
    for record in batch.records:
        headers = _headers(jvm, record.headers)
        builder.append(internal.SimpleRecord(record.timestamp, record.key, record.value, headers))
    return jvm.data(builder.build().buffer())


def _compression(jvm: Jvm, codec: str) -> Any:
    kind = jvm.common.record.internal.CompressionType.forName(codec)
    return jvm.common.compress.Compression.of(kind).build()


def _headers(jvm: Jvm, headers: Sequence[tuple[str, bytes | None]]) -> Any:
    record_header = jvm.common.header.internals.RecordHeader
    record_headers = [record_header(key, value) for key, value in headers]
    return jvm.array(jvm.common.header.Header, record_headers)


def read_batches(jvm: Jvm, data: bytes) -> list[GoldenBatch]:
    """Read batches with Kafka's own classes, each validated (`ensureValid`: sizes and CRC).

    Raises:
        Py4JJavaError: Kafka refuses the bytes.
    """
    batches = jvm.common.record.internal.MemoryRecords.readableRecords(jvm.buffer(data)).batches()
    return [_read_batch(jvm, batch) for batch in _each(batches)]


def _read_batch(jvm: Jvm, batch: Any) -> GoldenBatch:
    batch.ensureValid()
    return GoldenBatch(
        records=tuple(_read_record(jvm, record) for record in _each(batch)),
        codec=batch.compressionType().toString(),
        base_offset=batch.baseOffset(),
        producer_id=batch.producerId(),
        producer_epoch=batch.producerEpoch(),
        base_sequence=batch.baseSequence(),
        transactional=batch.isTransactional(),
    )


def _read_record(jvm: Jvm, record: Any) -> GoldenRecord:
    record.ensureValid()
    headers = list(record.headers())
    return GoldenRecord(
        timestamp=record.timestamp(),
        key=jvm.nullable(record.key()),
        value=jvm.nullable(record.value()),
        headers=tuple((header.key(), _bytes(header.value())) for header in headers),
    )


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _each(iterable: Any) -> list[Any]:
    items, iterator = [], iterable.iterator()
    while iterator.hasNext():
        items.append(iterator.next())
    return items
