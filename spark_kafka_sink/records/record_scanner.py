"""Where the records of a batch begin.

Records state their own sizes, so one can be found only behind the one before it. Where sizes repeat
a stride finds many at once; elsewhere a loop that reads nothing but sizes does.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

import numpy as np

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.records.varint import read_varint

if TYPE_CHECKING:
    from spark_kafka_sink.records.varint import Bytes, Numbers

SMALLEST_RECORD: Final = 7
"""Bytes of a record with nothing in it."""

_STEP: Final = 1024
"""Records looked for at once."""

_WORTH: Final = 16
"""Records of one size from which on a stride beats the loop."""


def record_positions(data: bytes, end: int, count: int) -> Numbers:
    """Where each of so many records begins, its size included; `data` has padding from `end` on.

    Raises:
        ProtocolError: there are more or fewer of them.
    """
    buffer = np.frombuffer(data, np.uint8)
    found: list[Numbers] = []
    position, left = 0, count
    while left:
        wanted = min(left, _STEP)
        run, position = _strided(data, buffer[:end], position, wanted)
        found.append(run)
        if len(run) < min(wanted, _WORTH):
            more, position = _one_by_one(data, position, end, wanted - len(run))
            found.append(more)
            left -= len(more)
        left -= len(run)
    if position != end:
        raise ProtocolError(f"{end - position} bytes after the last record of a batch")
    return np.concatenate(found)


def _strided(data: bytes, buffer: Bytes, position: int, wanted: int) -> tuple[Numbers, int]:
    """Records from a position on that are as long as the first, and where the next one begins."""
    end = len(buffer)
    size, body = read_varint(data, position)
    step, stop = body - position + size, min(wanted, (end - position) // max(size, 1))
    if size < SMALLEST_RECORD - 1 or body + size > end:
        raise ProtocolError(f"a record of {size} bytes")
    alike = np.ones(stop, np.bool_)
    for index in range(position, body):
        column = buffer[index : index + stop * step : step]
        alike[: len(column)] &= column == data[index]
        alike[len(column) :] = False
    found = stop if alike.all() else int(alike.argmin())
    found = min(found, (end - position) // step)
    return position + step * np.arange(found), position + step * found


def _one_by_one(data: bytes, position: int, end: int, wanted: int) -> tuple[Numbers, int]:
    """As `_strided`, whatever their sizes; a negative one is found out later."""
    found = array("q")
    note = found.append
    try:
        for _ in range(wanted):
            note(position)
            size = data[position]
            if size < 0x80:
                position += 1 + (size >> 1)
            elif (more := data[position + 1]) < 0x80:
                position += 2 + (size >> 1 & 0x3F | more << 6)
            else:
                size, position = read_varint(data, position)
                position += max(size, 0)
    except IndexError:
        position = end + 1
    if position > end:
        raise ProtocolError("fewer records in a batch than its header says")
    return np.frombuffer(found, np.int64), position
