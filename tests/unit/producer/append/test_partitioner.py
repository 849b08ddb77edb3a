"""Assignment of rows to partitions."""

import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.config.enums import LIBRDKAFKA_PARTITIONERS, PartitionerName
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED
from spark_kafka_sink.kafka.records import key_hashes
from spark_kafka_sink.kafka.records.key_hashes import crc32, fnv1a, murmur2
from spark_kafka_sink.producer.append.partitioner import KEY_RULES
from tests.support import reference
from tests.support.harness.offline import topic
from tests.support.reference import partition_for_key
from tests.unit.producer.append.partitioning import (
    assign,
    partitioner,
    partitions,
    rows,
    targets_of,
    topics,
)

KEYS = [b"", b"k", b"key", b"1234", b"\xff\x80", b"a longer key than the others"]

HASHED_KEYS = [*KEYS, b"12345678"]
PARTITIONS = 97


def test_keys_are_hashed_as_in_java() -> None:
    route = assign(rows(len(KEYS), keys=KEYS))
    assert partitions(route) == [partition_for_key(key, 7) for key in KEYS]


def test_mix_of_null_keys_null_partitions_and_explicit_partitions() -> None:
    keys = [None, None, b"k", b"k"]
    assigned = partitions(assign(rows(4, keys=keys, partitions=[5, None, None, 4])))
    assert assigned == [5, UNASSIGNED, partition_for_key(b"k", 7), 4]


def test_ignored_keys_are_treated_as_null() -> None:
    assigned = partitions(assign(rows(6, keys=KEYS), partitioner_ignore_keys="true"))
    assert assigned == [UNASSIGNED] * 6


def test_target_has_number() -> None:
    route = assign(rows(3, topic_indexes=[0, 1, 2]), (3, 1, 90))
    for index, count in enumerate((3, 1, 90)):
        for partition in (UNASSIGNED, *range(count)):
            info, target = route.target(route.number(index, partition))
            assert (info.name, target) == ("abc"[index], partition)


def test_round_robin_continues_across_chunks_and_ignores_keys() -> None:
    round_robin = partitioner(partitioner_class=PartitionerName.ROUND_ROBIN.value)
    assigned = [
        partitions(round_robin.assign(rows(5, keys=[b"k"] * 5), topics(3))) for _ in range(2)
    ]
    assert assigned == [[0, 1, 2, 0, 1], [2, 0, 1, 2, 0]]


def test_round_robin_skips_partitions_without_leader() -> None:
    round_robin = partitioner(partitioner_class=PartitionerName.ROUND_ROBIN.value)
    whole = topic("a", 4)
    some, none = replace(whole, leaders=(-1, 1, -1, 1)), replace(whole, leaders=(-1,) * 4)
    assert partitions(round_robin.assign(rows(5), (some,))) == [1, 3, 1, 3, 1]
    assert partitions(round_robin.assign(rows(5), (whole,))) == [1, 2, 3, 0, 1]
    assert partitions(round_robin.assign(rows(5), (none,))) == [2, 3, 0, 1, 2]


def test_topics_of_rows() -> None:
    of, keys = [2, 0, 1, 0, 2, 1], KEYS
    route = assign(rows(6, keys=keys, topic_indexes=of), (3, 1, 90))
    counts = (3, 1, 90)
    expected = [("abc"[i], partition_for_key(k, counts[i])) for i, k in zip(of, keys, strict=True)]
    assert targets_of(route) == expected


def test_each_topic_has_its_own_unassigned_queue() -> None:
    assigned = targets_of(assign(rows(4, topic_indexes=[0, 1, 1, 0]), (50, 50)))
    assert assigned == [(name, UNASSIGNED) for name in "abba"]


@pytest.mark.parametrize("wrong", [-1, 7, 2**31 - 1])
def test_out_of_range_partition_is_reported(wrong: int) -> None:
    with pytest.raises(ColumnError) as caught:
        assign(rows(4, partitions=[0, None, wrong, 1]))
    assert "row 2 " in str(caught.value)
    assert (caught.value.topic, caught.value.partition) == ("a", wrong)
    assert "0 to 6" in str(caught.value)


def test_partition_range_is_checked_per_topic() -> None:
    chunk = rows(3, partitions=[6, 1, 6], topic_indexes=[0, 1, 1]).slice(1, 3)
    with pytest.raises(ColumnError) as caught:
        assign(chunk, (7, 2))
    assert "row 2 " in str(caught.value)
    assert (caught.value.topic, caught.value.partition) == ("b", 6)


@pytest.mark.parametrize(("count", "kind"), [((1 << 15) - 1, np.int16), (1 << 15, np.int32)])
def test_target_numbers_use_narrowest_type(count: int, kind: type) -> None:
    route = assign(rows(2, partitions=[count - 1, 0]), (count,))
    assert route.targets.dtype == kind
    assert partitions(route) == [count - 1, 0]


def test_target_numbers_across_topics_at_type_limit() -> None:
    chunk = rows(4, partitions=[20_000, 12_764, None, None], topic_indexes=[0, 1, 1, 0])
    expected = [("a", 20_000), ("b", 12_764), ("b", UNASSIGNED), ("a", UNASSIGNED)]
    for second, kind in [(12_765, np.int16), (12_766, np.int32)]:
        route = assign(chunk, (20_001, second))
        assert route.targets.dtype == kind
        assert targets_of(route) == expected


