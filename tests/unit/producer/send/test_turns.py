"""Queues have their turn, however little room requests have."""

from __future__ import annotations

from typing import Any

import pytest

from spark_kafka_sink.client.cluster_snapshot import TopicPartition
from spark_kafka_sink.metrics.recorder import CloseReason
from spark_kafka_sink.producer.send.drainer import Drained
from tests.support.harness.fake import FakeCluster
from tests.support.harness.world import world


@pytest.mark.parametrize("in_flight", [1, 2, 5])
@pytest.mark.parametrize("partitions", [2, 3])
def test_queues_have_their_turn_where_requests_have_room_for_one_batch(
    partitions: int, in_flight: int
) -> None:
    """Rows without a partition lie beside those of another topic's partitions."""
    cluster = FakeCluster(topics={"other": partitions, "t": 1})
    options: dict[str, Any] = {
        "max_request_size": 1_000,
        "max_in_flight_requests_per_connection": in_flight,
    }
    with world(cluster, linger_ms=10**6, **options) as one:
        for count in (1, 12):  # a partition's first batch goes alone
            one.cluster.seen.clear()
            for partition in range(partitions):
                one.send_batches(count, partition, "other")
            one.send_batches(count, None)
            for place, _ in one.session._accumulator.open_batches():
                with one.session._accumulator.state.lock:
                    one.session._accumulator._close(place, CloseReason.FLUSH)
            one.finish()
        places = [place for seen in one.cluster.seen for place in seen.batches]
        for start in range(0, len(places), partitions + 1):
            assert len(set(places[start : start + partitions + 1])) == partitions + 1


def test_what_finds_no_room_in_a_request_is_overtaken_by_nothing_smaller() -> None:
    cluster = FakeCluster(topics={"t": 3})
    with world(cluster, max_request_size=1_000) as one:
        for partition, size in enumerate((300, 800, 100)):
            one.send([b"." * size], partition)
        one.finish()
    places = [sorted(seen.batches) for seen in cluster.seen]
    assert places == [[("t", 0)], [("t", 1)], [("t", 2)]]


def test_what_found_no_room_goes_with_the_next_request_of_the_same_turn() -> None:
    cluster = FakeCluster(topics={"other": 1, "t": 1})
    with world(cluster, max_request_size=1_000) as one:
        for _ in range(2):  # a partition's first batch goes alone
            one.finish()
            one.send_batches(1, 0, "other")
            one.send_batches(1, None)
        one.step()
        assert one.client.network.in_flight(1) == 2
        one.finish()


def test_a_request_that_is_closed_takes_nothing_more() -> None:
    drained = Drained({1: 1_000, 2: 1_000}, 0.0)
    place = TopicPartition("t", 0)
    assert drained.fits(place, 1, 1_001)  # the first may have any size
    drained.requests[1] = []
    assert drained.fits(place, 1, 1_000)
    assert not drained.fits(place, 1, 1_001)
    assert not drained.is_full({1}, 900)
    drained.close(1)
    assert not drained.fits(place, 1)
    assert drained.is_full({1}, 1)
    assert drained.fits(place, 2, 900)
