"""Hashes of key columns against `Utils.murmur2`, and partitions against Java's."""

import random

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.kafka.records.key_hashes import murmur2, positive_murmur2
from tools.support.java import Jvm

EDGES = [
    b"",
    *(bytes([byte]) * size for byte in (0x00, 0x7F, 0x80, 0xFF) for size in range(1, 18)),
    b"N14228",
    "käse".encode(),
    b"x" * 5_000,
]


def random_keys(count: int, longest: int) -> list[bytes]:
    source = random.Random(count + longest)
    return [source.randbytes(source.randint(0, longest)) for _ in range(count)]


def hashes(keys: pa.BinaryArray) -> list[int]:
    values: list[int] = murmur2(keys).view(np.int32).tolist()
    return values


@pytest.mark.parametrize(
    "keys",
    [EDGES, random_keys(1_500, 12), random_keys(1_000, 40), [b"same"] * 10, [b"8 bytes!"], []],
    ids=["edges", "short", "long", "repeated", "one", "none"],
)
def test_hashes_match_java(jvm: Jvm, keys: list[bytes]) -> None:
    assert hashes(pa.array(keys, pa.binary())) == [jvm.murmur2(key) for key in keys]


def test_hashes_of_a_slice_match_java(jvm: Jvm) -> None:
    keys = random_keys(200, 20)
    assert hashes(pa.array(keys, pa.binary())[37:150]) == [jvm.murmur2(k) for k in keys[37:150]]


def test_nulls_do_not_affect_their_neighbors(jvm: Jvm) -> None:
    keys = [None if n % 3 == 0 else key for n, key in enumerate(random_keys(200, 20))]
    ours = hashes(pa.array(keys, pa.binary()))
    present = [n for n, key in enumerate(keys) if key is not None]
    assert [ours[n] for n in present] == [jvm.murmur2(keys[n] or b"") for n in present]


@pytest.mark.parametrize("partitions", [1, 2, 3, 8, 1_000, 2**31 - 1])
def test_partitions_match_java(jvm: Jvm, partitions: int) -> None:
    keys = [*EDGES, *random_keys(200, 30)]
    ours = (positive_murmur2(pa.array(keys, pa.binary())) % partitions).tolist()
    assert ours == [jvm.partition_of(key, partitions) for key in keys]
