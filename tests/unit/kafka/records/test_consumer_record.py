"""Records of a log as a consumer reads them."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.consumer_record import ConsumerRecords, read_committed
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker, encode_control_batch
from spark_kafka_sink.kafka.records.header_lists import HEADER_LISTS
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.kafka.records.record_encoder import (
    encode_headers,
    encode_records,
    slice_records,
)
from tools.support.transactions import batch

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
YEAR_10000 = 253_402_300_800_000


def marker(base: int, producer: int, *, commit: bool) -> bytes:
    data = encode_control_batch(
        EndTransactionMarker(producer_id=producer, epoch=1, is_commit=commit), 1
    )
    return base.to_bytes(8, "big") + data[8:]


LOG = [
    batch((b"a",), base=0, producer=1),
    batch((b"b",), base=1, producer=2),
    batch((b"c",), base=2),
    marker(3, 2, commit=False),
    marker(4, 1, commit=True),
    batch((b"d",), base=5),
    batch((b"e",), base=6, producer=3),
]


def test_aborted_rows_and_rows_after_an_open_transaction_are_omitted() -> None:
    committed = list(read_committed("t", 3, LOG, 6))
    assert [(record.offset, record.value) for record in committed] == [
        (0, b"a"),
        (2, b"c"),
        (5, b"d"),
    ]
    assert {(record.topic, record.partition) for record in committed} == {("t", 3)}


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b"", ""),
        ("é".encode(), "é"),
        ("é".encode("latin-1"), "\ufffd"),
        (b"a\xff\xfeb", "a\ufffd\ufffdb"),
        (b"cut\xe2\x82", "cut\ufffd"),
    ],
)
def test_header_keys_of_other_writers_need_not_be_utf_8(raw: bytes, key: str) -> None:
    lists = cast("Any", pa.array([[{"key": raw, "value": None}]], HEADER_LISTS))
    columns = Columns(value=pa.array([b"v"], pa.binary()), headers=encode_headers(lists))
    records = slice_records(encode_records(columns, np.zeros(1, np.int32)), 0, 1)
    data = BatchHeader(record_count=1).pack([records]) + records
    table = ConsumerRecords(read_committed("t", 0, [data], 1)).to_arrow()
    assert table.column("headers").to_pylist() == [[{"key": key, "value": None}]]


def test_records_are_a_table() -> None:
    table = ConsumerRecords(read_committed("t", 0, LOG, 6)).to_arrow()
    assert table.column("value").to_pylist() == [b"a", b"c", b"d"]
    assert table.column("headers").null_count == 3
    assert ConsumerRecords().to_arrow().schema == table.schema


@pytest.mark.parametrize(
    "time_ms", [-(2**63), -62_135_596_800_001, -1, 0, 1_700_000_000_123, YEAR_10000, 2**63 - 1]
)
def test_every_timestamp_is_read(time_ms: int) -> None:
    header = BatchHeader.parse(LOG[2])._replace(base_timestamp=time_ms, max_timestamp=time_ms)
    records = ConsumerRecords(read_committed("t", 0, [header.pack([LOG[2][61:]]) + LOG[2][61:]], 9))
    assert records.to_arrow().column("timestamp").cast(pa.int64()).to_pylist() == [time_ms]
    moment = records[0].timestamp
    is_datetime = -62_135_596_800_000 <= time_ms < YEAR_10000
    assert isinstance(moment, datetime) == is_datetime
    assert moment == (EPOCH + timedelta(milliseconds=time_ms) if is_datetime else time_ms)
