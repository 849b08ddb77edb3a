"""Write rows of bytes, piece by piece, for all rows at once.

A `RowWriter` collects the pieces of n rows from left to right: constants, words of up to eight
bytes, columns, and the pieces of another writer for some of the rows. Short pieces are joined in
registers as soon as they are written, because keeping many temporary arrays until the end costs
more than joining them. `join` copies all pieces into one binary array.

List items are written by a separate writer with one row per item, and `grouped` converts these rows
to one row per list. `spread` inserts empty rows for nulls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.formats.encoding.varints import constant_size, long_varints, short_varints
from spark_kafka_sink.kafka.protocol.codec import write_uvarint
from spark_kafka_sink.kafka.records.columns import (
    INLINE_SIZE,
    REGISTER_SIZE,
    InlineView,
    VarintBytes,
    binary_array,
    constant_bytes,
    lengths_of,
    nullable_lengths,
    offsets_of,
)
from spark_kafka_sink.kafka.records.views import Constant, Entries, join_views

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.formats.columns.cells import Mask
    from spark_kafka_sink.formats.encoding.varints import Words

    Numbers: TypeAlias = NDArray[np.int64]
    _Piece: TypeAlias = InlineView | Entries | Constant

_KEPT_BYTES: Final = 4 << 20
_MAX_INLINE: Final = 16
"""Maximum size in bytes of a constant that is split into inline views instead of being referenced.
"""
_HALF: Final = np.uint64(32)


def _keep_heap_top() -> None:
    """Let glibc retain freed memory at the top of the heap; other allocators ignore this.

    When 128 KB there are free, glibc returns them to the system, and their pages must be faulted in
    again for the next batch, which takes a third of the encoding time. Once a larger block has been
    freed, glibc retains up to twice that block's size (``mallopt(3)``, M_TRIM_THRESHOLD).
    """
    np.empty(_KEPT_BYTES, np.uint8)


_keep_heap_top()


class RowWriter:
    """The pieces of n rows, from left to right."""

    __slots__ = ("_constant", "_pieces", "rows")

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._pieces: list[_Piece] = []
        self._constant = b""

    def constant(self, value: bytes) -> None:
        """Append the same bytes to every row."""
        self._constant += value

    def word(self, word: VarintBytes) -> None:
        """Append up to eight bytes to each row."""
        self._flush()
        self._word(word)

    def fixed(self, words: Words, size: int) -> None:
        """Append `size` bytes (at most eight) of a word to each row, the lowest byte first."""
        self.word(VarintBytes(words, constant_size(size), size))

    def flags(self, mask: Mask, text: bytes, otherwise: bytes = b"") -> None:
        """Append one of two byte strings to each row; each has at most eight bytes."""
        is_any, is_all = bool(mask.any()), bool(mask.all())
        if is_all or not is_any:
            self.constant(text if is_all else otherwise)
            return
        if_true, if_false = constant_bytes(text), constant_bytes(otherwise)
        words, sizes = (
            np.where(mask, if_true.bytes, if_false.bytes),
            np.where(mask, if_true.size, if_false.size),
        )
        self.word(VarintBytes(words, sizes, max(if_true.largest, if_false.largest)))

    def varints(self, values: Words) -> None:
        """Append an unsigned varint of up to ten bytes to each row."""
        if not self.rows:
            return
        low, high = int(values.min()), int(values.max())
        if low == high:
            self.constant(write_uvarint(low))
        elif high < 1 << 7 * REGISTER_SIZE:
            self.word(short_varints(values, low, high))
        else:
            for word in long_varints(values):
                self.word(word)

    def column(self, column: pa.BinaryArray) -> None:
        """Append one entry of a column to each row, or nothing for null."""
        self._entries(column, nullable_lengths(column, 0))

    def floats(self, values: NDArray[Any]) -> None:
        """Append numbers of four or eight bytes, little-endian, to each row."""
        size = values.dtype.itemsize
        words = np.ascontiguousarray(values).view(f"u{size}").astype(np.uint64, copy=False)
        self.fixed(words, size)

    def sized(self, column: pa.BinaryArray, *, is_zigzag: bool = False) -> None:
        """Append each entry, preceded by its length as a varint."""
        lengths = nullable_lengths(column, 0)
        self.varints(lengths.astype(np.uint64) << np.uint64(is_zigzag))
        self._entries(column, lengths)

    def big_endian(self, low: Numbers, high: Numbers, sizes: Numbers) -> None:
        """Append the lowest bytes of 128-bit numbers in big-endian order.

        Args:
            low: the lower 64 bits, shape (n,).
            high: the upper 64 bits, shape (n,).
            sizes: number of bytes of each row, shape (n,), or (1,) if it is the same for all rows.
        """
        max_size = int(sizes.max(initial=0))
        for _ in range(2 * REGISTER_SIZE, max_size):
            self.flags(high < 0, b"\xff", b"\0")
        for words, beyond in ((high, REGISTER_SIZE), (low, 0)):
            if max_size <= beyond:
                continue
            size = np.clip(sizes - beyond, 0, REGISTER_SIZE).astype(np.uint64)
            shift = (np.uint64(REGISTER_SIZE) - size) << np.uint64(3)
            swapped = np.ascontiguousarray(words).view(np.uint64).byteswap()
            self.word(VarintBytes(swapped >> shift, size, min(max_size - beyond, REGISTER_SIZE)))

    def append(self, other: RowWriter, mask: Mask | None = None) -> None:
        """Append the rows of a different writer; if `mask` is set, only those where it is True."""
        if mask is None and not other._pieces:
            self.constant(other._constant)
            return
        self._flush()
        other._flush()
        for piece in other._pieces:
            self._piece(piece if mask is None else _where(piece, mask))

    def sizes(self) -> NDArray[np.int64]:
        """Return the current size of each row in bytes, shape (n,)."""
        total = np.full(self.rows, len(self._constant), np.int64)
        for piece in self._pieces:
            total += _sizes(piece)
        return total

    def join(self) -> pa.BinaryArray:
        """Return the n rows."""
        self._flush()
        if not self._pieces:
            return binary_array(np.zeros(self.rows + 1, np.int32), pa.py_buffer(b""))
        return join_views(self._pieces, self.rows)

    def _flush(self) -> None:
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
            self._word(constant_bytes(value[start : start + REGISTER_SIZE]))

    def _entries(self, column: pa.BinaryArray, lengths: NDArray[np.int32]) -> None:
        self._flush()
        longest = int(lengths.max(initial=0))
        if longest <= REGISTER_SIZE and self.rows:
            self._word(_short_entries(column, lengths, longest))
        else:
            self._pieces.append(Entries(column, lengths))

    def _word(self, word: VarintBytes) -> None:
        last = self._pieces[-1] if self._pieces else None
        if isinstance(last, InlineView) and last.fits(word):
            last.append(word)
        else:
            self._pieces.append(InlineView(word))

    def _piece(self, piece: _Piece) -> None:
        word = piece.register() if isinstance(piece, InlineView) else None
        if word is None:
            self._pieces.append(piece)
        else:
            self._word(word)


def _short_entries(column: pa.BinaryArray, lengths: NDArray[np.int32], longest: int) -> VarintBytes:
    """Return entries of up to eight bytes as words, which do not need separate views."""
    array = pc.cast(column, pa.binary_view(), safe=False)
    inline = cast("pa.Buffer", array.buffers()[1])
    views = np.frombuffer(memoryview(inline), np.uint64).reshape(-1, 2)
    views = views[array.offset : array.offset + len(array)]
    words = (views[:, 0] >> _HALF) | (views[:, 1] << _HALF)
    if column.null_count or not lengths.all():
        words *= lengths > 0
    return VarintBytes(words, lengths.astype(np.uint64), longest)


def _where(piece: _Piece, mask: Mask) -> _Piece:
    """Return a piece that is empty in the rows where the mask is False."""
    if isinstance(piece, InlineView):
        return piece.where(mask)
    if isinstance(piece, Constant):
        return Constant(piece.value, mask if piece.mask is None else mask & piece.mask)
    return Entries(piece.column, piece.lengths * mask)


def _sizes(piece: _Piece) -> NDArray[np.int64]:
    """Return the size of a piece in each row, in bytes; shape (n,) or (1,)."""
    if isinstance(piece, InlineView):
        return piece.size.view(np.int64)
    if isinstance(piece, Constant):
        count = np.ones(1, np.int64) if piece.mask is None else piece.mask.astype(np.int64)
        return count * len(piece.value)
    return piece.lengths.astype(np.int64)


def with_nulls(column: pa.BinaryArray, mask: Mask) -> pa.BinaryArray:
    """Return the column with added nulls where the mask is False, without copying its bytes."""
    if column.null_count:
        mask = mask & np.asarray(column.is_valid())
    bits = pa.py_buffer(np.packbits(mask, bitorder="little").data)
    offsets = pa.py_buffer(np.ascontiguousarray(offsets_of(column)).data)
    buffers = [bits, offsets, column.buffers()[2] or pa.py_buffer(b"")]
    return cast("pa.BinaryArray", pa.Array.from_buffers(pa.binary(), len(mask), [*buffers]))


def spread(rows: pa.BinaryArray, mask: Mask) -> pa.BinaryArray:
    """Return n rows: the m given rows where the mask (n,) is True, and empty rows elsewhere."""
    lengths = np.zeros(len(mask) + 1, np.int32)
    lengths[1:][mask] = lengths_of(rows)
    offsets = np.cumsum(lengths, dtype=np.int32)
    return binary_array(offsets + offsets_of(rows)[0], rows.buffers()[2] or pa.py_buffer(b""))


def grouped(items: pa.BinaryArray, offsets: NDArray[np.int64]) -> pa.BinaryArray:
    """Return n rows; row i contains the items offsets[i] to offsets[i + 1] - 1."""
    # The bytes of a row's items are already contiguous, so only the offsets change.
    return binary_array(offsets_of(items)[offsets], items.buffers()[2] or pa.py_buffer(b""))
