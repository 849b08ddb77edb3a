"""Taking a batch apart that a broker finds too large; rare, so it may be slow.

The pieces keep the batch's sequences: together they number the same records, so what was sent
after it stays valid. Source: ``ProducerBatch.split``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.producer.batch import ProducerBatch
from spark_kafka_sink.records.batch import NO_SEQUENCE
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.compression import compress
from spark_kafka_sink.records.decoder import Record, read_records
from spark_kafka_sink.records.encoder import encode_headers, frame, records_section

if TYPE_CHECKING:
    from spark_kafka_sink.base.config import Codec

HEADER_TYPE = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


def split(batch: ProducerBatch, codec: Codec, level: int | None) -> list[ProducerBatch]:
    """Two batches with half of the records each; a batch of one record can't be split."""
    records = list(read_records(b"".join(bytes(part) for part in batch.encode())))
    half = len(records) // 2
    pieces = [_piece(batch, records[:half]), _piece(batch, records[half:])]
    sequence = batch.sequence
    for number, piece in enumerate(pieces):
        piece.order = (*batch.order, number)
        piece.ambiguous = batch.ambiguous
        if sequence != NO_SEQUENCE:
            piece.number(batch.producer_id, batch.epoch, sequence)
            sequence = piece.next_sequence
        if codec:
            piece.parts = [compress(codec, bytes(piece.parts[0]), level)]
            piece.codec = codec
    return pieces


def _piece(batch: ProducerBatch, records: list[Record]) -> ProducerBatch:
    base = records[0].timestamp
    piece = ProducerBatch(batch.partition, batch.created, base, base, ready=True)
    stamps = np.array([record.timestamp for record in records], np.int64)
    columns = Columns(
        value=pa.array([record.value for record in records], pa.binary()),
        key=pa.array([record.key for record in records], pa.binary()),
        headers=encode_headers(
            cast(
                "pa.ListArray[Any]",
                pa.array([_headers(record) for record in records], HEADER_TYPE),
            )
        ),
    )
    framed = frame(columns, np.arange(len(records), dtype=np.int32), stamps - base)
    piece.add(records_section(framed, 0, len(records)), len(records), int(stamps.max()))
    return piece


def _headers(record: Record) -> list[dict[str, bytes | None]]:
    return [{"key": key.encode(), "value": value} for key, value in record.headers]
