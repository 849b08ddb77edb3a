"""Which partition rows without a key go to next, by the load of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from spark_kafka_sink.producer.sticky import Sticky, draw_from
from tests.unit.producer.harness.offline import topic

if TYPE_CHECKING:
    from spark_kafka_sink.client.cluster import TopicInfo

NOBODY: frozenset[int] = frozenset()
DRAWS = 20_000


class Told:
    """Loads as a test sets them."""

    def __init__(self, queued: list[int] | None = None, left_out: frozenset[int] = NOBODY) -> None:
        self.lengths = queued
        self.absent = left_out
        self.asked = 0

    def left_out(self, _: TopicInfo, /) -> frozenset[int]:
        return self.absent

    def queued(self, _: TopicInfo, /) -> list[int] | None:
        self.asked += 1
        return self.lengths


def shares(queued: list[int], left_out: frozenset[int] = NOBODY) -> list[float]:
    """How often each partition is drawn."""
    draw, random = draw_from(topic("t", len(queued)), left_out, queued), Random(5)
    counts = Counter(draw.one(random) for _ in range(DRAWS))
    return [counts[partition] / DRAWS for partition in range(len(queued))]


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
    assert shares(queued) == pytest.approx(expected, abs=0.02)


def test_what_is_left_out_is_never_drawn() -> None:
    assert shares([0, 0, 4, 4], frozenset({0, 2})) == pytest.approx([0, 5 / 6, 0, 1 / 6], abs=0.02)


def test_where_all_are_left_out_all_count_again() -> None:
    assert shares([1, 1], frozenset({0, 1})) == pytest.approx([0.5, 0.5], abs=0.02)


def test_a_partition_without_a_leader_is_the_last_resort() -> None:
    info = replace(topic("t", 3), leaders=(1, -1, 1))
    assert set(draw_from(info, frozenset({0}), None).partitions) == {2}
    assert set(draw_from(info, frozenset({0, 2}), None).partitions) == {0, 2}
    nobody = replace(info, leaders=(-1, -1, -1))
    assert set(draw_from(nobody, frozenset({1}), [0, 0, 0]).partitions) == {0, 1, 2}


def test_a_left_out_partition_is_left_at_once() -> None:
    told = Told()
    sticky, info = Sticky(10**6, Random(2), told), topic("t", 50)
    one = np.full(1, 10, np.int64)
    (first,) = sticky.assign(info, one)
    assert sticky.assign(info, one) == [first]
    told.absent = frozenset({int(first)})
    (second,) = sticky.assign(info, one)
    assert second != first
    told.absent = frozenset({int(first), 17})
    assert sticky.assign(info, one) == [second]


def test_rows_move_on_although_every_partition_is_left_out() -> None:
    sticky = Sticky(100, Random(2), Told(left_out=frozenset({0, 1})))
    chosen = sticky.assign(topic("t", 2), np.full(400, 10, np.int64))
    assert set(chosen.tolist()) == {0, 1}


def test_the_queues_are_asked_once_per_chunk_and_only_to_choose() -> None:
    told = Told([0] * 50)
    sticky, info = Sticky(100, Random(2), told), topic("t", 50)
    sticky.assign(info, np.full(100, 10, np.int64))
    assert told.asked == 1
    sticky.assign(info, np.full(5, 10, np.int64))
    assert told.asked == 2
    sticky.assign(info, np.full(5, 10, np.int64))
    assert told.asked == 2


def test_a_long_queue_gets_fewer_batches_of_rows() -> None:
    told = Told([19, 0, 0, 0])
    sticky = Sticky(100, Random(2), told)
    chosen = sticky.assign(topic("t", 4), np.full(20_000, 10, np.int64))
    assert np.mean(chosen == 0) == pytest.approx(1 / 61, abs=0.01)
