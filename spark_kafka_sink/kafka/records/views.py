"""Join columns of binary views into rows, with one Arrow cast.

The views of all columns are interleaved row by row. The cast to plain binary copies their bytes in
this order into one data buffer, at about three nanoseconds per view.

A value of up to twelve bytes is stored inline, in the two 64-bit numbers of its view: the first
contains the size and the first four bytes, the second contains the remaining bytes. `InlineView`
builds these views for all rows at once: it joins short byte strings with 64-bit shifts instead of
byte by byte. The first byte is always the least significant.

Source: the Arrow columnar format's "Variable-size Binary View Layout".
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.kafka.records.columns import binary_array, offsets_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

INLINE_SIZE = 12
"""Maximum number of bytes that a binary view stores inline."""
REGISTER_SIZE = 8
"""Maximum number of bytes that one append adds: the width of a 64-bit register."""
_BYTE_BITS = np.uint64(3)
"""Left shift that converts a number of bytes to bits."""
_SIZE_BITS = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_WHOLE = np.uint64(64)
_ZERO = np.zeros(1, np.uint64)
_TO_BINARY = pc.CastOptions.unsafe(pa.binary())
_CACHE_LINE = 64
"""Number of bytes that a processor fetches at once."""
_VIEW = np.dtype("V16")
"""A view as a single item to copy. As two numbers, it contains the size and the first bytes, and
the buffer and the offset.
"""


class ShortBytes(NamedTuple):
    """Up to eight bytes per row. Both arrays have shape (n,), or (1,) if all rows are equal."""

    bytes: NDArray[np.uint64]
    """The first byte is the least significant, and bytes beyond `size` are 0."""
    size: NDArray[np.uint64]
    largest: int
    """No size exceeds it."""


@cache
def constant_size(size: int) -> NDArray[np.uint64]:
    """Return a size that is the same in all rows, shape (1,)."""
    return np.array([size], np.uint64)


@lru_cache(maxsize=1024)
def constant_bytes(value: bytes) -> ShortBytes:
    """Return the same bytes, at most eight, for every row.

    The cache is useful for a few recurring values. Chunks with a single row have new values each
    time.
    """
    number = np.array([int.from_bytes(value, "little")], np.uint64)
    return ShortBytes(number, constant_size(len(value)), len(value))


class InlineView:
    """A column of short values, at most `INLINE_SIZE` bytes each. Sizes can differ between rows."""

    __slots__ = ("_high", "_low", "largest", "size")

    size: NDArray[np.uint64]
    """Size of each row in bytes, shape (n,), or (1,) if it is the same for all rows."""
    largest: int
    """Maximum size of a row in bytes."""

    def __init__(self, first: ShortBytes) -> None:
        self._low, self.size, self.largest = first
        self._high = _ZERO

    def fits(self, other: ShortBytes | InlineView) -> bool:
        """Return True if these bytes fit into every row."""
        return self.largest + other.largest <= INLINE_SIZE

    def append(self, short: ShortBytes) -> None:
        """Append these bytes to every row.

        Shifts by 64 or more result in 0, as do negative shifts, because they wrap around.
        """
        bits = self.size << _BYTE_BITS
        self._low = self._low | (short.bytes << bits)
        self.largest += short.largest
        if self.largest > REGISTER_SIZE:
            beyond = (short.bytes >> (_WHOLE - bits)) | (short.bytes << (bits - _WHOLE))
            self._high = self._high | beyond
        self.size = self.size + short.size

    def extend(self, view: InlineView) -> None:
        """Append the bytes of another view to every row."""
        bits = self.size << _BYTE_BITS
        self.append(ShortBytes(view._low, view.size, view.largest))
        if view.largest > REGISTER_SIZE:
            self._high = self._high | (view._high << bits)

    def where(self, mask: NDArray[np.bool_]) -> InlineView:
        """Return the bytes of the rows where the mask is True; all other rows are empty."""
        keep = mask.astype(np.uint64)
        kept = InlineView(ShortBytes(self._low * keep, self.size * keep, self.largest))
        kept._high = self._high * keep
        return kept

    def write(self, views: NDArray[np.uint64]) -> None:
        """Write the binary view of each row to `views`, shape (n, 2)."""
        np.bitwise_or(self._low << _HALF, self.size, out=views[:, 0])
        np.bitwise_or(self._low >> _HALF, self._high << _HALF, out=views[:, 1])


class Entries(NamedTuple):
    """A column with one entry per row, and the lengths of the entries, shape (n,).

    Null entries and other omitted entries have length 0.
    """

    column: pa.BinaryArray
    lengths: NDArray[np.int32]


class Constant(NamedTuple):
    """The same bytes in every row, or in the rows where `mask`, shape (n,), is True.

    Used for bytes that do not fit inline, or need a mask.
    """

    value: bytes
    mask: NDArray[np.bool_] | None = None

    def write(self, views: NDArray[np.uint64], buffer: int) -> None:
        """Write the view of each row to `views`. `buffer` is the number of the value's buffer."""
        views[:, 0] = len(self.value)
        views[:, 1] = buffer
        if self.mask is not None:
            views[:, 0] *= self.mask


