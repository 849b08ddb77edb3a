"""Reading a segment's file from its beginning to the last batch that is whole."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.storage.log_storage import BatchFacts
from spark_kafka_sink.records.record_batch import HEADER_SIZE, MAGIC, BatchHeader, checksum

if TYPE_CHECKING:
    from spark_kafka_sink.broker.storage.disk_segment import DiskSegment
    from spark_kafka_sink.broker.storage.log_storage import OnBatch


def scan(segment: DiskSegment, on_batch: OnBatch, *, trusted: bool) -> bool:
    """Fill the table of a segment with the batches that are whole; its file is not changed.

    A segment that was closed in good order is `trusted`: its checksums are not computed.

    Returns:
        Whether the whole file was good; a torn batch is what a crash leaves.
    """
    size = segment.path.stat().st_size
    if size:
        with segment.path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as m:
            _scan(memoryview(m), segment, on_batch, trusted=trusted)
    return segment.table.size == size


def _scan(data: memoryview, segment: DiskSegment, on_batch: OnBatch, *, trusted: bool) -> None:
    at, expected = 0, segment.base_offset
    with data:
        while len(data) - at >= HEADER_SIZE:
            header = BatchHeader.parse(data, at)
            if not _fits(header, len(data) - at, expected):
                return
            with data[at : at + header.size] as batch:
                if not trusted and checksum(batch) != header.crc:
                    return
                on_batch(header, batch)
            segment.recall(_facts(header))
            at += header.size
            expected = header.last_offset + 1


def _fits(header: BatchHeader, left: int, expected: int) -> bool:
    return (
        header.magic == MAGIC
        and HEADER_SIZE <= header.size <= left
        and header.base_offset >= expected
        and header.last_offset_delta >= 0
    )


def _facts(header: BatchHeader) -> BatchFacts:
    return BatchFacts(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        max_timestamp=header.max_timestamp,
        size=header.size,
    )
