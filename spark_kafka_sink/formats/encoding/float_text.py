"""Format floating-point numbers as Java does, for all rows at once.

Each number has the fewest digits that identify it. Numbers from 0.001 to below 10,000,000 have no
exponent. Source: ``Double.toString`` of Java 19; earlier releases write more digits of some.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.formats.encoding.number_text import (
    four_digits,
    write_digits,
    write_integers,
    write_last_digits,
    write_sign,
)
from spark_kafka_sink.kafka.records.row_writer import RowWriter, insert_empty_rows
from spark_kafka_sink.kafka.records.views import ShortBytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from spark_kafka_sink.formats.columns.cells import Mask
    from spark_kafka_sink.kafka.records.varint import Numbers, Words

    Floats = NDArray[Any]

_FIRST_PLAIN = 1e-3
_LAST_PLAIN = 1e7
"""Numbers from the first and below the last have no exponent."""
_PLACES = (2, 4)
"""Numbers of digits after the point with which numbers are tried as decimals."""
_SAMPLE = 64
"""Number of values that decide whether decimals are tried."""
_NOT_FINITE = (b"NaN", b"Infinity", b"-Infinity")
_LOWEST_EXPONENT = -324
_POWERS = np.array([10**exponent for exponent in range(20)], np.uint64)


def write_floats(out: RowWriter, values: Floats, quote: bytes = b'"') -> None:
    """Append floating-point numbers. NaN and infinities are enclosed in `quote`."""
    magnitudes, finite = np.abs(values), np.isfinite(values)
    is_plain = (magnitudes < _LAST_PLAIN) & ((magnitudes >= _FIRST_PLAIN) | (magnitudes == 0))
    _write_some(out, values, is_plain, _write_plain)
    _write_some(out, values, finite & ~is_plain, _write_with_exponents)
    if not finite.all():
        kinds = np.where(np.isnan(values), 0, np.where(values > 0, 1, 2))
        numbers: Any = pa.array(kinds, mask=finite)
        texts = [quote + name + quote for name in _NOT_FINITE]
        out.append_column(pa.array(texts, pa.binary()).take(numbers))


def _write_some(
    out: RowWriter, values: Floats, mask: Mask, write: Callable[[RowWriter, Floats], None]
) -> None:
    """Append the values where the mask is True."""
    if mask.any() and mask.all():
        write(out, values)
    elif mask.any():
        inner = RowWriter(int(mask.sum()))
        write(inner, values[mask])
        out.append_column(insert_empty_rows(inner.join(), mask))


def _write_plain(out: RowWriter, values: Floats) -> None:
    """Append numbers without an exponent; most as decimals, which is ten times faster."""
    for digits_after_point in _PLACES if _are_short(values[:_SAMPLE]) else ():
        whole, exact = _as_unscaled(np.abs(values), digits_after_point)
        if exact.all():
            _write_decimals(out, values, whole, digits_after_point)
            return
        if exact.sum() * 2 > len(values):
            fast = RowWriter(len(values))
            _write_decimals(fast, values, np.where(exact, whole, 0), digits_after_point)
            out.append_rows(fast, exact)
            _write_some(out, values, ~exact, _write_shortest)
            return
    _write_shortest(out, values)


def _are_short(sample: Floats) -> bool:
    """Return True if at least half of the sample has few digits after the point."""
    factor = 10 ** _PLACES[-1]
    with np.errstate(over="ignore"):
        rounded = (np.rint(sample.astype(np.float64) * factor) / factor).astype(sample.dtype)
    return bool((rounded == sample).sum() * 2 >= len(sample))


def _as_unscaled(magnitudes: Floats, digits_after_point: int) -> tuple[Floats, Mask]:
    """Return numbers as decimals without their point, and a mask of those that decimals identify.

    With so few digits, no two decimals are the same number, so there is no shorter one.
    """
    with np.errstate(over="ignore"):
        whole = np.rint(magnitudes.astype(np.float64) * 10**digits_after_point)
        is_same = (whole / 10**digits_after_point).astype(magnitudes.dtype) == magnitudes
    return whole, is_same & (whole < 10 ** np.finfo(magnitudes.dtype).precision)


def _write_decimals(out: RowWriter, values: Floats, whole: Floats, digits_after_point: int) -> None:
    """Append decimals with their digits as an integer, without trailing zeros."""
    write_sign(out, np.signbit(values))
    unscaled = whole.astype(np.uint64)
    before = unscaled // np.uint64(10**digits_after_point)
    after = unscaled - before * np.uint64(10**digits_after_point)
    write_digits(out, before)
    sizes = _fraction_sizes(digits_after_point).take(after.view(np.int64))
    digits = four_digits().take(after.view(np.int64)) >> np.uint64(8 * (4 - digits_after_point))
    kept = (np.uint64(1) << (sizes << np.uint64(3))) - np.uint64(1)
    out.append_constant(b".")
    out.append_short(ShortBytes(digits & kept, sizes, digits_after_point))


@cache
def _fraction_sizes(digits_after_point: int) -> Words:
    """Return the number of digits before the trailing zeros of each fraction, at least one."""
    numbers = np.arange(10**digits_after_point)
    sizes = np.full(len(numbers), digits_after_point, np.uint64)
    for zeros in range(1, digits_after_point):
        sizes -= numbers % 10**zeros == 0
    return sizes


def _write_shortest(out: RowWriter, values: Floats) -> None:
    """Append numbers without an exponent, formatted by Arrow."""
    text: Any = pa.array(values).cast(pa.string())
    out.append_column(text.cast(pa.binary()))
    is_whole = values == np.rint(values)
    if is_whole.any():
        out.append_either(is_whole, b".0")


def _write_with_exponents(out: RowWriter, values: Floats) -> None:
    """Append numbers other than 0 as one digit, a fraction and an exponent."""
    magnitudes = np.abs(values)
    digits = _significant_digits(magnitudes)
    counts = np.searchsorted(_POWERS, digits, "right")
    power = _POWERS.take(counts - 1)
    first = digits // power
    write_sign(out, np.signbit(values))
    write_digits(out, first)
    out.append_constant(b".")
    max_digits = max(int(counts.max()) - 1, 1)
    write_last_digits(out, digits - first * power, np.maximum(counts - 1, 1), max_digits)
    out.append_constant(b"E")
    exponents: Numbers = np.searchsorted(_powers_of_type(magnitudes.dtype), magnitudes, "right")
    write_integers(out, exponents - 1 + _LOWEST_EXPONENT)


@cache
def _powers_of_type(dtype: np.dtype[Any]) -> Floats:
    """Return the powers of ten in the range of a type. Those below the range are 0."""
    highest = int(np.log10(np.finfo(dtype).max))
    return np.array(
        [float(f"1e{exponent}") for exponent in range(_LOWEST_EXPONENT, highest + 1)]
    ).astype(dtype)


def _significant_digits(magnitudes: Floats) -> Words:
    """Return the digits of numbers as integers, without trailing zeros."""
    whole, exact = _as_unscaled(magnitudes, _PLACES[0])
    digits = np.where(exact, whole, 0).astype(np.uint64)
    if not exact.all():
        text: Any = pa.array(magnitudes[~exact]).cast(pa.string())
        text = pc.replace_substring_regex(pc.replace_substring(text, ".", ""), "e.*", "")
        digits[~exact] = np.asarray(text.cast(pa.uint64()))
    for zeros in (8, 4, 2, 1):
        shorter = digits // _POWERS[zeros]
        digits = np.where(shorter * _POWERS[zeros] == digits, shorter, digits)
    return digits
