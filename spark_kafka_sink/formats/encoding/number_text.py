"""Format integers and decimals as text, for all rows at once.

Digits are looked up four at a time. Text of more than eight bytes is written as several words.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.formats.columns.decimal_cells import DecimalCells
from spark_kafka_sink.kafka.records.row_writer import RowWriter
from spark_kafka_sink.kafka.records.views import REGISTER_SIZE, ShortBytes

if TYPE_CHECKING:
    from spark_kafka_sink.formats.columns.cells import Cells, Mask
    from spark_kafka_sink.kafka.records.varint import Numbers, Words


_GROUP = 8
"""Number of digits in a word."""
_BASE = np.uint64(10**_GROUP)
_HALF = np.uint64(10**4)
_BYTE_BITS = np.uint64(3)
_WHOLE = np.uint64(REGISTER_SIZE)
_LONG_DIGITS = 18
"""Maximum number of digits for which decimals use the fast path."""


def write_integers(out: RowWriter, values: Numbers) -> None:
    """Append signed integers."""
    write_sign(out, values < 0)
    write_digits(out, magnitudes(values))


def write_sign(out: RowWriter, negative: Mask) -> None:
    """Append a minus sign in the rows where the mask is True."""
    if negative.any():
        out.append_either(negative, b"-")


def magnitudes(values: Numbers) -> Words:
    """Return absolute values. The result is also correct for the smallest integer."""
    sign = values >> 63
    return ((values ^ sign) - sign).view(np.uint64)


def write_digits(out: RowWriter, values: Words) -> None:
    """Append unsigned integers, without leading zeros."""
    if not len(values):
        return
    low, high = int(values.min()), int(values.max())
    write_last_digits(out, values, _digit_counts(values, low, high), len(str(high)))


def write_last_digits(out: RowWriter, values: Words, sizes: Numbers, max_digits: int) -> None:
    """Append the last digits of numbers below 10**max_digits, in groups of eight.

    `sizes` is the number of digits in each row.
    """
    groups = [values]
    for _ in range((max_digits - 1) // _GROUP):
        above = groups[-1] // _BASE
        groups[-1:] = [groups[-1] - above * _BASE, above]
    for number, group in reversed([*enumerate(groups)]):
        below = number * _GROUP
        digits = np.clip(sizes - below, 0, _GROUP).view(np.uint64)
        out.append_short(_last_digits(group, digits, min(max_digits - below, _GROUP)))


def _last_digits(values: Words, sizes: Words, largest: int) -> ShortBytes:
    """Return the last digits of numbers of up to eight digits."""
    table = four_digits()
    if largest <= 4:
        four = table.take(values.view(np.int64))
        return ShortBytes(four >> ((np.uint64(4) - sizes) << _BYTE_BITS), sizes, largest)
    first = values // _HALF
    second = values - first * _HALF
    digits = table.take(first.view(np.int64)) | (table.take(second.view(np.int64)) << np.uint64(32))
    return ShortBytes(digits >> ((_WHOLE - sizes) << _BYTE_BITS), sizes, largest)


@cache
def four_digits() -> Words:
    """Return the four digits of the numbers 0 to 9999, each in the lower half of a word."""
    text = np.array([b"%04d" % number for number in range(10_000)], "S4")
    return text.view(np.uint32).astype(np.uint64)


def _digit_counts(values: Words, low: int, high: int) -> Numbers:
    """Return the number of digits in each value; shape (1,) if it is the same for all values."""
    min_digits, max_digits = len(str(low)), len(str(high))
    counts = np.full(1 if min_digits == max_digits else len(values), min_digits, np.int64)
    for digits in range(min_digits, max_digits):
        counts += values >= np.uint64(10**digits)
    return counts


def write_decimals(scale: int, cells: Cells, out: RowWriter) -> None:
    """Append 128-bit decimals without an exponent.

    `scale` is their number of fraction digits; if it is negative, that of zeros after the digits.
    """
    decimals = DecimalCells.of(cells)
    _write_scaled(out, decimals, max(scale, 0))
    if scale < 0:
        zeros = RowWriter(len(cells))
        zeros.append_constant(b"0" * -scale)
        out.append_rows(zeros, (decimals.low | decimals.high) != 0)


def _write_scaled(out: RowWriter, decimals: DecimalCells, scale: int) -> None:
    low, high = decimals.low, decimals.high
    if scale <= _LONG_DIGITS and np.array_equal(low >> 63, high):
        write_sign(out, low < 0)
        values = magnitudes(low)
        whole = values // np.uint64(10**scale)
        write_digits(out, whole)
        if scale:
            out.append_constant(b".")
            fraction = values - whole * np.uint64(10**scale)
            write_last_digits(out, fraction, np.array([scale]), scale)
    else:
        _write_long_decimals(out, decimals, scale)


def _write_long_decimals(out: RowWriter, decimals: DecimalCells, scale: int) -> None:
    """Append decimals of more than 64 bits, whose digits Arrow formats."""
    digits = pc.cast(decimals.whole_decimals(), pa.string())
    write_sign(out, decimals.high < 0)
    plain = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), max(scale + 1, 1), "0")
    before = pc.utf8_slice_codeunits(plain, 0, -scale) if scale else plain
    out.append_column(before.cast(pa.binary()))
    if scale:
        out.append_constant(b".")
        out.append_column(pc.utf8_slice_codeunits(plain, -scale).cast(pa.binary()))