def join_views(
    columns: list[InlineView | Entries | Constant],
    rows: int,
    order: NDArray[np.intp] | None = None,
    tail: bytes = b"",
) -> pa.BinaryArray:
    """Join the columns: row i of the result contains entry i of each column.

    Args:
        columns: one or more columns, each with one entry per row.
        rows: number of rows.
        order: row numbers in the order of the result; None for the order of the columns.
        tail: at most eight bytes with which the first column of every row starts. They are
            appended once after the last row, and each row starts after them.
    """
    count = len(columns)
    room = pa.allocate_buffer((rows * count + 1) * _VIEW.itemsize)
    flat = _as_views(room)
    views = flat[:-1].reshape(rows, count, 2)
    target = views
    if order is not None:
        target = _as_views(pa.allocate_buffer(rows * count * _VIEW.itemsize)).reshape(
            rows, count, 2
        )
    buffers: list[pa.Buffer] = []
    for number, column in enumerate(columns):
        if isinstance(column, InlineView):
            column.write(target[:, number])
        elif isinstance(column, Constant):
            column.write(target[:, number], len(buffers))
            buffers.append(pa.py_buffer(column.value))
        else:
            buffers += _write_views(column, target[:, number], len(buffers))
    if order is not None:
        np.take(target, order, axis=0, out=views, mode="clip")
        for column in columns:
            if isinstance(column, Entries):
                _prefetch(column.column)
    InlineView(constant_bytes(tail)).write(flat[-1:])
    array = pa.Array.from_buffers(pa.binary_view(), len(flat), [None, room, *buffers])
    joined = cast("pa.BinaryArray", pc.call_function("cast", [array], _TO_BINARY))
    offsets = offsets_of(joined)[: rows * count + 1 : count or 1] + np.int32(len(tail))
    return binary_array(offsets, joined.buffers()[2] or pa.py_buffer(b""))


def _as_views(room: pa.Buffer) -> NDArray[np.uint64]:
    """Return an Arrow buffer, whose memory Arrow reuses, as views of shape (count, 2)."""
    return np.frombuffer(memoryview(room), np.uint64).reshape(-1, 2)


def _prefetch(column: pa.BinaryArray) -> None:
    """Load a column's bytes into the processor's cache, from first to last.

    Reading the rows in a different order then does not wait for main memory, or a shared cache, for
    every row. This halves the time of the cast.
    """
    data = column.buffers()[2]
    if data is not None:
        first, last = offsets_of(column)[[0, -1]].tolist()
        np.frombuffer(memoryview(data), np.uint8)[first:last:_CACHE_LINE].max(initial=0)


def _write_views(entries: Entries, views: NDArray[np.uint64], first: int) -> list[pa.Buffer]:
    """Write a view of each entry of a column to `views`, shape (n, 2), and return the buffers.

    `first` is the number of the first buffer. If the length of a view is 0, only the length is
    read.
    """
    column, lengths = entries
    data = column.buffers()[2]
    if data is None or not len(lengths) or _has_short(lengths):
        return _write_mixed_views(entries, views, first)
    views[:, 0] = lengths
    views[:, 1] = offsets_of(column)[:-1]
    views[:, 1] <<= _HALF
    if first:
        views[:, 1] |= np.uint64(first)
    return [data]


def _has_short(lengths: NDArray[np.int32]) -> bool:
    """Return True if any entry is short enough to be inline, but not empty."""
    if lengths.min() > INLINE_SIZE:
        return False
    return bool(((lengths > 0) & (lengths <= INLINE_SIZE)).any())


def _write_mixed_views(entries: Entries, views: NDArray[np.uint64], first: int) -> list[pa.Buffer]:
    """Write the views of a column in which some entries are short enough to be inline."""
    column, lengths = entries
    array = pc.cast(column, pa.binary_view(), safe=False)
    _, cast_views, *data = array.buffers()
    if cast_views is None:
        return []
    whole = np.frombuffer(memoryview(cast_views), _VIEW)
    views.view(_VIEW)[:, 0] = whole[array.offset : array.offset + len(array)]
    if first and data:
        views[:, 1] += ((views[:, 0] & _SIZE_BITS) > INLINE_SIZE) * np.uint64(first)
    if len(lengths) and not lengths.min():
        views[:, 0] *= lengths > 0
    return [buffer for buffer in data if buffer is not None]
