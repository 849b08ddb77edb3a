"""The partitioners that hash the key: which hash, and which keys are none.

Source: ``BuiltInPartitioner.partitionForKey``; librdkafka's ``rd_kafka_msg_partitioner_*``, whose
words for rows without a key are "random": here, as there by default, such rows are sticky.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_kafka_sink.config.enums import Partitioner as Kind
from spark_kafka_sink.records.binary_columns import lengths_of
from spark_kafka_sink.records.key_hashes import crc32, fnv1a, murmur2

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Hash = Callable[[pa.BinaryArray], NDArray[np.uint32]]

_POSITIVE = np.uint32(0x7FFFFFFF)


class Keyless(Enum):
    """Which rows have no key, and are left to the sticky choice."""

    NONE = auto()
    """Every row is hashed; a null key as one of no bytes."""
    NULL = auto()
    NULL_OR_EMPTY = auto()


@dataclass(frozen=True, slots=True)
class KeyRule:
    """One partitioner: 32-bit hash of the key, modulo the partitions."""

    hash: Hash
    keyless: Keyless

    def hashes(self, keys: pa.BinaryArray) -> NDArray[np.uint32]:
        """The hash of each key, shape (n,); what `without_key` names is meaningless."""
        hashes = self.hash(keys)
        if self.keyless is Keyless.NONE and keys.null_count:
            hashes[np.asarray(keys.is_null())] = self.of_nothing()
        return hashes

    def of_nothing(self) -> np.uint32:
        """The hash of a key of no bytes."""
        return np.uint32(self.hash(pa.array([b""], pa.binary()))[0])

    def without_key(self, keys: pa.BinaryArray) -> NDArray[np.bool_] | None:
        """Mask of the rows that have no key, shape (n,); None: all have one."""
        if self.keyless is Keyless.NONE:
            return None
        if self.keyless is Keyless.NULL:
            return np.asarray(keys.is_null()) if keys.null_count else None
        missing = lengths_of(keys) == 0
        if keys.null_count:
            missing |= np.asarray(keys.is_null())
        return missing if missing.any() else None


def _positive_murmur2(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    return murmur2(keys) & _POSITIVE


KEY_RULES: Mapping[Kind, KeyRule] = {
    Kind.DEFAULT: KeyRule(_positive_murmur2, Keyless.NULL),
    Kind.CONSISTENT: KeyRule(crc32, Keyless.NONE),
    Kind.CONSISTENT_RANDOM: KeyRule(crc32, Keyless.NULL_OR_EMPTY),
    Kind.MURMUR2: KeyRule(_positive_murmur2, Keyless.NONE),
    Kind.MURMUR2_RANDOM: KeyRule(_positive_murmur2, Keyless.NULL),
    Kind.FNV1A: KeyRule(fnv1a, Keyless.NONE),
    Kind.FNV1A_RANDOM: KeyRule(fnv1a, Keyless.NULL),
}
"""Partitioners that look at the key; the others have no entry."""
