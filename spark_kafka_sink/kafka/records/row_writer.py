"""Write rows of bytes, piece by piece, for all rows at once.

A `RowWriter` collects the pieces of n rows from left to right: constants, up to eight bytes per
row, columns, and the pieces of another writer for some of the rows. Short pieces are joined in
registers as soon as they are written, because keeping many temporary arrays until the end costs
more than joining them. `join` copies all pieces into one binary array.

List items are written by a separate writer with one row per item, and `group_items` converts these
rows to one row per list. `insert_empty_rows` inserts rows for nulls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.kafka.protocol.message_format import write_uvarint
from spark_kafka_sink.kafka.records.columns import (
    binary_array,
    lengths_of,
    nullable_lengths,
    offsets_of,
)
from spark_kafka_sink.kafka.records.varint import long_varints, short_varints, varint, zigzag
from spark_kafka_sink.kafka.records.views import (
    INLINE_SIZE,
    REGISTER_SIZE,
    Constant,
    Entries,
    InlineView,
    ShortBytes,
    constant_bytes,
    constant_size,
    join_views,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.kafka.records.varint import Integers, Numbers, Words

    Mask: TypeAlias = NDArray[np.bool_]
    _Piece: TypeAlias = InlineView | Entries | Constant

_MAX_INLINE = 16
"""Maximum size in bytes of a constant that is split into inline views instead of being referenced.
"""
_HALF = np.uint64(32)


class RowWriter:
    """Collects the pieces of n rows, from left to right."""

    __slots__ = ("_constant", "_pieces", "rows")

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._pieces: list[_Piece] = []
        self._constant = b""

    def append_constant(self, value: bytes) -> None:
        """Append the same bytes to every row."""
        self._constant += value

    def append_short(self, short: ShortBytes) -> None:
        """Append up to eight bytes to each row."""
        self._flush_constant()
        self._add_short(short)

    def append_low_bytes(self, words: Words, size: int) -> None:
        """Append `size` bytes (at most eight) of a word to each row, the lowest byte first."""
        self.append_short(ShortBytes(words, constant_size(size), size))

    def append_either(self, mask: Mask, text: bytes, otherwise: bytes = b"") -> None:
        """Append one of two byte strings to each row; each has at most eight bytes."""
        is_any, is_all = bool(mask.any()), bool(mask.all())
        if is_all or not is_any:
            self.append_constant(text if is_all else otherwise)
            return
        if_true, if_false = constant_bytes(text), constant_bytes(otherwise)
        words, sizes = (
            np.where(mask, if_true.bytes, if_false.bytes),
            np.where(mask, if_true.size, if_false.size),
        )
        self.append_short(ShortBytes(words, sizes, max(if_true.largest, if_false.largest)))

    def append_varints(self, values: Words) -> None:
        """Append an unsigned varint of up to ten bytes to each row."""
        if self.rows:
            self._add_varints(values, int(values.min()), int(values.max()))

    def append_zigzag(self, values: Integers) -> None:
        """Append a zig-zag varint of up to ten bytes to each row."""
        if not self.rows:
            return
        low, high = int(values.min()), int(values.max())
        if low == high:
            self.append_constant(varint(low))
        elif low >= 0:
            self._add_varints(
                np.left_shift(values, 1, dtype=np.int64).view(np.uint64), 2 * low, 2 * high
            )
        else:
            self._add_varints(zigzag(values), 0, max(2 * high, -2 * low - 1))

    def append_column(self, column: pa.BinaryArray) -> None:
        """Append one entry of a column to each row, or nothing for null."""
        self._add_entries(column, nullable_lengths(column, 0))

    def append_floats(self, values: NDArray[Any]) -> None:
        """Append numbers of four or eight bytes, little-endian, to each row."""
        size = values.dtype.itemsize
        words = np.ascontiguousarray(values).view(f"u{size}").astype(np.uint64, copy=False)
        self.append_low_bytes(words, size)

    def append_sized(
        self, column: pa.BinaryArray, *, is_zigzag: bool = False, null: int = 0
    ) -> None:
        """Append each entry, preceded by its length as a varint; `null` is the length of nulls."""
        lengths = nullable_lengths(column, null)
        if is_zigzag:
            self.append_zigzag(lengths)
        else:
            self.append_varints(lengths.astype(np.uint64))
        self._add_entries(column, np.maximum(lengths, 0) if null and column.null_count else lengths)

    def append_big_endian(self, low: Numbers, high: Numbers, sizes: Numbers) -> None:
        """Append the lowest bytes of 128-bit numbers in big-endian order.

        Args:
            low: the lower 64 bits, shape (n,).
            high: the upper 64 bits, shape (n,).
            sizes: number of bytes of each row, shape (n,), or (1,) if it is the same for all rows.
        """
        max_size = int(sizes.max(initial=0))
        for _ in range(2 * REGISTER_SIZE, max_size):
            self.append_either(high < 0, b"\xff", b"\0")
        for words, beyond in ((high, REGISTER_SIZE), (low, 0)):
            if max_size <= beyond:
                continue
            size = np.clip(sizes - beyond, 0, REGISTER_SIZE).astype(np.uint64)
            shift = (np.uint64(REGISTER_SIZE) - size) << np.uint64(3)
            swapped = np.ascontiguousarray(words).view(np.uint64).byteswap()
            self.append_short(
                ShortBytes(swapped >> shift, size, min(max_size - beyond, REGISTER_SIZE))
            )

    def append_rows(self, other: RowWriter, mask: Mask | None = None) -> None:
        """Append the rows of a different writer; if `mask` is set, only those where it is True.

        The other writer must not be used afterwards, because the writers share its pieces.
        """
        if mask is None and not other._pieces:
            self.append_constant(other._constant)
            return
        self._flush_constant()
        other._flush_constant()
        for piece in other._pieces:
            self._add_piece(piece if mask is None else _masked_piece(piece, mask))

    def row_sizes(self) -> NDArray[np.int64]:
        """Return the current size of each row in bytes, shape (n,)."""
        total = np.full(self.rows, len(self._constant), np.int64)
        for piece in self._pieces:
            total += _piece_sizes(piece)
        return total

    def join(self, order: NDArray[np.intp] | None = None, tail: bytes = b"") -> pa.BinaryArray:
        """Return the n rows; see `join_views`."""
        self._flush_constant()
        if not self._pieces:
            return binary_array(np.zeros(self.rows + 1, np.int32), pa.py_buffer(b""))
        return join_views(self._pieces, self.rows, order, tail)

    def _flush_constant(self) -> None:
        """Append the pending constant to the last view; use new views for what does not fit.

        Long constants end with an inline piece, to which short pieces can be appended.
        """
        value, self._constant = self._constant, b""
        if not value:
            return
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, InlineView):
            room = min(INLINE_SIZE - last.largest, REGISTER_SIZE, len(value))
            if room:
                last.append(constant_bytes(value[:room]))
                value = value[room:]
        if len(value) > _MAX_INLINE:
            self._pieces.append(Constant(value))
            return
        for start in range(0, len(value), REGISTER_SIZE):
            self._add_short(constant_bytes(value[start : start + REGISTER_SIZE]))

    def _add_entries(self, column: pa.BinaryArray, lengths: NDArray[np.int32]) -> None:
        self._flush_constant()
        longest = int(lengths.max(initial=0))
        if longest <= REGISTER_SIZE and self.rows:
            self._add_short(_short_entries(column, lengths, longest))
        else:
            self._pieces.append(Entries(column, lengths))

    def _add_varints(self, values: Words, low: int, high: int) -> None:
        """Append varints of numbers from `low` to `high`."""
        if low == high:
            self.append_constant(write_uvarint(low))
        elif high < 1 << 7 * REGISTER_SIZE:
            self.append_short(short_varints(values, low, high))
        else:
            for short in long_varints(values):
                self.append_short(short)

    def _add_short(self, short: ShortBytes) -> None:
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, InlineView) and last.fits(short):
            last.append(short)
        else:
            self._pieces.append(InlineView(short))

    def _add_piece(self, piece: _Piece) -> None:
        last = self._pieces[-1] if self._pieces else None
        if isinstance(piece, InlineView) and isinstance(last, InlineView) and last.fits(piece):
            last.extend(piece)
        else:
            self._pieces.append(piece)


def _short_entries(column: pa.BinaryArray, lengths: NDArray[np.int32], longest: int) -> ShortBytes:
    """Return entries of up to eight bytes as words, which do not need separate views."""
    array = pc.cast(column, pa.binary_view(), safe=False)
    inline = cast("pa.Buffer", array.buffers()[1])
    views = np.frombuffer(memoryview(inline), np.uint64).reshape(-1, 2)
    views = views[array.offset : array.offset + len(array)]
    words = (views[:, 0] >> _HALF) | (views[:, 1] << _HALF)
    if column.null_count or not lengths.all():
        words *= lengths > 0
    return ShortBytes(words, lengths.astype(np.uint64), longest)


def _masked_piece(piece: _Piece, mask: Mask) -> _Piece:
    """Return a piece that is empty in the rows where the mask is False."""
    if isinstance(piece, InlineView):
        return piece.where(mask)
    if isinstance(piece, Constant):
        return Constant(piece.value, mask if piece.mask is None else mask & piece.mask)
    return Entries(piece.column, piece.lengths * mask)


def _piece_sizes(piece: _Piece) -> Integers:
    """Return the size of a piece in each row, in bytes; shape (n,) or (1,)."""
    if isinstance(piece, InlineView):
        return piece.size.view(np.int64)
    if isinstance(piece, Constant):
        count = np.ones(1, np.int64) if piece.mask is None else piece.mask.astype(np.int64)
        return count * len(piece.value)
    return piece.lengths


def insert_empty_rows(rows: pa.BinaryArray, mask: Mask) -> pa.BinaryArray:
    """Return n rows: the m given rows where the mask (n,) is True, and empty rows elsewhere."""
    lengths = np.zeros(len(mask) + 1, np.int32)
    lengths[1:][mask] = lengths_of(rows)
    offsets = np.cumsum(lengths, dtype=np.int32)
    return binary_array(offsets + offsets_of(rows)[0], rows.buffers()[2] or pa.py_buffer(b""))


def group_items(items: pa.BinaryArray, offsets: NDArray[np.int64]) -> pa.BinaryArray:
    """Return n rows; row i contains the items offsets[i] to offsets[i + 1] - 1."""
    # The bytes of a row's items are already contiguous, so only the offsets change.
    return binary_array(offsets_of(items)[offsets], items.buffers()[2] or pa.py_buffer(b""))
