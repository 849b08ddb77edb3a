"""Append values that formats encode in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.kafka.records.varint import zigzag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.formats.columns.cells import Cells
    from spark_kafka_sink.kafka.records.row_writer import RowWriter


def write_nothing(_cells: Cells, _out: RowWriter) -> None:
    """Append nothing, because the column has no values."""


def write_boolean(cells: Cells, out: RowWriter) -> None:
    """Append booleans as one byte."""
    out.append_either(cells.numbers(), b"\1", b"\0")


def write_float(float_type: type[Any], path: str, cells: Cells, out: RowWriter) -> None:
    """Append numbers as little-endian floating-point numbers of a type's width.

    Integers that would be rounded are errors.
    """
    values = cells.numbers()
    numbers = values.astype(float_type, copy=False)
    if values.dtype.kind == "i":
        with np.errstate(invalid="ignore"):
            is_rounded = numbers.astype(values.dtype) != values
        # Some processors convert numbers beyond the range back to the highest integer.
        is_rounded |= numbers >= -float(np.iinfo(values.dtype).min)
        cells.fail(is_rounded, path, f"is a number that a {8 * numbers.itemsize}-bit float rounds")
    out.append_floats(numbers)


def write_bytes(
    text_path: str | None, cells: Cells, out: RowWriter, *, is_zigzag: bool = False
) -> None:
    """Append each value, preceded by its length. With `text_path`, the values must be UTF-8."""
    column = cells.binary_values() if text_path is None else cells.utf8_values(text_path)
    out.append_sized(column, is_zigzag=is_zigzag)


def write_symbol(
    numbers: Mapping[str, int], path: str, cells: Cells, out: RowWriter, *, is_zigzag: bool
) -> None:
    """Append the number of each enum symbol. Unknown symbols are errors."""
    names = pa.array([symbol.encode() for symbol in numbers], pa.binary())
    indices: Any = pc.index_in(cells.binary_values(), value_set=names)
    cells.fail(np.asarray(indices.is_null()), path, "is not in the enum")
    values = np.array([*numbers.values(), 0], np.int64).take(np.asarray(indices.fill_null(0)))
    out.append_varints(zigzag(values) if is_zigzag else values.view(np.uint64))
