"""Varints of all rows at once."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from spark_kafka_sink.kafka.protocol.codec import write_uvarint
from spark_kafka_sink.kafka.records.columns import REGISTER_SIZE, VarintBytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words: TypeAlias = NDArray[np.uint64]

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
_EIGHT: Final = np.uint64(REGISTER_SIZE)
_FIRST_BITS: Final = np.uint64((1 << 7 * REGISTER_SIZE) - 1)


def zigzag(values: NDArray[np.int64]) -> Words:
    """Return the zig-zag encoding of each number, shape (n,)."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


@cache
def constant_size(size: int) -> Words:
    """Return a size that is the same in all rows, shape (1,)."""
    return np.array([size], np.uint64)


def _septets(values: Words, high: int) -> Words:
    """Return numbers of up to 56 bits with seven bits per byte; `high` is the largest number."""
    first = next(step for lower_bound, step in _STEPS if high >= lower_bound)
    for low_mask, high_mask, shift in _SEPTETS[first:]:
        values = (values & low_mask) | ((values & high_mask) << shift)
    return values


def _varint_sizes(values: Words, low: int, high: int) -> Words:
    """Return the size of each varint in bytes; shape (1,) if it is the same for all."""
    min_size, max_size = len(write_uvarint(low)), len(write_uvarint(high))
    if min_size == max_size:
        return constant_size(min_size)
    sizes = np.full(len(values), min_size, np.uint64)
    for size in range(min_size, max_size):
        sizes += values >= np.uint64(1 << 7 * size)
    return sizes


def short_varints(values: Words, low: int, high: int) -> VarintBytes:
    """Return varints of at most eight bytes."""
    sizes = _varint_sizes(values, low, high)
    if high < 1 << 7:
        return VarintBytes(values, sizes, 1)
    encoded = _septets(values, high) | _CONTINUES.take(sizes.view(np.int64))
    return VarintBytes(encoded, sizes, len(write_uvarint(high)))


def long_varints(values: Words) -> tuple[VarintBytes, VarintBytes]:
    """Return varints of up to ten bytes as two words; the second word of short varints is empty."""
    sizes = _varint_sizes(values, 0, (1 << 64) - 1)
    first = np.minimum(sizes, _EIGHT)
    encoded = _septets(values & _FIRST_BITS, 1 << 55) | _CONTINUES.take(sizes.view(np.int64))
    high_bits = values >> np.uint64(7 * REGISTER_SIZE)
    second = (high_bits & np.uint64(0x7F)) | ((high_bits >> np.uint64(7)) << np.uint64(8))
    second |= (sizes == 10).astype(np.uint64) << np.uint64(7)
    return VarintBytes(encoded, first, REGISTER_SIZE), VarintBytes(second, sizes - first, 2)
