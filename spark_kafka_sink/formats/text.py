"""Format numbers, dates and times as text, for all rows at once.

Digits are looked up four at a time; dates, times of day and fractions are looked up in tables of
texts. Text of more than eight bytes is written as several words.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.formats.fields import values_of
from spark_kafka_sink.formats.writer import RowWriter, spread
from spark_kafka_sink.kafka.records.columns import (
    REGISTER_SIZE,
    VarintBytes,
    binary_array,
    nullable_lengths,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.formats.fields import Mask
    from spark_kafka_sink.formats.writer import Words

    Numbers: TypeAlias = NDArray[np.int64]

_GROUP: Final = 8
"""Number of digits in a word."""
_BASE: Final = np.uint64(10**_GROUP)
_HALF: Final = np.uint64(10**4)
_BYTE_BITS: Final = np.uint64(3)
_WHOLE: Final = np.uint64(REGISTER_SIZE)


def write_integers(out: RowWriter, values: Numbers) -> None:
    """Append signed integers."""
    write_sign(out, values < 0)
    write_digits(out, magnitudes(values))


def write_sign(out: RowWriter, negative: Mask) -> None:
    """Append a minus sign in the rows where the mask is True."""
    if negative.any():
        out.flags(negative, b"-")


def magnitudes(values: Numbers) -> Words:
    """Return absolute values. The result is also correct for the smallest integer."""
    sign = values >> 63
    return ((values ^ sign) - sign).view(np.uint64)


def write_digits(out: RowWriter, values: Words) -> None:
    """Append unsigned integers, without leading zeros."""
    if not len(values):
        return
    low, high = int(values.min()), int(values.max())
    _write_last_digits(out, values, _digit_counts(values, low, high), len(str(high)))


def _write_last_digits(out: RowWriter, values: Words, sizes: Numbers, most: int) -> None:
    """Append the last digits of numbers below 10**most, in groups of eight.

    `sizes` is the number of digits in each row.
    """
    groups = [values]
    for _ in range((most - 1) // _GROUP):
        above = groups[-1] // _BASE
        groups[-1:] = [groups[-1] - above * _BASE, above]
    for number, group in reversed([*enumerate(groups)]):
        below = number * _GROUP
        wanted = np.clip(sizes - below, 0, _GROUP).view(np.uint64)
        out.word(_last_digits(group, wanted, min(most - below, _GROUP)))


def _last_digits(values: Words, sizes: Words, largest: int) -> VarintBytes:
    """Return the last digits of numbers of up to eight digits."""
    table = _four_digits()
    if largest <= 4:
        four = table.take(values.view(np.int64))
        return VarintBytes(four >> ((np.uint64(4) - sizes) << _BYTE_BITS), sizes, largest)
    first = values // _HALF
    second = values - first * _HALF
    digits = table.take(first.view(np.int64)) | (table.take(second.view(np.int64)) << np.uint64(32))
    return VarintBytes(digits >> ((_WHOLE - sizes) << _BYTE_BITS), sizes, largest)


@cache
def _four_digits() -> Words:
    """Return the four digits of the numbers 0 to 9999, each in the lower half of a word."""
    text = np.array([b"%04d" % number for number in range(10_000)], "S4")
    return text.view(np.uint32).astype(np.uint64)


def _digit_counts(values: Words, low: int, high: int) -> Numbers:
    """Return the number of digits in each value; shape (1,) if it is the same for all values."""
    least, most = len(str(low)), len(str(high))
    counts = np.full(1 if least == most else len(values), least, np.int64)
    for digits in range(least, most):
        counts += values >= np.uint64(10**digits)
    return counts


_PLACES: Final = (2, 4)
"""Numbers of digits after the point with which floating-point numbers are tried as decimals."""
_SAMPLE: Final = 64
"""Number of values that decide whether decimals are tried."""
_EXACT: Final = float(1 << 53)


def write_floats(out: RowWriter, values: NDArray[Any]) -> None:
    """Append floating-point numbers as JSON: the fewest digits that identify each number.

    Numbers with few digits after the point are written as decimals. All other numbers are written
    by Arrow's cast, which is ten times slower. Whole numbers end with ".0"; NaN and infinities are
    strings.
    """
    for places in _PLACES if _are_short(values[:_SAMPLE]) else ():
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = np.abs(values.astype(np.float64)) * 10**places
            whole = np.rint(scaled)
            exact = ((whole / 10**places).astype(values.dtype) == np.abs(values)) & (whole < _EXACT)
        if exact.all():
            _write_decimals(out, values, whole, places)
            return
        if exact.sum() * 2 > len(values):
            fast, slow = RowWriter(len(values)), RowWriter(int((~exact).sum()))
            _write_decimals(fast, values, np.where(exact, whole, 0), places)
            _write_shortest(slow, values[~exact])
            out.append(fast, exact)
            out.column(spread(slow.join(), ~exact))
            return
    _write_shortest(out, values)


def _are_short(sample: NDArray[Any]) -> bool:
    """Return True if at least half of the sample has few digits after the point."""
    factor = 10 ** _PLACES[-1]
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = (np.rint(sample.astype(np.float64) * factor) / factor).astype(sample.dtype)
    return bool((rounded == sample).sum() * 2 >= len(sample))


def _write_decimals(
    out: RowWriter, values: NDArray[Any], whole: NDArray[np.float64], places: int
) -> None:
    """Append decimals with unscaled values below 2**53, without trailing zeros."""
    write_sign(out, np.signbit(values))
    unscaled = whole.astype(np.uint64)
    before = unscaled // np.uint64(10**places)
    after = unscaled - before * np.uint64(10**places)
    write_digits(out, before)
    sizes = _significant(places).take(after.view(np.int64))
    digits = _four_digits().take(after.view(np.int64)) >> np.uint64(8 * (4 - places))
    kept = (np.uint64(1) << (sizes << _BYTE_BITS)) - np.uint64(1)
    out.constant(b".")
    out.word(VarintBytes(digits & kept, sizes, places))


@cache
def _significant(places: int) -> Words:
    """Return the number of digits before the trailing zeros of each fraction, at least one."""
    numbers = np.arange(10**places)
    sizes = np.full(len(numbers), places, np.uint64)
    for zeros in range(1, places):
        sizes -= numbers % 10**zeros == 0
    return sizes


def _write_shortest(out: RowWriter, values: NDArray[Any]) -> None:
    """Append any floating-point numbers."""
    finite = np.isfinite(values)
    text: Any = pa.array(values, mask=~finite).cast(pa.string())
    out.column(text.cast(pa.binary()))
    if (values == np.rint(values)).any():
        is_whole = pc.invert(pc.match_substring_regex(text, "[.e]"))
        out.flags(np.asarray(is_whole.fill_null(False)), b".0")
    if not finite.all():
        kinds = np.where(np.isnan(values), 0, np.where(values > 0, 1, 2))
        numbers: Any = pa.array(kinds, mask=finite)
        out.column(pa.array(_NOT_FINITE, pa.binary()).take(numbers))


_NOT_FINITE: Final = (b'"NaN"', b'"Infinity"', b'"-Infinity"')
DAY_US: Final = 86_400_000_000
_FIRST_DAY: Final = -25567
"""First day in the table: 1900-01-01, in days since 1970."""
_LAST_DAY: Final = 65744
"""Last day in the table: 2150-01-01, in days since 1970."""


def write_dates(out: RowWriter, days: Numbers, end: bytes = b"") -> None:
    """Append dates as YYYY-MM-DD.

    Args:
        out: receives the text.
        days: days since 1970.
        end: written after each date; at most one byte.
    """
    if not len(days):
        return
    if int(days.min()) < _FIRST_DAY or int(days.max()) >= _LAST_DAY:
        _write_any_dates(out, days)
        out.constant(end)
        return
    months, last = _dates()
    row = days - _FIRST_DAY
    out.fixed(months.take(row), 8)
    bits = np.uint64(int.from_bytes(b"\0\0" + end, "little"))
    out.fixed(last.take(row) | bits, 2 + len(end))


@cache
def _dates() -> tuple[Words, Words]:
    """Return the texts "YYYY-MM-" and "DD" for the days of the table."""
    days = np.arange(_FIRST_DAY, _LAST_DAY).astype("datetime64[D]")
    text = np.datetime_as_string(days).astype("S16").view(np.uint64).reshape(-1, 2)
    return np.ascontiguousarray(text[:, 0]), np.ascontiguousarray(text[:, 1])


def _write_any_dates(out: RowWriter, days: Numbers) -> None:
    """Append dates of any year. Each distinct date is formatted once."""
    encoded = pa.array(days).dictionary_encode()
    distinct = np.asarray(encoded.dictionary).astype("datetime64[D]")
    text = [_any_date(each).encode() for each in np.datetime_as_string(distinct)]
    out.column(pa.array(text, pa.binary()).take(encoded.indices))


def _any_date(text: str) -> str:
    """Return a date as Java writes it: years have four digits; with more, or negative, a sign."""
    year, rest = text[:-6], text[-6:]
    if year.startswith("-"):
        return f"-{year[1:]:0>4}{rest}"
    return f"+{text}" if len(year) > 4 else text


def write_timestamps(out: RowWriter, micros: Numbers) -> None:
    """Append local times as YYYY-MM-DDTHH:MM:SS.mmm, rounded down to milliseconds."""
    days = micros // DAY_US
    millis = (micros - days * DAY_US) // 1000
    seconds = millis // 1000
    write_dates(out, days, b"T")
    out.fixed(_seconds_of_day().take(seconds), 8)
    out.fixed(_fractions().take(millis - seconds * 1000), 4)


@cache
def _seconds_of_day() -> Words:
    """Return the text "HH:MM:SS" for each second of a day."""
    seconds = np.arange(86_400).astype("datetime64[s]")
    text: Words = np.array([each[11:] for each in np.datetime_as_string(seconds)], "S8").view("u8")
    return text


@cache
def _fractions() -> Words:
    """Return the texts ".000" to ".999"."""
    return np.array([b".%03d" % number for number in range(1000)], "S8").view(np.uint64)


def write_times(out: RowWriter, micros: Numbers) -> None:
    """Append times of day as HH:MM:SS, with a fraction of up to six digits unless it is zero."""
    seconds = micros // 1_000_000
    out.fixed(_seconds_of_day().take(seconds), 8)
    write_fractions(out, micros - seconds * 1_000_000)


def write_fractions(out: RowWriter, micros: Numbers) -> None:
    """Append fractions of a second without trailing zeros. Nothing is appended for 0."""
    if not micros.any():
        return
    sizes = np.full(len(micros), 7, np.int64)
    for zeros in range(1, 6):
        sizes -= micros % 10**zeros == 0
    sizes[micros == 0] = 0
    digits = _last_digits(micros.astype(np.uint64), np.array([6], np.uint64), 6).bytes
    kept = (np.uint64(1) << (sizes.view(np.uint64) << _BYTE_BITS)) - np.uint64(1)
    text = ((digits << np.uint64(8)) | np.uint64(ord("."))) & kept
    out.word(VarintBytes(text, sizes.view(np.uint64), 7))


def write_offsets(out: RowWriter, seconds: Numbers) -> None:
    """Append UTC offsets as Z, +HH:MM or +HH:MM:SS.

    The shape of `seconds` is (n,), or (1,) if all offsets are equal.
    """
    if len(seconds) == 1:
        out.constant(_offset_text(int(seconds[0])))
        return
    encoded: Any = pa.array(seconds).dictionary_encode()
    text = [_offset_text(each) for each in encoded.dictionary.to_pylist()]
    out.column(pa.array(text, pa.binary()).take(encoded.indices))


def _offset_text(seconds: int) -> bytes:
    if not seconds:
        return b"Z"
    minutes, rest = divmod(abs(seconds), 60)
    text = f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{rest:02d}".encode() if rest else text.encode()


_LONG_DIGITS: Final = 18
"""Maximum number of digits for which decimals use the fast path."""


def write_decimals(out: RowWriter, low: Numbers, high: Numbers, scale: int) -> None:
    """Append 128-bit decimals without an exponent.

    Args:
        out: receives the text.
        low: lower 64 bits of the unscaled values, shape (n,).
        high: upper 64 bits, shape (n,).
        scale: number of digits after the point.
    """
    if scale <= _LONG_DIGITS and np.array_equal(low >> 63, high):
        write_sign(out, low < 0)
        values = magnitudes(low)
        whole = values // np.uint64(10**scale)
        write_digits(out, whole)
        if scale:
            out.constant(b".")
            rest = values - whole * np.uint64(10**scale)
            _write_last_digits(out, rest, np.array([scale]), scale)
    else:
        _write_long_decimals(out, low, high, scale)


def _write_long_decimals(out: RowWriter, low: Numbers, high: Numbers, scale: int) -> None:
    """Append decimals of more than 64 bits, in groups of 18 digits that Arrow's division yields."""
    words = np.column_stack((low, high))
    buffers = [None, pa.py_buffer(np.ascontiguousarray(words).data)]
    integers: Any = pa.Array.from_buffers(pa.decimal128(38, 0), len(low), buffers)
    digits = pc.cast(integers, pa.string())
    negative = high < 0
    write_sign(out, negative)
    plain = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), max(scale + 1, 1), "0")
    before = pc.utf8_slice_codeunits(plain, 0, -scale) if scale else plain
    out.column(before.cast(pa.binary()))
    if scale:
        out.constant(b".")
        out.column(pc.utf8_slice_codeunits(plain, -scale).cast(pa.binary()))


