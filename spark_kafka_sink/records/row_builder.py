"""Rows of bytes built from columns: fields side by side as binary views, one cast for them all.

Short fields, such as varints, share views that hold their bytes inline; views of a column's entries
point into the column. Casting the views to plain binary copies every view of every row, one behind
the other, at some three nanoseconds each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.records.binary_columns import (
    binary_array,
    lengths_of,
    nullable_lengths,
    offsets_of,
)
from spark_kafka_sink.records.inline_views import (
    INLINE_SIZE,
    REGISTER_SIZE,
    InlineView,
    VarintBytes,
    constant_bytes,
)
from spark_kafka_sink.records.varint import build_varints, varint, varint_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

NULL = varint(-1)
"""The length of a key or value that is null."""
_SIZE_BITS = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_LONG = 1 << 30
"""Initial value of a minimum: larger than any entry's length."""
_VIEW = np.dtype("V16")
"""A view as one thing to copy; as two numbers it is size and first bytes, buffer and offset."""


class RowBuilder:
    """The fields of every row from left to right; neighbouring constants become one field."""

    __slots__ = ("_constant", "_fields", "_rows", "_size", "_sizes")

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._fields: list[VarintBytes | pa.BinaryArray] = []
        self._constant = b""
        self._size = 0
        self._sizes = np.zeros(1, np.int32)

    @property
    def sizes(self) -> NDArray[np.int32]:
        """Bytes of each row so far; shape (n,), or (1,) if all rows have the same."""
        return self._sizes + np.int32(self._size)

    def constant(self, value: bytes) -> None:
        """The same bytes in every row."""
        self._constant += value
        self._size += len(value)

    def column(self, column: pa.BinaryArray, sizes: NDArray[np.int32] | None = None) -> None:
        """One entry of a column; `sizes` are its lengths, for a column with nulls."""
        self._end_constant()
        self._fields.append(column)
        self._add_sizes(lengths_of(column) if sizes is None else sizes)

    def varints(self, values: NDArray[np.int32] | NDArray[np.int64], room: int = 0) -> None:
        """A zig-zag varint per row, which counts as `room` bytes at least when views are shared.

        So the layout stays the same where values grow with the number of rows.
        """
        encoded = varint_bytes(values, room)
        if encoded is None:
            self.column(build_varints(values))
            return
        self._end_constant()
        self._fields.append(encoded)
        self._add_sizes(encoded.size.astype(np.int32))

    def nullable(self, column: pa.BinaryArray | None) -> None:
        """A key or a value: its length, -1 for null, and its bytes."""
        if column is None:
            self.constant(NULL)
            return
        lengths = nullable_lengths(column)
        self.varints(lengths)
        self.column(column, np.maximum(lengths, 0) if column.null_count else lengths)

    def join(
        self, front: RowBuilder | None = None, order: NDArray[np.intp] | None = None
    ) -> pa.BinaryArray:
        """The rows in `order`, each with the fields of `front` before its own.

        A constant that ends the rows, of at most eight bytes, stands before the fields of the row
        after it instead, where it shares a view with them; the last row's is a view of its own.
        """
        tail, self._constant = self._constant, b""
        fields = [constant_bytes(tail), *(front.fields() if front else ()), *self._fields]
        return _joined(_share_views(fields), self._rows, order, tail)

    def fields(self) -> list[VarintBytes | pa.BinaryArray]:
        """The fields so far."""
        self._end_constant()
        return self._fields

    def _add_sizes(self, sizes: NDArray[np.int32]) -> None:
        self._sizes = self._sizes + sizes

    def _end_constant(self) -> None:
        value, self._constant = self._constant, b""
        for start in range(0, len(value), REGISTER_SIZE):
            self._fields.append(constant_bytes(value[start : start + REGISTER_SIZE]))


def _share_views(
    fields: list[VarintBytes | pa.BinaryArray],
) -> list[InlineView | pa.BinaryArray]:
    """The fields, with as many short neighbours as fit put together into one inline view."""
    columns: list[InlineView | pa.BinaryArray] = []
    for field in fields:
        if not isinstance(field, VarintBytes):
            columns.append(field)
            continue
        last = columns[-1] if columns else None
        if isinstance(last, InlineView) and last.fits(field):
            last.append(field)
        else:
            columns.append(InlineView(field))
    return columns


def _joined(
    columns: list[InlineView | pa.BinaryArray],
    rows: int,
    order: NDArray[np.intp] | None,
    tail: bytes,
) -> pa.BinaryArray:
    """Row i is entry i of all columns, one behind the other, from the end of `tail` on."""
    count = len(columns)
    flat = _new_views(rows * count + 1)
    views = flat[:-1].reshape(rows, count, 2)
    target = views if order is None else _new_views(rows * count).reshape(rows, count, 2)
    buffers: list[pa.Buffer] = []
    for number, column in enumerate(columns):
        if isinstance(column, InlineView):
            column.write(target[:, number])
        else:
            buffers += _point(column, target[:, number], len(buffers))
    if order is not None:
        np.take(target, order, axis=0, out=views, mode="clip")
    InlineView(constant_bytes(tail)).write(flat[-1:])
    whole = [None, pa.py_buffer(flat.data), *buffers]
    array = pa.Array.from_buffers(pa.binary_view(), len(flat), whole)
    joined = cast("pa.BinaryArray", pc.cast(array, pa.binary(), safe=False))
    offsets = offsets_of(joined)[: rows * count + 1 : count or 1] + np.int32(len(tail))
    return binary_array(offsets, joined.buffers()[2] or pa.py_buffer(b""))


def _new_views(count: int) -> NDArray[np.uint64]:
    """Room for views, shape (count, 2), in Arrow's memory: it keeps its pages."""
    room = pa.allocate_buffer(count * _VIEW.itemsize)
    return np.frombuffer(memoryview(room), np.uint64).reshape(count, 2)


def _point(column: pa.BinaryArray, views: NDArray[np.uint64], first: int) -> list[pa.Buffer]:
    """Write a view of each entry of a column, shape (n, 2); its buffers begin at number `first`."""
    lengths, data = lengths_of(column), column.buffers()[2]
    if data is not None and not column.null_count and lengths.min(initial=_LONG) > INLINE_SIZE:
        views[:, 0] = lengths
        views[:, 1] = offsets_of(column)[:-1]
        views[:, 1] <<= _HALF
        views[:, 1] |= np.uint64(first)
        return [data]
    return _point_some(column, views, first)


def _point_some(column: pa.BinaryArray, views: NDArray[np.uint64], first: int) -> list[pa.Buffer]:
    """The same where entries are null, or short enough for their views to hold them."""
    array = pc.cast(column, pa.binary_view(), safe=False)
    _, entries, *data = array.buffers()
    if entries is None:
        return []
    whole = np.frombuffer(memoryview(entries), _VIEW)
    views.view(_VIEW)[:, 0] = whole[array.offset : array.offset + len(array)]
    if first and data:
        views[:, 1] += ((views[:, 0] & _SIZE_BITS) > INLINE_SIZE) * np.uint64(first)
    if column.null_count:
        views[np.asarray(column.is_null())] = 0
    return [buffer for buffer in data if buffer is not None]
