"""librdkafka's partitioners: hashes compared with their definition, and keyless rows."""

import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.config.enums import LIBRDKAFKA_PARTITIONERS, PartitionerName
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED
from spark_kafka_sink.kafka.records.key_hashes import crc32, fnv1a
from spark_kafka_sink.producer.append.partitioner import KEY_RULES
from tests.property.reference import partition_for_key
from tests.support.harness.offline import topic
from tests.unit.producer.append.partitioning import assign, partitioner, partitions, rows

KEYS = [b"", b"k", b"key", b"1234", b"12345678", b"\xff\x80", b"a longer key than the others"]
PARTITIONS = 97


def reference_fnv1a(key: bytes) -> int:
    """Compute FNV-1a and the absolute value of its 32 bits as a signed integer."""
    digest = 0x811C9DC5
    for byte in key:
        digest = (digest ^ byte) * 0x01000193 & 0xFFFFFFFF
    return digest if digest < 1 << 31 else (1 << 32) - digest


EXPECTED: dict[str, Callable[[bytes], int]] = {
    "consistent": lambda key: zlib.crc32(key) % PARTITIONS,
    "murmur2": lambda key: partition_for_key(key, PARTITIONS),
    "fnv1a": lambda key: reference_fnv1a(key) % PARTITIONS,
}


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(0, 3))
def test_hashes_match_their_definition(keys: list[bytes | None], skip: int) -> None:
    column = pa.array(keys, pa.binary()).slice(min(skip, len(keys)))
    plain = [key or b"" for key in keys[min(skip, len(keys)) :]]
    assert crc32(column).tolist() == [zlib.crc32(key) for key in plain]
    assert fnv1a(column).tolist() == [reference_fnv1a(key) for key in plain]


def test_fnv1a_of_minimum_int32() -> None:
    """Its absolute value does not fit in 32 bits: C returns it unchanged."""
    key = b"\xf54\x17z\x01"
    assert reference_fnv1a(key) == 1 << 31
    assert fnv1a(pa.array([key], pa.binary())).tolist() == [1 << 31]


@pytest.mark.parametrize("suffix", ["", "_random"])
@pytest.mark.parametrize("name", EXPECTED)
def test_keyed_rows(name: str, suffix: str) -> None:
    keys = KEYS[1:]
    assigned = partitions(assign(rows(len(keys), keys), (PARTITIONS,), partitioner=name + suffix))
    assert assigned == [EXPECTED[name](key) for key in keys]


@pytest.mark.parametrize("name", EXPECTED)
def test_keyless_rows_are_hashed_as_empty_key(name: str) -> None:
    nothing = EXPECTED[name](b"")
    mixed = assign(rows(3, [None, b"key", b""]), (PARTITIONS,), partitioner=name)
    assert partitions(mixed) == [nothing, EXPECTED[name](b"key"), nothing]
    assert partitions(assign(rows(3), (PARTITIONS,), partitioner=name)) == [nothing] * 3


@pytest.mark.parametrize("name", ["consistent_random", "murmur2_random", "fnv1a_random"])
def test_null_keys_are_left_to_sender(name: str) -> None:
    assigned = partitions(assign(rows(2, [None, b"key"]), (PARTITIONS,), partitioner=name))
    assert assigned == [UNASSIGNED, EXPECTED[name.removesuffix("_random")](b"key")]


def test_only_consistent_random_treats_empty_key_as_missing() -> None:
    given_rows = rows(30, [b""] * 30)
    assigned = {
        name: set(partitions(assign(given_rows, (PARTITIONS,), partitioner=f"{name}_random")))
        for name in EXPECTED
    }
    assert assigned["consistent"] == {UNASSIGNED}
    assert assigned["murmur2"] == {EXPECTED["murmur2"](b"")}
    assert assigned["fnv1a"] == {EXPECTED["fnv1a"](b"")}


def test_random_ignores_keys() -> None:
    assigned = partitions(assign(rows(7_000, [b"k"] * 7_000), (7,), partitioner="random"))
    counts = Counter(assigned)
    assert set(counts) == set(range(7))
    assert all(count == pytest.approx(1_000, abs=150) for count in counts.values())


def test_random_skips_partitions_without_leader() -> None:
    info = replace(topic("a", 4), leaders=(-1, 1, 1, -1))
    route = partitioner(partitioner="random").assign(rows(500), (info,))
    assert set(route.targets.tolist()) == {1, 2}


def test_explicit_partitions_override_hashes() -> None:
    asked = [3, None, 5]
    assigned = partitions(assign(rows(3, [b"key"] * 3, asked), (PARTITIONS,), partitioner="fnv1a"))
    assert assigned == [3, EXPECTED["fnv1a"](b"key"), 5]


def test_every_hashing_partitioner_has_a_rule() -> None:
    others = {PartitionerName.RANDOM, PartitionerName.ROUND_ROBIN, PartitionerName.FUNCTION}
    assert set(KEY_RULES) == set(PartitionerName) - others
    assert set(LIBRDKAFKA_PARTITIONERS) - set(KEY_RULES) == {PartitionerName.RANDOM}
