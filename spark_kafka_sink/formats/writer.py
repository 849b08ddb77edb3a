"""Write rows of bytes, piece by piece, for all rows at once.

A `RowWriter` collects the pieces of n rows from left to right: constants, words of up to eight
bytes, columns, and the pieces of another writer for some of the rows. Short pieces are joined in
registers as soon as they are written, because keeping many temporary arrays until the end costs
more than joining them. `join` copies all pieces into one binary array.

List items are written by a separate writer with one row per item, and `grouped` converts these rows
to one row per list. `spread` inserts empty rows for nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.formats.fields import Cells
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

    from spark_kafka_sink.formats.fields import Mask, RowFaults

    Words: TypeAlias = NDArray[np.uint64]
    Numbers: TypeAlias = NDArray[np.int64]
    _Piece: TypeAlias = InlineView | Entries | Constant

_KEPT_BYTES: Final = 4 << 20
# When 128 KB at the top of the heap are free, glibc returns them to the system, and their pages
# must be faulted in again for the next batch, which takes a third of the encoding time. Once a
# larger block has been freed, glibc retains up to twice that block's size (``mallopt(3)``,
# M_TRIM_THRESHOLD). Other allocators ignore this.
np.empty(_KEPT_BYTES, np.uint8)

_MOST_INLINE: Final = 16
"""Maximum size in bytes of a constant that is split into inline views instead of being referenced.
"""


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
        self.word(VarintBytes(words, _size(size), size))

    def flags(self, mask: Mask, text: bytes, otherwise: bytes = b"") -> None:
        """Append one of two byte strings to each row; each has at most eight bytes."""
        some, every = bool(mask.any()), bool(mask.all())
        if every or not some:
            self.constant(text if every else otherwise)
            return
        yes, no = constant_bytes(text), constant_bytes(otherwise)
        words, sizes = np.where(mask, yes.bytes, no.bytes), np.where(mask, yes.size, no.size)
        self.word(VarintBytes(words, sizes, max(yes.largest, no.largest)))

    def varints(self, values: Words) -> None:
        """Append an unsigned varint of up to ten bytes to each row."""
        if not self.rows:
            return
        low, high = int(values.min()), int(values.max())
        if low == high:
            self.constant(unsigned_varint(low))
        elif high < 1 << 7 * REGISTER_SIZE:
            self.word(_short_varints(values, low, high))
        else:
            for word in _long_varints(values):
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
        most = int(sizes.max(initial=0))
        for _ in range(2 * REGISTER_SIZE, most):
            self.flags(high < 0, b"\xff", b"\0")
        for words, beyond in ((high, REGISTER_SIZE), (low, 0)):
            if most <= beyond:
                continue
            size = np.clip(sizes - beyond, 0, REGISTER_SIZE).astype(np.uint64)
            shift = (np.uint64(REGISTER_SIZE) - size) << np.uint64(3)
            swapped = np.ascontiguousarray(words).view(np.uint64).byteswap()
            self.word(VarintBytes(swapped >> shift, size, min(most - beyond, REGISTER_SIZE)))

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
        if len(value) > _MOST_INLINE:
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


Node: TypeAlias = Callable[[Cells, RowWriter], None]
"""Appends the value of each cell of one column, or of one level of a nested column, in one format.
Cells of structs, lists and maps must not be null. For other null cells, any bytes can be appended.
"""


def write_valid(node: Node, cells: Cells, out: RowWriter, before: bytes = b"") -> None:
    """Append `before` and the value of each cell that is not null, and nothing for null cells."""
    valid = cells.valid()
    if valid is None:
        out.constant(before)
        node(cells, out)
    elif pa.types.is_nested(cells.array.type):
        inner = RowWriter(int(valid.sum()))
        inner.constant(before)
        node(cells.without_nulls(), inner)
        out.column(spread(inner.join(), valid))
    elif valid.any():
        inner = RowWriter(len(cells))
        inner.constant(before)
        node(cells, inner)
        out.append(inner, valid)


def write_required(
    node: Node, path: str, cells: Cells, out: RowWriter, before: bytes = b""
) -> None:
    """Do the same as `write_valid`, but record null cells as faults."""
    cells.fail_nulls(path)
    write_valid(node, cells, out, before)


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """Encodes structs of one Arrow type."""

    root: Node
    prefix: bytes
    is_single: bool = False
    """True to encode the only field of the structs instead of the structs."""

    def encode(self, values: pa.StructArray, faults: RowFaults) -> pa.BinaryArray:
        """Return n rows, which are the bytes after the prefix, or null for a null value.

        Rows that do not fit the schema are added to `faults`; their bytes are undefined.

        Args:
            values: n structs of the type for which the encoder was compiled; can be a slice.
            faults: collects the faults of these n rows.
        """
        cells = Cells(values, faults)
        if self.is_single:
            cells = cells.field(0)
        valid = cells.valid()
        out = RowWriter(len(cells))
        write_valid(self.root, cells, out, self.prefix)
        rows = out.join()
        return rows if valid is None else with_nulls(rows, valid)


def write_nothing(_cells: Cells, _out: RowWriter) -> None:
    """Append nothing, because the column has no values."""


def write_boolean(cells: Cells, out: RowWriter) -> None:
    """Append booleans as one byte."""
    out.flags(cells.numbers(), b"\1", b"\0")


def write_float(target: type[Any], path: str, cells: Cells, out: RowWriter) -> None:
    """Append numbers as little-endian floating-point numbers of the target's width.

    Integers that would be rounded are faults.
    """
    values = cells.numbers()
    numbers = values.astype(target, copy=False)
    if values.dtype.kind == "i":
        with np.errstate(invalid="ignore"):
            is_rounded = numbers.astype(values.dtype) != values
        # Some processors convert numbers beyond the range back to the highest integer.
        is_rounded |= numbers >= -float(np.iinfo(values.dtype).min)
        cells.fail(is_rounded, path, f"is a number that a {8 * numbers.itemsize}-bit float rounds")
    out.floats(numbers)


def write_bytes(
    text_path: str | None, cells: Cells, out: RowWriter, *, is_zigzag: bool = False
) -> None:
    """Append each value, preceded by its length. With `text_path`, the values must be UTF-8."""
    column = cells.strings() if text_path is None else cells.utf8(text_path)
    out.sized(column, is_zigzag=is_zigzag)


def write_symbol(
    numbers: Mapping[str, int], path: str, cells: Cells, out: RowWriter, *, is_zigzag: bool
) -> None:
    """Append the number of each enum symbol. Unknown symbols are faults."""
    names = pa.array([each.encode() for each in numbers], pa.binary())
    found: Any = pc.index_in(cells.strings(), value_set=names)
    cells.fail(np.asarray(found.is_null()), path, "is not in the enum")
    values = np.array([*numbers.values()], np.int64).take(np.asarray(found.fill_null(0)))
    out.varints(zigzag(values) if is_zigzag else values.view(np.uint64))


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


def unsigned_varint(value: int) -> bytes:
    """Return an unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def zigzag(values: NDArray[np.int64]) -> Words:
    """Return the zig-zag encoding of each number, shape (n,)."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


@cache
def _size(size: int) -> Words:
    return np.array([size], np.uint64)


_SEPTETS: Final = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x000000000FFFFFFF, 0x00FFFFFFF0000000, 4),
        (0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
        (0x007F007F007F007F, 0x3F803F803F803F80, 1),
    )
)
"""Masks and shifts that spread 56 bits over eight bytes by repeated halving."""
_STEPS: Final = ((1 << 28, 0), (1 << 14, 1), (0, 2))
"""For each limit, the first step that is needed for numbers from the limit on."""
_CONTINUES: Final = np.array(
    [0x8080808080808080 & ((1 << 8 * max(size - 1, 0)) - 1) for size in range(9)]
    + [0x8080808080808080] * 2,
    np.uint64,
)
"""Continuation bits of the first eight bytes of a varint, by its size in bytes."""
_HALF: Final = np.uint64(32)
_EIGHT: Final = np.uint64(REGISTER_SIZE)
_FIRST_BITS: Final = np.uint64((1 << 7 * REGISTER_SIZE) - 1)


def _septets(values: Words, high: int) -> Words:
    """Return numbers of up to 56 bits with seven bits per byte; `high` is the largest number."""
    first = next(step for least, step in _STEPS if high >= least)
    for low_mask, high_mask, shift in _SEPTETS[first:]:
        values = (values & low_mask) | ((values & high_mask) << shift)
    return values


def _varint_sizes(values: Words, low: int, high: int) -> Words:
    """Return the size of each varint in bytes; shape (1,) if it is the same for all."""
    least, most = len(unsigned_varint(low)), len(unsigned_varint(high))
    if least == most:
        return _size(least)
    sizes = np.full(len(values), least, np.uint64)
    for size in range(least, most):
        sizes += values >= np.uint64(1 << 7 * size)
    return sizes


def _short_varints(values: Words, low: int, high: int) -> VarintBytes:
    """Return varints of at most eight bytes."""
    sizes = _varint_sizes(values, low, high)
    if high < 1 << 7:
        return VarintBytes(values, sizes, 1)
    encoded = _septets(values, high) | _CONTINUES.take(sizes.view(np.int64))
    return VarintBytes(encoded, sizes, len(unsigned_varint(high)))


def _long_varints(values: Words) -> tuple[VarintBytes, VarintBytes]:
    """Return varints of up to ten bytes as two words; the second word of short varints is empty."""
    sizes = _varint_sizes(values, 0, (1 << 64) - 1)
    first = np.minimum(sizes, _EIGHT)
    encoded = _septets(values & _FIRST_BITS, 1 << 55) | _CONTINUES.take(sizes.view(np.int64))
    rest = values >> np.uint64(7 * REGISTER_SIZE)
    second = (rest & np.uint64(0x7F)) | ((rest >> np.uint64(7)) << np.uint64(8))
    second |= (sizes == 10).astype(np.uint64) << np.uint64(7)
    return VarintBytes(encoded, first, REGISTER_SIZE), VarintBytes(second, sizes - first, 2)
