"""Record batches out of stream entries, as a consumer fetches them.

The records come from the partition's stream, and what a batch knows besides (producer, sequence,
leader epoch, transaction) from its header, which lies in a second stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from spark_kafka_sink.broker.redis.entries import read_columns
from spark_kafka_sink.records.encoder import encode_records, slice_records
from spark_kafka_sink.records.record_batch import HEADER_SIZE, BatchHeader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_kafka_sink.broker.redis.connection import RedisValue
    from spark_kafka_sink.broker.redis.entry_ids import EntryIds

_HEADER = b"header"
_BYTES = b"bytes"
_RECORDS = b"records"
_CODEC_BITS = 0x07


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNote:
    """What the second stream says of a batch, one entry each, with the id of its first record.

    Args:
        header: its header, with offsets and leader epoch stamped.
        size: bytes of the batch, not compressed.
        records: the records of a control batch, which has no entries; None of others.
    """

    header: BatchHeader
    size: int
    records: bytes | None = None

    @classmethod
    def of(cls, header: BatchHeader, section: memoryview) -> Self:
        """Note a batch with these records, not compressed."""
        return cls(
            header=header,
            size=HEADER_SIZE + len(section),
            records=bytes(section) if header.is_control else None,
        )

    @classmethod
    def read(cls, fields: list[bytes]) -> Self:
        """Read the fields of its entry.

        Raises:
            ValueError: they are not a batch's.
        """
        found = dict(zip(fields[::2], fields[1::2], strict=True))
        if len(found.get(_HEADER, b"")) != HEADER_SIZE:
            raise ValueError("a note without a batch header")
        header = BatchHeader.parse(found[_HEADER])
        return cls(header=header, size=int(found[_BYTES]), records=found.get(_RECORDS))

    def fields(self, stamped: bytes | bytearray | memoryview) -> list[RedisValue]:
        """The fields of its entry; `stamped` is the header as bytes."""
        fields: list[RedisValue] = [_HEADER, bytes(stamped[:HEADER_SIZE]), _BYTES, self.size]
        return fields if self.records is None else [*fields, _RECORDS, self.records]

    def batch(self, records: memoryview | bytes, count: int) -> memoryview:
        """The batch with these records; their times count from `base_timestamp`."""
        header = self.header._replace(
            attributes=self.header.attributes & ~_CODEC_BITS,
            base_timestamp=self.base_timestamp,
            record_count=count,
        )
        return memoryview(header.pack([records]) + bytes(records))

    @property
    def base_timestamp(self) -> int:
        """What the records' timestamps are counted from, in milliseconds."""
        header = self.header
        return header.max_timestamp if header.is_log_append_time else header.base_timestamp


def build_batches(
    notes: Sequence[BatchNote], entries: Sequence[Any], ids: EntryIds
) -> list[memoryview]:
    """One batch per note, with the entries in its range; entries outside all notes are ignored.

    Args:
        notes: batches in order.
        entries: [id, fields] each, in order.
        ids: how ids and offsets correspond.

    Raises:
        ValueError: an id or a timestamp is not as this broker writes them.
    """
    sections = _sections([note for note in notes if note.records is None], entries, ids)
    return [
        note.batch(*next(sections))
        if note.records is None
        else note.batch(note.records, note.header.record_count)
        for note in notes
    ]


def _sections(
    notes: Sequence[BatchNote], entries: Sequence[Any], ids: EntryIds
) -> Iterator[tuple[memoryview | bytes, int]]:
    """The records of each batch, and how many there are; all are encoded together."""
    offsets = np.fromiter((ids.read(one[0]) for one in entries), np.int64, len(entries))
    bases = np.array([note.header.base_offset for note in notes], np.int64)
    lasts = np.array([note.header.last_offset for note in notes], np.int64)
    owners = np.searchsorted(bases, offsets, "right") - 1
    kept = np.flatnonzero((owners >= 0) & (offsets <= lasts.take(owners, mode="clip")))
    if not len(kept):
        yield from ((b"", 0) for _ in notes)
        return
    owners = owners[kept]
    columns = read_columns([entries[number][1] for number in kept.tolist()])
    times = np.array([note.base_timestamp for note in notes], np.int64)
    assert columns.timestamps is not None
    deltas = (offsets[kept] - bases[owners]).astype(np.int32)
    encoded = encode_records(columns, deltas, columns.timestamps - times[owners])
    start = 0
    for end in np.searchsorted(owners, np.arange(len(notes)), "right").tolist():
        yield slice_records(encoded, start, end), end - start
        start = end
