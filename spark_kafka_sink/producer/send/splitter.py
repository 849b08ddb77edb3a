"""Taking a batch apart that a broker finds too large, or some of whose records it refuses.

The pieces keep the batch's sequences: together they number the same records, so what was sent
after it stays valid. Source: ``ProducerBatch.split``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.producer.append.planner import BatchLimits, plan
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.records.column_decoder import RecordTails, read_tails
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.compression import compress
from spark_kafka_sink.records.decoder import Record, read_records, records_section
from spark_kafka_sink.records.encoder import (
    encode_headers,
    encode_records,
    reencode_records,
    slice_records,
)
from spark_kafka_sink.records.record_batch import NO_SEQUENCE, BatchHeader

if TYPE_CHECKING:
    from spark_kafka_sink.client.topic_partition import TopicPartition
    from spark_kafka_sink.config.enums import Codec
    from spark_kafka_sink.producer.rows import RowNumbers

HEADER_TYPE = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


def split(batch: ProducerBatch, size: int, level: int | None) -> list[ProducerBatch]:
    """Batches of at most `size` bytes before compression, headers included.

    A record that is larger has a batch of its own; a batch of one record can't be split. There are
    two at least where `size` is no more than `half` of the whole.
    """
    codec, sequence = batch.codec, batch.sequence
    whole = b"".join(bytes(part) for part in batch.encode())
    found = read_tails(records_section(whole, BatchHeader.parse(whole)), batch.records)
    limits = BatchLimits(size)
    targets = np.zeros(batch.records, np.int8)
    layout = plan(targets, found.sizes, 0, lambda _: None, limits)
    rows = batch.row_numbers()
    pieces = [_part(batch, found, each.start, each.stop, rows) for each in layout.segments]
    for number, piece in enumerate(pieces):
        piece.label, piece.order = (*batch.label, number), (*batch.order, number)
        piece.ambiguous = batch.ambiguous
        if sequence != NO_SEQUENCE:
            piece.number(batch.producer_id, batch.epoch, sequence)
            sequence = piece.next_sequence
        recompress(piece, codec, level)
    return pieces


def _part(
    batch: ProducerBatch, found: RecordTails, start: int, stop: int, rows: RowNumbers | None
) -> ProducerBatch:
    """The records start..stop of a batch as one of their own."""
    deltas = found.time_deltas[start:stop]
    first, last = int(deltas[0]), int(deltas.max())
    base = batch.base_timestamp + first
    piece = ProducerBatch(batch.partition, batch.created, base, base, ready=True)
    encoded = reencode_records(found.tails.slice(start, stop - start), deltas - first)
    section = slice_records(encoded, 0, stop - start)
    numbers = None if rows is None else rows.slice(start, stop)
    piece.add(section, stop - start, batch.base_timestamp + last, rows=numbers)
    return piece


def records_of(batch: ProducerBatch) -> list[Record]:
    """The records of a batch, one by one."""
    return list(read_records(b"".join(bytes(part) for part in batch.encode())))


def recompress(piece: ProducerBatch, codec: Codec, level: int | None) -> None:
    """Compress a piece as its batch was, unless that makes it larger."""
    if not codec:
        return
    payload = compress(codec, bytes(piece.parts[0]), level)
    if len(payload) < piece.held:
        piece.hold([payload])
        piece.codec = codec


def piece_of(batch: ProducerBatch, records: list[Record]) -> ProducerBatch:
    """A batch of some of a batch's records, uncompressed and not numbered."""
    return closed_batch(batch.partition, batch.created, columns_of(records))


def closed_batch(partition: TopicPartition, created: float, columns: Columns) -> ProducerBatch:
    """A batch of these rows, which have timestamps; ready to be sent."""
    stamps = columns.timestamps
    assert stamps is not None
    base = int(stamps[0])
    piece = ProducerBatch(partition, created, base, base, ready=True)
    encoded = encode_records(columns, np.arange(len(columns), dtype=np.int32), stamps - base)
    piece.add(slice_records(encoded, 0, len(columns)), len(columns), int(stamps.max()))
    return piece


def columns_of(records: list[Record]) -> Columns:
    """Records as columns again."""
    return Columns(
        value=pa.array([record.value for record in records], pa.binary()),
        key=pa.array([record.key for record in records], pa.binary()),
        headers=encode_headers(header_lists(records)),
        timestamps=np.array([record.timestamp for record in records], np.int64),
    )


def header_lists(records: list[Record]) -> pa.ListArray[Any]:
    """The records' headers as a column of lists."""
    lists = pa.array([_headers(record) for record in records], HEADER_TYPE)
    return cast("pa.ListArray[Any]", lists)


def _headers(record: Record) -> list[dict[str, bytes | None]]:
    return [{"key": key.encode(), "value": value} for key, value in record.headers]
