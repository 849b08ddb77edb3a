"""Java's murmur2 over a column of keys, vectorised.

Source: ``org.apache.kafka.common.utils.Utils.murmur2`` and ``BuiltInPartitioner
.partitionForKey``; every key lands on the partition that a Java producer would choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.records.varint import offsets_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)
_POSITIVE = np.uint32(0x7FFFFFFF)


def partitions_for_keys(keys: pa.BinaryArray, partition_count: int) -> NDArray[np.int32]:
    """Partition of each key, shape (n,), in 0 .. partition_count - 1; null rows are meaningless."""
    positive = murmur2(keys) & _POSITIVE
    return (positive % np.uint32(partition_count)).astype(np.int32)


def murmur2(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    """The 32-bit hash of each key, shape (n,), as the bits of Java's int."""
    offsets = offsets_of(keys).astype(np.int64)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    # Spare bytes let the tail of the last key be read as a whole word.
    data = np.zeros(size + 4, np.uint8)
    buffer = keys.buffers()[2]
    if size and buffer is not None:
        data[:size] = np.frombuffer(memoryview(buffer), np.uint8, size, first)
    words: NDArray[np.uint32] = np.ndarray((size + 1,), "<u4", data, 0, (1,))
    with np.errstate(over="ignore"):
        return _finish(_mix_words(words, starts, lengths))


def _mix_words(
    words: NDArray[np.uint32], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Fold every key's 4-byte words, then its tail, into its hash; one pass per word position."""
    hashes = _SEED ^ lengths.astype(np.uint32)
    common = int(lengths.min()) // 4 if len(lengths) else 0
    for position in range(common):
        hashes = _mix(hashes, words[starts + 4 * position])
    longest = int(lengths.max(initial=0)) // 4
    rows = np.flatnonzero(lengths >= 4 * (common + 1))
    for position in range(common, longest):
        rows = rows[lengths[rows] >= 4 * (position + 1)]
        hashes[rows] = _mix(hashes[rows], words[starts[rows] + 4 * position])
    tails = lengths & 3
    masks = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)[tails]
    rest = words[starts + (lengths & ~np.int64(3))] & masks
    return np.where(tails > 0, (hashes ^ rest) * _M, hashes)


def _mix(hashes: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    k = words * _M
    k ^= k >> _R
    k *= _M
    mixed: NDArray[np.uint32] = (hashes * _M) ^ k
    return mixed


def _finish(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes
