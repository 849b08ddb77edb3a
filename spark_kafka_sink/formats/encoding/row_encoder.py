"""Encode structs as rows, with a function for each column that handles its nulls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from spark_kafka_sink.formats.columns.cells import Cells
from spark_kafka_sink.kafka.records.columns import add_nulls
from spark_kafka_sink.kafka.records.row_writer import RowWriter, insert_empty_rows

if TYPE_CHECKING:
    from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
    from spark_kafka_sink.kafka.records.varint import Numbers


_RETAINED_BYTES = 4 << 20
CellWriter: TypeAlias = Callable[[Cells, RowWriter], None]
"""Appends the value of each cell of one column, or of one level of a nested column, in one format.
Cells of structs, lists and maps must not be null. For other null cells, any bytes can be appended.
"""


@cache
def _retain_freed_memory() -> None:
    """Make glibc retain freed memory at the top of the heap, once per process.

    Other allocators ignore this.

    When 128 KB there are free, glibc returns them to the system, and their pages must be faulted in
    again for the next batch, which takes a third of the encoding time. Once a larger block has been
    freed, glibc retains up to twice that block's size (``mallopt(3)``, M_TRIM_THRESHOLD).
    """
    np.empty(_RETAINED_BYTES, np.uint8)


def write_valid(write_cells: CellWriter, cells: Cells, out: RowWriter, before: bytes = b"") -> None:
    """Append `before` and the value of each cell that is not null, and nothing for null cells."""
    valid = cells.valid_mask()
    if valid is None:
        out.append_constant(before)
        write_cells(cells, out)
    elif pa.types.is_nested(cells.array.type):
        inner = RowWriter(int(valid.sum()))
        inner.append_constant(before)
        write_cells(cells.without_nulls(), inner)
        out.append_column(insert_empty_rows(inner.join(), valid))
    elif valid.any():
        inner = RowWriter(len(cells))
        inner.append_constant(before)
        write_cells(cells, inner)
        out.append_rows(inner, valid)


def encode_items(write_item: CellWriter, cells: Cells) -> tuple[Numbers, RowWriter]:
    """Encode items of lists or entries of maps; return their n + 1 offsets and their rows."""
    offsets, items = cells.items()
    rows = RowWriter(len(items))
    write_item(items, rows)
    return offsets, rows


def write_entry(
    write_key: CellWriter, write_value: CellWriter, entries: Cells, out: RowWriter
) -> None:
    """Append the key and the value of each entry of a map."""
    write_key(entries.field(0), out)
    write_value(entries.field(1), out)


def write_required(
    write_cells: CellWriter, path: str, cells: Cells, out: RowWriter, before: bytes = b""
) -> None:
    """Do the same as `write_valid`, but record null cells as errors."""
    cells.fail_nulls(path)
    write_valid(write_cells, cells, out, before)


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """Encodes structs of one Arrow type."""

    root: CellWriter
    prefix: bytes
    is_single: bool = False
    """True to encode the only field of the structs instead of the structs."""

    def __post_init__(self) -> None:
        _retain_freed_memory()

    def encode(self, values: pa.StructArray, errors: EncodingErrors) -> pa.BinaryArray:
        """Return n rows, which are the bytes after the prefix, or null for a null value.

        Rows that do not fit the schema are added to `errors`; their bytes are undefined.

        Args:
            values: n structs of the type for which the encoder was compiled; can be a slice.
            errors: collects the errors of these n rows.
        """
        cells = Cells(values, errors)
        if self.is_single:
            cells = cells.field(0)
        valid, cells = cells.valid_mask(), cells.without_nulls()
        out = RowWriter(len(cells))
        out.append_constant(self.prefix)
        self.root(cells, out)
        rows = out.join()
        return rows if valid is None else add_nulls(insert_empty_rows(rows, valid), valid)
