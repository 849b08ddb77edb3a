"""Zig-zag varints read back: one, or one at each of many positions.

As Java reads them: of 32 bits in at most five bytes, or of 64 in at most ten. Whoever reads many
sees to it that this many bytes follow each position. Source: Kafka's ``ByteUtils.readVarint``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from spark_kafka_sink.common.errors import ProtocolError

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]
    Column: TypeAlias = NDArray[np.int64]

INT_BYTES: Final = 5
LONG_BYTES: Final = 10
_MORE: Final = 0x80
_ONE_BYTE: Final = np.array([(raw >> 1) ^ -(raw & 1) for raw in range(_MORE)], np.int64)
_INT_MASK: Final = (1 << 32) - 1
_LONG_MASK: Final = (1 << 64) - 1


def read_varints(buffer: Bytes, at: Column, longest: int) -> tuple[Column, Column]:
    """The varints at some positions, and the positions behind them: mostly of a byte or two."""
    first = buffer.take(at)
    if first.max() < _MORE:
        return _ONE_BYTE.take(first), at + 1
    raw = first.astype(np.int64)
    two = raw >> 7
    second = buffer.take(at + 1) * two
    if second.max() >= _MORE:
        return _longer(buffer, at, longest)
    raw = raw & 0x7F | second << 7
    return (raw >> 1) ^ -(raw & 1), at + 1 + two


def _longer(buffer: Bytes, at: Column, longest: int) -> tuple[Column, Column]:
    first = buffer.take(at)
    raw, behind = (first & 0x7F).astype(np.uint64), at + 1
    rows = np.flatnonzero(first & _MORE)
    for number in range(1, longest):
        if not rows.size:
            break
        more = buffer[behind[rows]]
        raw[rows] |= (more & 0x7F).astype(np.uint64) << np.uint64(7 * number)
        behind[rows] += 1
        rows = rows[more >= _MORE]
    if rows.size:
        raise ProtocolError(f"a varint of more than {longest} bytes")
    if longest == INT_BYTES:
        raw &= np.uint64(_INT_MASK)
    signed = (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)
    return signed, behind


def read_varint(
    data: bytes | memoryview, position: int, longest: int = INT_BYTES
) -> tuple[int, int]:
    """One varint of 32 or 64 bits, mostly of a single byte, and the position behind it.

    Raises:
        ProtocolError: it is longer, or the data ends before it does.
    """
    if position < len(data) and (raw := data[position]) < _MORE:
        return (raw >> 1) ^ -(raw & 1), position + 1
    return _read_long(data, position, longest)


def _read_long(data: bytes | memoryview, position: int, longest: int) -> tuple[int, int]:
    raw = 0
    for index, byte in enumerate(data[position : position + longest]):
        raw |= (byte & 0x7F) << (7 * index)
        if byte < _MORE:
            raw &= _INT_MASK if longest == INT_BYTES else _LONG_MASK
            return (raw >> 1) ^ -(raw & 1), position + index + 1
    raise ProtocolError(f"a varint of more than {longest} bytes")
