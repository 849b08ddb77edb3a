"""The entries of a column in a batch, at any depth.

An entry's row number is known at any depth, so that errors in nested values are reported by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.kafka.records.columns import offsets_of, read_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors

    Mask: TypeAlias = NDArray[np.bool_]
    """Shape (n,), one entry per cell."""

NOT_UTF8 = "is not valid UTF-8"
"""The problem of a text in an encoding error."""
_ASCII = 0x7F
"""The highest code of a character that takes one byte in UTF-8."""


@dataclass(frozen=True, slots=True)
class Cells:
    """n entries of a column at some depth."""

    array: pa.Array[Any]
    """The n entries; may be a slice, and may contain nulls."""
    errors: EncodingErrors
    """Collects the errors of the batch's rows."""
    rows: NDArray[np.intp] | None = None
    """The index of each entry's row in the batch, shape (n,); None if entry i is in row i."""

    def __len__(self) -> int:
        return len(self.array)

    def valid_mask(self) -> Mask | None:
        """Return a mask of the non-null entries, or None if there are no nulls."""
        if not self.array.null_count:
            return None
        return _as_mask(self.array.is_valid())

    def full_valid_mask(self) -> Mask:
        """Return a mask of the non-null entries, even if there are no nulls."""
        valid = self.valid_mask()
        return np.ones(len(self), np.bool_) if valid is None else valid

    def fail(self, bad: Mask, path: str, problem: str) -> None:
        """Record `problem` for the rows of the entries in `bad`, except null entries."""
        if bad.any():
            self.errors.add(self._batch_rows(bad & self.full_valid_mask()), path, problem)

    def fail_nulls(self, path: str) -> None:
        """Record the rows of null entries as errors."""
        valid = self.valid_mask()
        if valid is not None:
            self.errors.add(self._batch_rows(~valid), path, "is null, but must not be")

    def without_nulls(self) -> Cells:
        """Return the entries that are not null."""
        valid = self.valid_mask()
        if valid is None:
            return self
        return Cells(self.array.drop_null(), self.errors, self._batch_rows(valid))

    def where(self, mask: Mask) -> Cells:
        """Return the entries for which the mask is True."""
        return Cells(self.array.filter(pa.array(mask)), self.errors, self._batch_rows(mask))

    def without_dictionary(self) -> Cells:
        """Return the entries without dictionary encoding."""
        if isinstance(self.array, pa.DictionaryArray):
            return Cells(self.array.dictionary_decode(), self.errors, self.rows)
        return self

    def field(self, number: int) -> Cells:
        """Return a field of structs, none of which is null."""
        array = cast("pa.StructArray", self.array).field(number)
        return Cells(array, self.errors, self.rows).without_dictionary()

    def items(self) -> tuple[NDArray[np.int64], Cells]:
        """Return n + 1 offsets, starting at 0, and the items of lists or maps without nulls.

        The items of maps are structs of key and value.
        """
        array = cast("pa.ListArray[Any]", self.array)
        # The offsets of an empty slice can start at any number.
        offsets = np.asarray(array.offsets).astype(np.int64) * (len(array) > 0)
        first, last = int(offsets[0]), int(offsets[-1])
        rows = np.arange(len(array)) if self.rows is None else self.rows
        items = array.values.slice(first, last - first)
        cells = Cells(items, self.errors, np.repeat(rows, np.diff(offsets)))
        return offsets - first, cells.without_dictionary()

    def numbers(self) -> NDArray[Any]:
        """Return fixed-width values as NumPy numbers of that width, shape (n,), with 0 for null."""
        type_ = self.array.type
        if pa.types.is_boolean(type_):
            return np.asarray(self.array.fill_null(False))
        type_code = "f" if pa.types.is_floating(type_) else "i"
        dtype = np.dtype(f"{type_code}{type_.bit_width // 8}")
        numbers = self.raw_bytes(dtype.itemsize).view(dtype)[:, 0]
        valid = self.valid_mask()
        kept: NDArray[Any] = numbers if valid is None else np.where(valid, numbers, dtype.type(0))
        return kept

    def integers(self) -> NDArray[np.int64]:
        """Return integers, dates or times as int64 numbers, shape (n,), with 0 for null."""
        return self.numbers().astype(np.int64, copy=False)

    def raw_bytes(self, width: int) -> NDArray[np.uint8]:
        """Return fixed-width values as their bytes, shape (n, width)."""
        buffer = self.array.buffers()[1]
        if buffer is None or not len(self.array):
            return np.zeros((len(self.array), width), np.uint8)
        whole = np.frombuffer(memoryview(buffer), np.uint8)
        start = self.array.offset * width
        return whole[start : start + len(self.array) * width].reshape(-1, width)

    def binary_values(self) -> pa.BinaryArray:
        """Return strings or binary values as binary with 32-bit offsets. Nulls stay null."""
        return read_bytes(self.array)

    def utf8_values(self, path: str) -> pa.BinaryArray:
        """Return strings as binary. Strings that are not UTF-8 are errors."""
        column = self.binary_values()
        if bytes_of(column).max(initial=0) > _ASCII:
            bad = np.zeros(len(column), np.bool_)
            _mark_invalid(column, bad)
            self.fail(bad, path, NOT_UTF8)
        return column

    def _batch_rows(self, mask: Mask) -> NDArray[np.intp]:
        numbers = np.flatnonzero(mask)
        return numbers if self.rows is None else self.rows[numbers]


def bytes_of(column: pa.BinaryArray) -> NDArray[np.uint8]:
    """Return the bytes of all rows, excluding rows outside a slice."""
    data = column.buffers()[2]
    if data is None or not len(column):
        return np.zeros(0, np.uint8)
    first, last = offsets_of(column)[[0, -1]].tolist()
    return np.frombuffer(memoryview(data), np.uint8)[first:last]


def _as_mask(array: Any) -> Mask:
    return np.asarray(array)


def _mark_invalid(column: pa.BinaryArray, bad: Mask) -> None:
    """Set `bad` for values that are not UTF-8.

    A column with such values is halved recursively to find them.
    """
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        if len(column) == 1:
            bad[0] = True
            return
        half = len(column) // 2
        _mark_invalid(column.slice(0, half), bad[:half])
        _mark_invalid(column.slice(half), bad[half:])
