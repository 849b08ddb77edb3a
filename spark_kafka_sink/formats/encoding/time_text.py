"""Format dates, times, time zone offsets and intervals as text, for all rows at once.

Dates, times of day and fractions of a second are looked up in tables of texts.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_kafka_sink.formats.encoding import number_text

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.records.row_writer import RowWriter
    from spark_kafka_sink.kafka.records.varint import Numbers, Words


_DAY_US = 86_400_000_000
_DAY_MS = 86_400_000
_SECOND_NS = 1_000_000_000
_FIRST_DAY = -25567
"""First day in the table: 1900-01-01, in days since 1970."""
_LAST_DAY = 65744
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
        out.append_constant(end)
        return
    months, last = _date_texts()
    row = days - _FIRST_DAY
    out.append_low_bytes(months.take(row), 8)
    bits = np.uint64(int.from_bytes(b"\0\0" + end, "little"))
    out.append_low_bytes(last.take(row) | bits, 2 + len(end))


@cache
def _date_texts() -> tuple[Words, Words]:
    """Return the texts "YYYY-MM-" and "DD" for the days of the table."""
    days = np.arange(_FIRST_DAY, _LAST_DAY).astype("datetime64[D]")
    text = np.datetime_as_string(days).astype("S16").view(np.uint64).reshape(-1, 2)
    return np.ascontiguousarray(text[:, 0]), np.ascontiguousarray(text[:, 1])


def _write_any_dates(out: RowWriter, days: Numbers) -> None:
    """Append dates of any year. Each distinct date is formatted once."""
    encoded = pa.array(days).dictionary_encode()
    distinct = np.asarray(encoded.dictionary).astype("datetime64[D]")
    text = [_any_date(date).encode() for date in np.datetime_as_string(distinct)]
    out.append_column(pa.array(text, pa.binary()).take(encoded.indices))


def _any_date(text: str) -> str:
    """Return a date as Java writes it: years have four digits; with more, or negative, a sign."""
    year, month_and_day = text[:-6], text[-6:]
    if year.startswith("-"):
        return f"-{year[1:]:0>4}{month_and_day}"
    return f"+{text}" if len(year) > 4 else text


def write_timestamps(out: RowWriter, micros: Numbers, offsets: Numbers | None = None) -> None:
    """Append local times as YYYY-MM-DDTHH:MM:SS.mmm, rounded down to milliseconds.

    Args:
        out: receives the text.
        micros: microseconds since 1970; UTC, or local times without `offsets`.
        offsets: UTC offsets in seconds, shape (n,) or (1,).
    """
    days = micros // _DAY_US
    millis = (micros - days * _DAY_US) // 1000
    if offsets is not None:  # The sum of `micros` and an offset can exceed 64 bits.
        millis += offsets * 1000
        next_days = millis // _DAY_MS
        days, millis = days + next_days, millis - next_days * _DAY_MS
    seconds = millis // 1000
    write_dates(out, days, b"T")
    out.append_low_bytes(_second_texts().take(seconds), 8)
    out.append_low_bytes(_fraction_texts().take(millis - seconds * 1000), 4)


@cache
def _second_texts() -> Words:
    """Return the text "HH:MM:SS" for each second of a day."""
    seconds = np.arange(86_400).astype("datetime64[s]")
    text: Words = np.array([time[11:] for time in np.datetime_as_string(seconds)], "S8").view("u8")
    return text


@cache
def _fraction_texts() -> Words:
    """Return the texts ".000" to ".999"."""
    return np.array([b".%03d" % number for number in range(1000)], "S8").view(np.uint64)


def write_times(out: RowWriter, nanos: Numbers) -> None:
    """Append times of day as HH:MM:SS, with a fraction of up to nine digits unless it is zero."""
    seconds = nanos // _SECOND_NS
    out.append_low_bytes(_second_texts().take(seconds), 8)
    _write_fractions(out, nanos - seconds * _SECOND_NS)


def _write_fractions(out: RowWriter, nanos: Numbers) -> None:
    """Append fractions of a second without trailing zeros. Nothing is appended for 0."""
    if not nanos.any():
        return
    zeros: Numbers = np.sum([nanos % 10**count == 0 for count in range(1, 10)], axis=0)
    out.append_either(zeros < 9, b".")
    digits = (nanos // 10**zeros).view(np.uint64)
    number_text.write_last_digits(out, digits, 9 - zeros, 9 - int(zeros.min()))


def write_offsets(out: RowWriter, seconds: Numbers) -> None:
    """Append UTC offsets as Z, +HH:MM or +HH:MM:SS.

    The shape of `seconds` is (n,), or (1,) if all offsets are equal.
    """
    if len(seconds) == 1:
        out.append_constant(_offset_text(int(seconds[0])))
        return
    encoded: Any = pa.array(seconds).dictionary_encode()
    text = [_offset_text(offset) for offset in encoded.dictionary.to_pylist()]
    out.append_column(pa.array(text, pa.binary()).take(encoded.indices))


def _offset_text(seconds: int) -> bytes:
    if not seconds:
        return b"Z"
    minutes, seconds_of_minute = divmod(abs(seconds), 60)
    text = f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{seconds_of_minute:02d}".encode() if seconds_of_minute else text.encode()


def write_interval(out: RowWriter, micros: Numbers) -> None:
    """Append day-time intervals as [-]D HH:MM:SS[.ffffff]."""
    number_text.write_sign(out, micros < 0)
    size = number_text.magnitudes(micros)
    days = size // np.uint64(_DAY_US)
    number_text.write_digits(out, days)
    out.append_constant(b" ")
    write_times(out, (size - days * np.uint64(_DAY_US)).view(np.int64) * 1000)
