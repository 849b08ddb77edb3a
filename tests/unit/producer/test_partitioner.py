"""Which partition a row goes to."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.base.config import Partitioner as Kind
from spark_kafka_sink.base.errors import ColumnError
from spark_kafka_sink.producer.partitioner import Partitioner, Route
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.records.batch import HEADER_SIZE
from spark_kafka_sink.records.columns import Columns
from tests.property.reference import partition_for_key
from tests.unit.producer.harness.offline import config, topic

SIZE = 100
KEYS = [b"", b"k", b"key", b"1234", b"\xff\x80", b"a longer key than the others"]


def rows(
    count: int,
    keys: list[bytes | None] | None = None,
    partitions: list[int | None] | None = None,
    topic_of: list[int] | None = None,
) -> Rows:
    return Rows(
        columns=Columns(
            value=pa.array([b"v"] * count, pa.binary()),
            key=None if keys is None else pa.array(keys, pa.binary()),
        ),
        topics=("a", "b", "c"),
        topic_of=None if topic_of is None else np.array(topic_of, np.int32),
        partition=None if partitions is None else pa.array(partitions, pa.int32()),
    )


def assign(given: Rows, counts: tuple[int, ...] = (7,), **options: object) -> Route:
    return partitioner(**options).assign(
        given, topics(*counts), np.full(len(given), SIZE, np.int64)
    )


def partitioner(**options: object) -> Partitioner:
    settings = config(**{"batch_size": 1_061, **options})
    return Partitioner(settings, Random(3))


def topics(*counts: int) -> tuple:
    return tuple(topic(name, count) for name, count in zip("abc", counts, strict=False))


def places(route: Route) -> list[tuple[str, int]]:
    found = [route.target(int(number)) for number in route.targets]
    return [(info.name, partition) for info, partition in found]


def partitions(route: Route) -> list[int]:
    return [partition for _, partition in places(route)]


def test_explicit_partitions_are_taken() -> None:
    asked = [6, 0, 3, 3]
    assert partitions(assign(rows(4, keys=[b"k"] * 4, partitions=asked))) == asked


def test_keys_are_hashed_as_in_java() -> None:
    route = assign(rows(len(KEYS), keys=KEYS))
    assert partitions(route) == [partition_for_key(key, 7) for key in KEYS]


def test_a_null_partition_leaves_it_to_the_key() -> None:
    route = assign(rows(len(KEYS), keys=KEYS, partitions=[None, 1, None, 2, None, 0]))
    hashed = [partition_for_key(key, 7) for key in KEYS]
    assert partitions(route) == [hashed[0], 1, hashed[2], 2, hashed[4], 0]


def test_a_partition_column_of_nulls_changes_nothing() -> None:
    route = assign(rows(len(KEYS), keys=KEYS, partitions=[None] * len(KEYS)))
    assert partitions(route) == [partition_for_key(key, 7) for key in KEYS]


def test_null_keys_stay_together_while_keyed_rows_spread() -> None:
    keys = [None, b"k", None, b"key", None]
    found = partitions(assign(rows(5, keys=keys)))
    assert found[1] == partition_for_key(b"k", 7)
    assert found[3] == partition_for_key(b"key", 7)
    assert len({found[0], found[2], found[4]}) == 1


def test_null_key_null_partition_and_explicit_partition_mixed() -> None:
    keys = [None, None, b"k", b"k"]
    found = partitions(assign(rows(4, keys=keys, partitions=[5, None, None, 4])))
    assert found[0] == 5
    assert found[2] == partition_for_key(b"k", 7)
    assert found[3] == 4
    assert 0 <= found[1] < 7


def test_ignored_keys_count_as_null() -> None:
    found = partitions(assign(rows(6, keys=KEYS), partitioner_ignore_keys="true"))
    assert len(set(found)) == 1


def test_sticky_moves_on_after_a_batch_of_bytes() -> None:
    found = partitions(assign(rows(40)))
    runs = [found[start : start + 10] for start in range(0, 40, 10)]
    assert [len(set(run)) for run in runs] == [1, 1, 1, 1]
    assert len(set(found)) > 1


def test_sticky_goes_on_where_the_last_chunk_stopped() -> None:
    one = partitioner()
    sizes = np.full(6, SIZE, np.int64)
    first = partitions(one.assign(rows(6), topics(50), sizes))
    second = partitions(one.assign(rows(6), topics(50), sizes))
    assert set(first) == set(second[:4])
    assert len(set(second)) == 2


def test_a_row_above_batch_size_gets_a_partition_of_its_own() -> None:
    sizes = np.array([SIZE, 5_000, SIZE, SIZE], np.int64)
    found = partitions(partitioner().assign(rows(4), topics(500), sizes))
    assert len({found[0], found[1], found[2]}) == 3
    assert found[2] == found[3]


def test_sticky_chooses_partitions_with_a_leader_only() -> None:
    info = replace(topic("a", 6), leaders=(-1, 1, -1, -1, 1, -1))
    chosen = partitioner().assign(rows(600), (info,), np.full(600, SIZE, np.int64))
    assert set(partitions(chosen)) == {1, 4}


def test_sticky_takes_any_partition_while_none_has_a_leader() -> None:
    info = replace(topic("a", 3), leaders=(-1, -1, -1))
    chosen = partitioner().assign(rows(100), (info,), np.full(100, SIZE, np.int64))
    assert set(partitions(chosen)) <= {0, 1, 2}


def test_sticky_leaves_a_partition_that_is_gone() -> None:
    one = partitioner(batch_size=10**6)
    sizes = np.full(1, 1, np.int64)
    while partitions(one.assign(rows(1), topics(50), sizes))[0] == 0:
        one = partitioner(batch_size=10**6)
    assert partitions(one.assign(rows(1), topics(1), sizes)) == [0]


def test_round_robin_goes_on_across_chunks_and_ignores_keys() -> None:
    one = partitioner(partitioner_class=Kind.ROUND_ROBIN.value)
    sizes = np.full(5, SIZE, np.int64)
    found = [partitions(one.assign(rows(5, keys=[b"k"] * 5), topics(3), sizes)) for _ in range(2)]
    assert found == [[0, 1, 2, 0, 1], [2, 0, 1, 2, 0]]


def test_topics_of_rows() -> None:
    of, keys = [2, 0, 1, 0, 2, 1], KEYS
    route = assign(rows(6, keys=keys, topic_of=of), (3, 1, 90))
    counts = (3, 1, 90)
    expected = [("abc"[i], partition_for_key(k, counts[i])) for i, k in zip(of, keys, strict=True)]
    assert places(route) == expected


def test_each_topic_has_its_own_sticky_partition() -> None:
    of = [0, 1] * 30
    found = places(assign(rows(60, topic_of=of), (50, 50)))
    for name in "ab":
        mine = [partition for topic_name, partition in found if topic_name == name]
        assert [len(set(mine[at : at + 10])) for at in (0, 10, 20)] == [1, 1, 1]


@pytest.mark.parametrize("wrong", [-1, 7, 2**31 - 1])
def test_a_partition_out_of_range_is_named(wrong: int) -> None:
    with pytest.raises(ColumnError) as caught:
        assign(rows(4, partitions=[0, None, wrong, 1]))
    assert "row 2 " in str(caught.value)
    assert (caught.value.topic, caught.value.partition) == ("a", wrong)
    assert "0 to 6" in str(caught.value)


def test_a_partition_out_of_range_of_its_own_topic() -> None:
    given = rows(3, partitions=[6, 1, 6], topic_of=[0, 1, 1]).slice(1, 3)
    with pytest.raises(ColumnError) as caught:
        assign(given, (7, 2))
    assert "row 2 " in str(caught.value)
    assert (caught.value.topic, caught.value.partition) == ("b", 6)


@pytest.mark.parametrize(("count", "kind"), [(1 << 15, np.int16), ((1 << 15) + 1, np.int32)])
def test_target_numbers_are_narrow_while_they_can(count: int, kind: type) -> None:
    route = assign(rows(2, partitions=[count - 1, 0]), (count,))
    assert route.targets.dtype == kind
    assert partitions(route) == [count - 1, 0]


def test_target_numbers_across_topics_at_the_border() -> None:
    given = rows(3, partitions=[20_000, 12_766, 12_767], topic_of=[0, 1, 1])
    assert assign(given, (20_001, 12_767 + 1)).targets.dtype == np.int32
    found = places(assign(given, (20_001, 12_768)))
    assert found == [("a", 20_000), ("b", 12_766), ("b", 12_767)]


def test_batch_room_counts_the_header() -> None:
    found = partitions(assign(rows(20), (1_000,), batch_size=HEADER_SIZE + 5 * SIZE))
    assert [len(set(found[at : at + 5])) for at in (0, 5, 10, 15)] == [1, 1, 1, 1]
    assert len(set(found)) == 4