@pytest.mark.parametrize(
    ("options", "keyed", "assigned"),
    [
        ({}, {"a": 1, "b": 1}, {"a": 1}),
        ({"partitioner": "murmur2"}, {"a": 1, "b": 2}, {"a": 1}),  # also hashes null keys
        # Treats an empty key as missing.
        ({"partitioner": "consistent_random"}, {"a": 1}, {"a": 1}),
        ({"partitioner": "random"}, {}, {"a": 1}),
        ({"partitioner_ignore_keys": True}, {}, {"a": 1}),
    ],
)
def test_partition_sources_are_counted(
    options: dict[str, object], keyed: dict[str, int], assigned: dict[str, int]
) -> None:
    counting = partitioner(**options)
    chunk = rows(4, [b"k", b"k", None, b""], [1, None, None, None], topic_indexes=[0, 0, 1, 1])
    counting.assign(chunk, topics(7, 7))
    assert +counting.keyed_rows == keyed
    assert +counting.assigned_rows == assigned
    counting.assign(rows(3), topics(7))
    counting.assign(rows(2, partitions=[0, 1]), topics(7))
    assert counting.assigned_rows["a"] == assigned["a"] + 2


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


@pytest.mark.parametrize(
    "sizes",
    [[*range(54, 74), *range(246, 266)], [*range(240, 257)], [0, 9_001, 3], [20_000] * 3, [1, 2]],
    ids=str,
)
def test_long_keys_are_hashed_as_short_ones(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    """A pass over a column for each unit of a key of 1 MB would take seconds."""
    step = Mock(wraps=key_hashes._murmur_word)
    monkeypatch.setattr(key_hashes, "_murmur_word", step)
    keys = [Random(size).randbytes(size) for size in sizes]
    column = pa.array([b"-", *keys, b"-"], pa.binary()).slice(1, len(keys))
    assert murmur2(column).tolist() == [reference.murmur2(key) for key in keys]
    assert crc32(column).tolist() == [zlib.crc32(key) for key in keys]
    assert fnv1a(column).tolist() == [reference_fnv1a(key) for key in keys]
    assert step.call_count <= 64


def test_fnv1a_of_minimum_int32() -> None:
    """Its absolute value does not fit in 32 bits: C returns it unchanged."""
    key = b"\xf54\x17z\x01"
    assert reference_fnv1a(key) == 1 << 31
    assert fnv1a(pa.array([key], pa.binary())).tolist() == [1 << 31]


@pytest.mark.parametrize("suffix", ["", "_random"])
@pytest.mark.parametrize("name", EXPECTED)
def test_keyed_rows_are_hashed_as_by_java(name: str, suffix: str) -> None:
    keys = HASHED_KEYS[1:]
    assigned = partitions(assign(rows(len(keys), keys), (PARTITIONS,), partitioner=name + suffix))
    assert assigned == [EXPECTED[name](key) for key in keys]


@pytest.mark.parametrize("name", EXPECTED)
def test_keyless_rows_are_hashed_as_empty_key(name: str) -> None:
    nothing = EXPECTED[name](b"")
    mixed = assign(rows(3, [None, b"key", b""]), (PARTITIONS,), partitioner=name)
    assert partitions(mixed) == [nothing, EXPECTED[name](b"key"), nothing]
    assert partitions(assign(rows(3), (PARTITIONS,), partitioner=name)) == [nothing] * 3


@pytest.mark.parametrize("name", ["consistent_random", "murmur2_random", "fnv1a_random"])
def test_librdkafkas_partitioners_leave_null_keys_to_the_sender(name: str) -> None:
    assigned = partitions(assign(rows(2, [None, b"key"]), (PARTITIONS,), partitioner=name))
    assert assigned == [UNASSIGNED, EXPECTED[name.removesuffix("_random")](b"key")]


def test_only_consistent_random_treats_empty_key_as_missing() -> None:
    empty_keys = rows(30, [b""] * 30)
    assigned = {
        name: set(partitions(assign(empty_keys, (PARTITIONS,), partitioner=f"{name}_random")))
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
    assert set(partitions(route)) == {1, 2}


def test_explicit_partitions_override_hashes() -> None:
    requested = [3, None, 5]
    assigned = partitions(
        assign(rows(3, [b"key"] * 3, requested), (PARTITIONS,), partitioner="fnv1a")
    )
    assert assigned == [3, EXPECTED["fnv1a"](b"key"), 5]


def test_every_hashing_partitioner_has_a_rule() -> None:
    others = {PartitionerName.RANDOM, PartitionerName.ROUND_ROBIN, PartitionerName.FUNCTION}
    assert set(KEY_RULES) == set(PartitionerName) - others
    assert set(LIBRDKAFKA_PARTITIONERS) - set(KEY_RULES) == {PartitionerName.RANDOM}


def test_partitions_added_after_the_assignment_have_no_rows() -> None:
    route = assign(rows(4, partitions=[0, 1, 0, 1], topic_indexes=[0, 0, 1, 1]), (2, 2))
    assert route.rows_of({"a": {2, 3, 4}}) is None
    assert route.rows_of({"b": {2}}) is None
    mask = route.rows_of({"a": {1, 3}})
    assert mask is not None
    assert mask.tolist() == [False, True, False, False]