def write_interval(out: RowWriter, micros: Numbers) -> None:
    """Append day-time intervals as [-]D HH:MM:SS[.ffffff]."""
    write_sign(out, micros < 0)
    size = magnitudes(micros)
    days = size // np.uint64(DAY_US)
    write_digits(out, days)
    out.constant(b" ")
    write_times(out, (size - days * np.uint64(DAY_US)).view(np.int64))


_ESCAPES: Final = {
    **{code: f"\\u{code:04x}" for code in range(0x20)},
    **{ord(each): f"\\{name}" for each, name in zip("\b\f\n\r\t", "bfnrt", strict=True)},
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}
"""Escape sequence of each byte that JSON does not allow in a string."""


def escaped(column: pa.BinaryArray) -> pa.BinaryArray:
    """Return strings with JSON's escapes. Only strings that need escapes are copied."""
    raw = values_of(column)
    found = (raw < 0x20) | (raw == ord('"')) | (raw == ord("\\"))
    if not found.any():
        return column
    codes = np.unique(raw[found]).tolist()
    plain: Any = column
    # The backslash comes first, because the other escape sequences contain a backslash.
    for code in sorted(codes, key=lambda code: code != ord("\\")):
        plain = pc.replace_substring(plain, bytes([code]), _ESCAPES[code].encode())
    return cast("pa.BinaryArray", plain)


def base64_column(column: pa.BinaryArray) -> pa.BinaryArray:
    """Return each value in base64, or an empty value for null.

    All values are padded to multiples of three bytes and encoded at once; then the padding is
    corrected.
    """
    lengths = nullable_lengths(column, 0).astype(np.int64)
    groups = -(-lengths // 3)
    writer = RowWriter(len(column))
    writer.column(column)
    missing = (groups * 3 - lengths).view(np.uint64)
    writer.word(VarintBytes(np.zeros(1, np.uint64), missing, 2))
    padded = memoryview(writer.join().buffers()[2] or b"")[: int(groups.sum()) * 3]
    encoded = np.frombuffer(bytearray(base64.b64encode(padded)), np.uint8)
    ends = np.cumsum(groups * 4)
    for count in (1, 2):
        encoded[ends[missing >= count] - count] = ord("=")
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return binary_array(offsets, encoded)
