"""Vectorized hashes of a column of keys: Java's murmur2, librdkafka's CRC-32 and FNV-1a.

Each pass processes one position of all keys that are long enough. If only a few long keys are left,
each is processed alone, because a pass over few keys costs as much. Nulls count as empty keys.

Source: ``org.apache.kafka.common.utils.Utils.murmur2``, ``BuiltInPartitioner.partitionForKey``;
librdkafka's ``rdcrc32`` and ``rdfnv1a``.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.kafka.records.columns import offsets_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint32]
    Step = Callable[[Hashes, Hashes], Hashes]
    Finish = Callable[[int, NDArray[np.integer]], int]

_MURMUR_SEED = np.uint32(0x9747B28C)
_MURMUR_M = np.uint32(0x5BD1E995)
_MURMUR_R = np.uint32(24)
_POSITIVE = np.uint32(0x7FFFFFFF)
_CRC_POLYNOMIAL = np.uint32(0xEDB88320)
_FNV_OFFSET = np.uint32(0x811C9DC5)
_FNV_PRIME = np.uint32(0x01000193)
_ALL_BITS = np.uint32(0xFFFFFFFF)
_LOW, _SIXTEEN = np.uint32(0xFFFF), np.uint32(16)
_MIN_PASSES = 64
"""Number of units of a key that are always processed in passes."""
_FEW_KEYS = 16
"""Number of keys whose further units are processed key by key: with more, passes are faster."""


def positive_murmur2(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    """Return the 31-bit hash of each key, shape (n,), from which Java derives the partition."""
    return murmur2(keys) & _POSITIVE


def murmur2(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    """Return the murmur2 hash of each key, shape (n,), as the bits of Java's int."""
    column = _Keys(keys)
    lengths = column.lengths
    with np.errstate(over="ignore"):
        hashes = _MURMUR_SEED ^ lengths.astype(np.uint32)
        hashes = column.fold(hashes, lengths // 4, 4, column.words, _murmur_word, _murmur_words)
        tails = lengths & 3
        masks = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)[tails]
        last_bytes = column.words[column.starts + (lengths & ~np.int64(3))] & masks
        hashes = np.where(tails > 0, (hashes ^ last_bytes) * _MURMUR_M, hashes)
        hashes ^= hashes >> np.uint32(13)
        hashes *= _MURMUR_M
        hashes ^= hashes >> np.uint32(15)
    return hashes


def _murmur_word(hashes: Hashes, words: Hashes) -> Hashes:
    mixed: Hashes = (hashes * _MURMUR_M) ^ _mix(words)
    return mixed


def _murmur_words(hash_: int, words: NDArray[np.integer]) -> int:
    for word in _mix(words.astype(np.uint32)).tolist():
        hash_ = (hash_ * int(_MURMUR_M) & int(_ALL_BITS)) ^ word
    return hash_


def _mix(words: Hashes) -> Hashes:
    mixed_words = words * _MURMUR_M
    mixed_words ^= mixed_words >> _MURMUR_R
    mixed_words *= _MURMUR_M
    return mixed_words


