"""Golden batches written by the columnar encoder and read by the decoder."""

from typing import Any, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.records import record_encoder
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.compression import compress
from spark_kafka_sink.kafka.records.record_batch import BatchHeader, checksum
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from tests.golden.jvm_records import GoldenBatch, GoldenRecord

_TRANSACTIONAL = 0x10
_HEADER_LIST = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


def write_ours(batch: GoldenBatch, level: int | None = None) -> bytes:
    """Return the batch as the package's encoder writes it."""
    section = compress(Codec[batch.codec.upper()], records_section(batch), level)
    stamps = [record.timestamp for record in batch.records]
    transactional = _TRANSACTIONAL if batch.transactional else 0
    header = BatchHeader(
        base_offset=batch.base_offset,
        attributes=Codec[batch.codec.upper()] | transactional,
        last_offset_delta=len(batch.records) - 1,
        base_timestamp=stamps[0],
        max_timestamp=max(stamps),
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=len(batch.records),
    )
    return header.pack([section]) + section


def records_section(batch: GoldenBatch) -> bytes:
    """Return the uncompressed records of a batch, cut from the framed column."""
    stamps = np.array([record.timestamp for record in batch.records], np.int64)
    encoded = record_encoder.encode_records(
        columns(batch), np.arange(len(stamps), dtype=np.int32), stamps - stamps[0]
    )
    return bytes(record_encoder.slice_records(encoded, 0, len(encoded)))


def columns(batch: GoldenBatch) -> Columns:
    """Return the records as Arrow columns, without unused columns, like Spark's."""
    keys = [record.key for record in batch.records]
    headers = [_header_rows(record) for record in batch.records]
    return Columns(
        value=pa.array([record.value for record in batch.records], pa.binary()),
        key=pa.array(keys, pa.binary()) if any(key is not None for key in keys) else None,
        headers=_encoded(headers) if any(headers) else None,
    )


def _encoded(headers: list[list[dict[str, bytes | None]]]) -> pa.BinaryArray:
    lists = cast("pa.ListArray[Any]", pa.array(headers, _HEADER_LIST))
    return record_encoder.encode_headers(lists)


def _header_rows(record: GoldenRecord) -> list[dict[str, bytes | None]]:
    return [{"key": key.encode(), "value": value} for key, value in record.headers]


def read_ours(data: bytes) -> GoldenBatch:
    """Read a batch with the package's decoder and verify its checksum."""
    header = BatchHeader.parse(data)
    assert header.crc == checksum(data)
    assert header.size == len(data)
    records = list(decode_batch(data))
    offsets = range(header.base_offset, header.base_offset + len(records))
    assert [record.offset for record in records] == list(offsets)
    return GoldenBatch(
        records=tuple(
            GoldenRecord(
                timestamp=record.timestamp,
                key=record.key,
                value=record.value,
                headers=record.headers,
            )
            for record in records
        ),
        codec=header.codec.name.lower(),
        base_offset=header.base_offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
