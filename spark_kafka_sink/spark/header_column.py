"""The header column: lists of key and value, and rows whose keys can't be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.producer.dead_letter import without_null_keys
from spark_kafka_sink.producer.row_errors import RowError
from spark_kafka_sink.spark.bytes_column import read_bytes

if TYPE_CHECKING:
    from spark_kafka_sink.spark.row_checks import RowChecks


def read_headers(column: pa.ListArray[Any], checks: RowChecks) -> pa.ListArray[Any] | None:
    """The headers of n rows in `HEADER_LISTS`' shape, None when no row has any.

    A key that is null or not UTF-8 is an error of its row; it becomes one that can be written, as
    the row may be a dead letter.
    """
    if column.null_count == len(column):
        return None
    entries = column.flatten()
    keys = read_bytes(pc.struct_field(entries, 0))
    null = keys.is_null() if keys.null_count else None
    if null is not None:
        checks.found(
            _rows_with(column, null),
            RowError.NULL_HEADER_KEY,
            "a header without a key in",
            "every entry of `headers` needs a key; drop entries whose key is null",
        )
    text = _as_text(keys)
    if text is None:
        text, wrong = _repaired(keys)
        checks.found(
            _rows_with(column, wrong),
            RowError.INVALID_HEADER_KEY,
            "a header key that is not UTF-8 in",
            "header keys are text; put other bytes into the header's value",
        )
    values = read_bytes(pc.struct_field(entries, 1))
    lists = _lists(column, pa.StructArray.from_arrays([text, values], names=["key", "value"]))
    return lists if null is None else without_null_keys(lists)


def _rows_with(column: pa.ListArray[Any], entries: pa.Array[Any]) -> Any:
    """The rows of these entries, in order, each once."""
    return np.unique(np.asarray(pc.list_parent_indices(column).filter(entries)).astype(np.intp))


def _as_text(keys: pa.BinaryArray) -> pa.BinaryArray | None:
    """The keys if all of them are UTF-8, which Arrow's cast to string checks."""
    try:
        keys.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    return keys


def _repaired(keys: pa.BinaryArray) -> tuple[pa.BinaryArray, pa.Array[Any]]:
    """Keys with U+FFFD where they were not UTF-8, as Java's decoder does; and which those are."""
    encoded = keys.dictionary_encode()
    raw = cast("list[bytes]", encoded.dictionary.to_pylist())
    good = [each.decode(errors="replace").encode() for each in raw]
    wrong = pa.array([one != other for one, other in zip(raw, good, strict=True)], pa.bool_())
    repaired = pa.array(good, pa.binary()).take(encoded.indices)
    return repaired, wrong.take(encoded.indices).fill_null(False)


def _lists(column: pa.ListArray[Any], entries: pa.StructArray) -> pa.ListArray[Any]:
    """Lists as long as the column's with other entries; null ones stay null."""
    lengths = np.asarray(pc.list_value_length(column).fill_null(0))
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries, mask=mask)