def crc32(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    """Return the CRC-32 of each key, as in zlib, shape (n,)."""
    column = _Keys(keys)
    low, high = _crc_words()
    bytewise = _crc_bytes()

    def word(crc: Hashes, data: Hashes) -> Hashes:
        crc = crc ^ data
        mixed: Hashes = low[crc & _LOW] ^ high[crc >> _SIXTEEN]
        return mixed

    def byte(crc: Hashes, data: Hashes) -> Hashes:
        mixed: Hashes = bytewise[(crc ^ data) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        return mixed

    def finish(crc: int, data: NDArray[np.integer]) -> int:
        return zlib.crc32(data.tobytes(), crc ^ int(_ALL_BITS)) ^ int(_ALL_BITS)

    start, lengths = np.full(len(keys), _ALL_BITS), column.lengths
    crc = column.fold(start, lengths // 4, 4, column.words, word, finish)
    crc = column.fold(crc, lengths & 3, 1, column.data, byte, finish, lengths & ~np.int64(3))
    return crc ^ _ALL_BITS


def fnv1a(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    """Return librdkafka's FNV-1a hash of each key: the absolute value of a signed 32-bit hash."""
    column = _Keys(keys)

    def byte(hashes: Hashes, data: Hashes) -> Hashes:
        return (hashes ^ data) * _FNV_PRIME

    def finish(hash_: int, data: NDArray[np.integer]) -> int:
        for unit in data.tolist():
            hash_ = (hash_ ^ unit) * int(_FNV_PRIME) & int(_ALL_BITS)
        return hash_

    start = np.full(len(keys), _FNV_OFFSET)
    with np.errstate(over="ignore"):
        signed = column.fold(start, column.lengths, 1, column.data, byte, finish).view(np.int32)
        # The lowest integer has no positive counterpart and does not change, as in C.
        return np.abs(signed).view(np.uint32)


class _Keys:
    """The bytes of a column of keys, and the start and length of each key."""

    def __init__(self, keys: pa.BinaryArray) -> None:
        offsets = offsets_of(keys).astype(np.int64)
        first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
        self.starts = offsets[:-1] - first
        self.lengths = np.diff(offsets)
        if keys.null_count:
            self.lengths[np.asarray(keys.is_null())] = 0
        # Padding allows the end of the last key to be read as a whole word.
        self.data = np.zeros(size + 4, np.uint8)
        buffer = keys.buffers()[2]
        if size and buffer is not None:
            self.data[:size] = np.frombuffer(memoryview(buffer), np.uint8, size, first)
        self.words: NDArray[np.uint32] = np.ndarray((size + 1,), "<u4", self.data, 0, (1,))

    def fold(
        self,
        hashes: Hashes,
        counts: NDArray[np.int64],
        width: int,
        data: NDArray[np.integer],
        step: Step,
        finish: Finish,
        skip: NDArray[np.int64] | int = 0,
    ) -> Hashes:
        """Fold the units of each key into its hash. May modify `hashes`.

        Args:
            hashes: the initial hashes, shape (n,).
            counts: number of units of each key, shape (n,).
            width: size of a unit in bytes.
            data: the unit that starts at each byte of `self.data`.
            step: returns the new hash, given a hash and the next unit.
            finish: returns the final hash of one key, given a hash and all further units.
            skip: number of bytes of the key before the first unit.
        """
        starts = self.starts + skip
        shortest = int(counts.min(initial=1 << 62)) if len(counts) else 0
        common = shortest if len(counts) > _FEW_KEYS else min(shortest, _MIN_PASSES)
        for position in range(common):
            hashes = step(hashes, data[starts + width * position].astype(np.uint32, copy=False))
        position, rows = common, np.flatnonzero(counts > common)
        while len(rows) > (_FEW_KEYS if position >= _MIN_PASSES else 0):
            values = data[starts[rows] + width * position].astype(np.uint32, copy=False)
            hashes[rows] = step(hashes[rows], values)
            position += 1
            rows = rows[counts[rows] > position]
        for row in rows.tolist():
            first, end = starts[row] + width * position, starts[row] + width * counts[row]
            hashes[row] = finish(int(hashes[row]), data[first:end:width])
        return hashes


@cache
def _crc_bytes() -> NDArray[np.uint32]:
    """Return the CRC table for one byte, shape (256,)."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        half = table >> np.uint32(1)
        table = np.where(table & 1, _CRC_POLYNOMIAL ^ half, half)
    return table


@cache
def _crc_words() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the CRC tables for the low and high half of four bytes, shape (65536,) each."""
    table = _crc_bytes()

    def shifted(register: NDArray[np.uint32], times: int) -> NDArray[np.uint32]:
        for _ in range(times):
            register = table[register & np.uint32(0xFF)] ^ (register >> np.uint32(8))
        return register

    halves = np.arange(1 << 16, dtype=np.uint32)
    return shifted(halves, 4), shifted(halves << _SIXTEEN, 4)
