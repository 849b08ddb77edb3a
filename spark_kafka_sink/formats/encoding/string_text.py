"""Write strings and bytes as JSON strings, for all rows at once."""

from __future__ import annotations

import base64
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.formats.columns.cells import values_of
from spark_kafka_sink.formats.encoding.row_writer import RowWriter
from spark_kafka_sink.kafka.records.columns import VarintBytes, binary_array, nullable_lengths

_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **{ord(char): f"\\{name}" for char, name in zip("\b\f\n\r\t", "bfnrt", strict=True)},
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}
"""Escape sequence of each byte that JSON does not allow in a string."""


def escaped(column: pa.BinaryArray) -> pa.BinaryArray:
    """Return strings with JSON's escapes. Only strings that need escapes are copied."""
    raw = values_of(column)
    must_escape = (raw < 0x20) | (raw == ord('"')) | (raw == ord("\\"))
    if not must_escape.any():
        return column
    codes = np.unique(raw[must_escape]).tolist()
    plain: Any = column
    # The backslash comes first, because the other escape sequences contain a backslash.
    for code in sorted(codes, key=lambda code: code != ord("\\")):
        plain = pc.replace_substring(plain, bytes([code]), _ESCAPES[code].encode())
    return cast("pa.BinaryArray", plain)


def base64_column(column: pa.BinaryArray) -> pa.BinaryArray:
    """Return each value in base64, or an empty value for null.

    All values are padded to multiples of three bytes and encoded at once; then the padding is
    corrected.
    """
    lengths = nullable_lengths(column, 0).astype(np.int64)
    groups = -(-lengths // 3)
    writer = RowWriter(len(column))
    writer.column(column)
    missing = (groups * 3 - lengths).view(np.uint64)
    writer.word(VarintBytes(np.zeros(1, np.uint64), missing, 2))
    padded = memoryview(writer.join().buffers()[2] or b"")[: int(groups.sum()) * 3]
    encoded = np.frombuffer(bytearray(base64.b64encode(padded)), np.uint8)
    ends = np.cumsum(groups * 4)
    for count in (1, 2):
        encoded[ends[missing >= count] - count] = ord("=")
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return binary_array(offsets, encoded)
