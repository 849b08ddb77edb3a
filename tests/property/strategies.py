"""Messages, and unusual Arrow columns that contain them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.header_lists import HEADER_LISTS
from spark_kafka_sink.kafka.records.record_encoder import encode_headers
from tests.support.reference import Header, Message

JUNK = b"hidden bytes that must never reach the wire"
JUNK_HEADERS = [{"key": b"hidden", "value": JUNK}, {"key": b"", "value": None}]

_sizes = st.one_of(st.integers(0, 40), st.sampled_from([62, 63, 64, 65, 126, 127, 128, 8191, 8192]))
contents = st.one_of(
    st.binary(max_size=12),
    st.builds(lambda size, fill: bytes([fill]) * size, _sizes, st.integers(0, 255)),
)
nullable = st.none() | contents
_header_keys = st.text(max_size=6).map(str.encode)
headers = st.lists(st.tuples(_header_keys, nullable), max_size=4).map(tuple)
timestamps = st.one_of(
    st.integers(-(2**62), 2**62 - 1),
    st.integers(-70, 70),
    st.integers(1_600_000_000_000, 1_800_000_000_000),
)
messages = st.builds(
    Message, value=nullable, key=nullable, headers=st.just(()) | headers, timestamp=timestamps
)


@dataclass(frozen=True)
class Shape:
    """How the columns are built: no choice may change the written records."""

    rows_before: int
    rows_after: int
    hide_under_nulls: bool
    key_column: bool
    null_lists: bool


shapes = st.builds(
    Shape,
    rows_before=st.integers(0, 9),
    rows_after=st.integers(0, 9),
    hide_under_nulls=st.booleans(),
    key_column=st.booleans(),
    null_lists=st.booleans(),
)


def columns(batch: Sequence[Message], shape: Shape, *, stamped: bool = True) -> Columns:
    """Return the messages as columns that are slices of longer arrays."""
    keys = [message.key for message in batch]
    keyless = not shape.key_column and not any(key is not None for key in keys)
    stamps = np.array([message.timestamp for message in batch], np.int64)
    return Columns(
        value=binary([message.value for message in batch], shape),
        key=None if keyless else binary(keys, shape),
        headers=_headers([message.headers for message in batch], shape),
        timestamps=stamps if stamped else None,
    )


def binary(values: Sequence[bytes | None], shape: Shape) -> pa.BinaryArray:
    """Create a binary column of the requested shape."""
    around = [JUNK] * shape.rows_before, [JUNK] * shape.rows_after
    padded = [*around[0], *values, *around[1]]
    if shape.hide_under_nulls:
        whole = pa.array([JUNK if value is None else value for value in padded], pa.binary())
        valid = pa.array([value is not None for value in padded], pa.bool_())
        buffers = [valid.buffers()[1], *whole.buffers()[1:]]
        column = pa.BinaryArray.from_buffers(pa.binary(), len(padded), buffers)
    else:
        column = pa.array(padded, pa.binary())
    return cast("pa.BinaryArray", column.slice(shape.rows_before, len(values)))


def header_lists(rows: Sequence[tuple[Header, ...]], shape: Shape) -> pa.ListArray[Any]:
    """Create header lists before encoding; a row without headers may be a null list."""
    lists = [[{"key": key, "value": value} for key, value in row] for row in rows]
    padded = [JUNK_HEADERS] * shape.rows_before + lists + [JUNK_HEADERS] * shape.rows_after
    null = [shape.null_lists and not row for row in padded]
    if shape.hide_under_nulls:
        whole = pa.array(
            [JUNK_HEADERS if n else row for n, row in zip(null, padded, strict=True)], HEADER_LISTS
        )
        valid = pa.array([not n for n in null], pa.bool_())
        column = pa.ListArray.from_buffers(
            HEADER_LISTS,
            len(padded),
            [valid.buffers()[1], whole.buffers()[1]],
            children=[cast("pa.ListArray[Any]", whole).values],
        )
    else:
        entries = [None if n else row for n, row in zip(null, padded, strict=True)]
        column = pa.array(entries, HEADER_LISTS)
    return cast("pa.ListArray[Any]", column.slice(shape.rows_before, len(rows)))


def _headers(rows: Sequence[tuple[Header, ...]], shape: Shape) -> pa.BinaryArray | None:
    if not any(rows) and not shape.null_lists:
        return None
    return encode_headers(header_lists(rows, shape))
