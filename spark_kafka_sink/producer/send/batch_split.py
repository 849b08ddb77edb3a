"""Split a batch that is too large for a broker, and rebuild batches from single records.

The pieces keep the batch's sequences: they contain the same records, so batches sent later remain
valid. Splits are rare, so records may be processed one by one here.

Source: ``ProducerBatch.split``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.kafka.records import record_decoder, record_encoder
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.compression import compress
from spark_kafka_sink.kafka.records.header_lists import HEADER_LISTS
from spark_kafka_sink.kafka.records.record_batch import NO_SEQUENCE, BatchHeader
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.buffer.batch_layout import BatchLimits, lay_out

if TYPE_CHECKING:
    from spark_kafka_sink.config.enums import Codec
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
    from spark_kafka_sink.kafka.records.record_decoder import Record
    from spark_kafka_sink.producer.rows import RowNumbers


def split(batch: ProducerBatch, size: int, level: int | None) -> list[ProducerBatch]:
    """Return batches of at most `size` bytes before compression, headers included.

    A larger record gets its own batch; a batch of one record cannot be split. The result has at
    least two batches if `size` is at most half of the batch (see `half`).
    """
    sequence = batch.sequence
    row_numbers = batch.row_numbers()
    whole = b"".join(batch.encode())
    header = BatchHeader.parse(whole)
    section = record_decoder.records_section(whole, header, batch.raw_size)
    columns, sizes = record_decoder.decode_rows(section, header)
    layout = lay_out(np.zeros(batch.records, np.int8), sizes, 0, lambda _: None, BatchLimits(size))
    pieces = []
    for number, (_, start, stop, *_) in enumerate(layout.segments):
        piece = closed_batch(
            batch.topic_partition,
            batch.created_at,
            columns.slice(start, stop),
            None if row_numbers is None else row_numbers.slice(start, stop),
        )
        piece.inherit_position(batch, number)
        piece.delivery.is_possibly_persisted = batch.delivery.is_possibly_persisted
        if sequence != NO_SEQUENCE:
            piece.set_sequence(batch.producer_id, batch.epoch, sequence)
            sequence = piece.next_sequence
        recompress(piece, batch.codec, level)
        pieces.append(piece)
    return pieces


def records_of(batch: ProducerBatch) -> list[Record]:
    """Return the records of a batch as objects."""
    return list(record_decoder.decode_batch(b"".join(batch.encode()), batch.raw_size))


def recompress(piece: ProducerBatch, codec: Codec, level: int | None) -> None:
    """Compress a piece with the codec of its batch, unless compression makes the piece larger."""
    if not codec:
        return
    payload = compress(codec, bytes(piece.buffers[0]), level)
    if len(payload) < piece.payload_size:
        piece.set_payload(payload, codec)


def piece_of(
    batch: ProducerBatch, records: list[Record], row_numbers: RowNumbers | None = None
) -> ProducerBatch:
    """Return an uncompressed batch of some of a batch's records, without a sequence."""
    return closed_batch(batch.topic_partition, batch.created_at, columns_of(records), row_numbers)


def closed_batch(
    topic_partition: TopicPartition,
    created_at: float,
    columns: Columns,
    row_numbers: RowNumbers | None = None,
) -> ProducerBatch:
    """Return a batch of these records that is ready to be sent; they must have timestamps."""
    stamps = columns.timestamps
    assert stamps is not None
    base = int(stamps[0])
    piece = ProducerBatch(topic_partition, created_at, base, base, is_ready=True)
    encoded = record_encoder.encode_records(
        columns, np.arange(len(columns), dtype=np.int32), stamps - base
    )
    piece.add(
        record_encoder.slice_records(encoded, 0, len(columns)),
        len(columns),
        int(stamps.max()),
        row_numbers=row_numbers,
    )
    return piece


def columns_of(records: list[Record]) -> Columns:
    """Convert records to columns."""
    return Columns(
        value=pa.array([record.value for record in records], pa.binary()),
        key=pa.array([record.key for record in records], pa.binary()),
        headers=record_encoder.encode_headers(header_lists(records)),
        timestamps=np.array([record.timestamp for record in records], np.int64),
    )


def header_lists(records: list[Record]) -> pa.ListArray[Any]:
    """Return the records' headers as a column of lists."""
    lists = pa.array([_header_structs(record) for record in records], HEADER_LISTS)
    return cast("pa.ListArray[Any]", lists)


def _header_structs(record: Record) -> list[dict[str, bytes | None]]:
    return [{"key": key.encode(), "value": value} for key, value in record.headers]
