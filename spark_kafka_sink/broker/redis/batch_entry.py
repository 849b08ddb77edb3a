"""A batch's entry in Redis Streams, and the batches that consumers get from the entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from spark_kafka_sink.broker.redis.entries import EntryIds, read_record_columns
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE, BatchHeader
from spark_kafka_sink.kafka.records.record_encoder import encode_records, slice_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_kafka_sink.broker.redis.connection import RedisValue

_HEADER = b"header"
_BYTES = b"bytes"
_RECORDS = b"records"
_CODEC_BITS = 0x07


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """An entry of the second stream, which represents a batch."""

    header: BatchHeader
    """The batch header, with offsets and leader epoch set."""
    size: int
    """Uncompressed size of the batch in bytes."""
    records: bytes | None = None
    """The records of a control batch, because they have no entries; None for data batches."""

    @classmethod
    def of(cls, header: BatchHeader, section: memoryview) -> Self:
        """Return the entry for a batch header. `section` contains the uncompressed records."""
        return cls(
            header=header,
            size=HEADER_SIZE + len(section),
            records=bytes(section) if header.is_control else None,
        )

    @classmethod
    def read(cls, fields: list[bytes]) -> Self:
        """Parse the fields of an entry.

        Raises:
            ValueError: the fields do not describe a batch.
        """
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        if len(values.get(_HEADER, b"")) != HEADER_SIZE:
            raise ValueError("the entry has no batch header")
        header = BatchHeader.parse(values[_HEADER])
        return cls(header=header, size=int(values[_BYTES]), records=values.get(_RECORDS))

    def fields(self, stamped: bytes | bytearray | memoryview) -> list[RedisValue]:
        """Return the fields of the entry. `stamped` starts with the bytes of the header."""
        fields: list[RedisValue] = [_HEADER, bytes(stamped[:HEADER_SIZE]), _BYTES, self.size]
        return fields if self.records is None else [*fields, _RECORDS, self.records]

    def batch(self, records: memoryview | bytes, count: int) -> memoryview:
        """Return the batch. Timestamps in `records` are relative to `base_timestamp`."""
        header = self.header._replace(
            attributes=self.header.attributes & ~_CODEC_BITS,
            base_timestamp=self.base_timestamp,
            record_count=count,
        )
        return memoryview(header.pack([records]) + bytes(records))

    @property
    def base_timestamp(self) -> int:
        """The timestamp in milliseconds to which record timestamps are relative."""
        header = self.header
        return header.max_timestamp if header.is_log_append_time else header.base_timestamp


def build_batches(
    batch_entries: Sequence[BatchEntry], entries: Sequence[Any], ids: EntryIds
) -> list[memoryview]:
    """Return one batch per batch entry. Records outside of all batches are ignored.

    Args:
        batch_entries: batch entries in offset order.
        entries: record entries as [id, fields], in offset order.
        ids: the mapping between offsets and entry ids.

    Raises:
        ValueError: an id or a timestamp is not in this broker's format.
    """
    sections = _record_sections(
        [batch_entry for batch_entry in batch_entries if batch_entry.records is None], entries, ids
    )
    return [
        batch_entry.batch(*next(sections))
        if batch_entry.records is None
        else batch_entry.batch(batch_entry.records, batch_entry.header.record_count)
        for batch_entry in batch_entries
    ]


def _record_sections(
    batch_entries: Sequence[BatchEntry], entries: Sequence[Any], ids: EntryIds
) -> Iterator[tuple[memoryview | bytes, int]]:
    """Yield the records and the record count of each batch. All batches are encoded together."""
    offsets = np.fromiter((ids.read(entry[0]) for entry in entries), np.int64, len(entries))
    bases = np.array([batch_entry.header.base_offset for batch_entry in batch_entries], np.int64)
    lasts = np.array([batch_entry.header.last_offset for batch_entry in batch_entries], np.int64)
    owners = np.searchsorted(bases, offsets, "right") - 1
    kept = np.flatnonzero((owners >= 0) & (offsets <= lasts.take(owners, mode="clip")))
    if not len(kept):
        yield from ((b"", 0) for _ in batch_entries)
        return
    owners = owners[kept]
    columns = read_record_columns([entries[number][1] for number in kept.tolist()])
    times = np.array([batch_entry.base_timestamp for batch_entry in batch_entries], np.int64)
    assert columns.timestamps is not None
    deltas = (offsets[kept] - bases[owners]).astype(np.int32)
    encoded = encode_records(columns, deltas, columns.timestamps - times[owners])
    start = 0
    for end in np.searchsorted(owners, np.arange(len(batch_entries)), "right").tolist():
        yield slice_records(encoded, start, end), end - start
        start = end
