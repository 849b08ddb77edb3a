"""Selection of partitions by the length of their queues."""

from collections import Counter
from random import Random

import pytest

from spark_kafka_sink.producer.buffer.partition_draw import available_partitions, draw_order

DRAWS = 20_000


def first_choices(queued: list[int]) -> list[float]:
    """Count how often each partition is drawn first."""
    random, partitions = Random(5), range(len(queued))
    counts = Counter(next(draw_order(partitions, queued, random)) for _ in range(DRAWS))
    return [counts[partition] / DRAWS for partition in partitions]


@pytest.mark.parametrize(
    ("queued", "weights"),
    [
        ([0, 3, 1], [4, 1, 3]),
        ([5, 5, 5], [1, 1, 1]),
        ([0, 0, 9, 0], [10, 10, 1, 10]),
        ([7], [1]),
    ],
)
def test_shorter_queues_are_drawn_more_often(queued: list[int], weights: list[int]) -> None:
    expected = [weight / sum(weights) for weight in weights]
    assert first_choices(queued) == pytest.approx(expected, abs=0.02)


def test_second_choice_uses_the_same_weights_for_the_rest() -> None:
    random = Random(5)
    orders = [list(draw_order([0, 1, 2], [0, 3, 1], random)) for _ in range(DRAWS)]
    after_first = Counter(order[1] for order in orders if order[0] == 0)
    assert after_first[2] / after_first.total() == pytest.approx(3 / 4, abs=0.02)


@pytest.mark.parametrize("queued", [None, [0, 4, 4, 9, 1]])
def test_each_partition_is_drawn_once(queued: list[int] | None) -> None:
    assert sorted(draw_order([3, 7, 8, 9, 11], queued, Random(1))) == [3, 7, 8, 9, 11]
    assert list(draw_order([], None if queued is None else [], Random(1))) == []


def test_without_loads_all_partitions_are_equal() -> None:
    random = Random(5)
    counts = Counter(next(draw_order([4, 6], None, random)) for _ in range(DRAWS))
    assert counts[4] / DRAWS == pytest.approx(0.5, abs=0.02)


def test_partitions_of_stalled_brokers_are_used_only_if_no_other_has_a_leader() -> None:
    leaders = {0: 1, 1: 2, 4: 1, 5: 3}
    assert available_partitions(leaders, frozenset()) == [0, 1, 4, 5]
    assert available_partitions(leaders, {1}) == [1, 5]
    assert available_partitions(leaders, {1, 2, 3}) == [0, 1, 4, 5]
    assert available_partitions({}, {1}) == []
