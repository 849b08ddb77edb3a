"""Fair rotation of queues, even if requests have little room."""

from typing import Any

import pytest

from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.producer.send.drainer import DrainResult
from tests.support.harness.fake import FakeCluster
from tests.support.harness.world import world


@pytest.mark.parametrize("in_flight", [1, 2, 5])
@pytest.mark.parametrize("partitions", [2, 3])
def test_queues_rotate_if_requests_have_room_for_one_batch(partitions: int, in_flight: int) -> None:
    """Keyless rows are queued beside partitions of another topic."""
    cluster = FakeCluster(topics={"other": partitions, "t": 1})
    options: dict[str, Any] = {
        "max_request_size": 1_000,
        "max_in_flight_requests_per_connection": in_flight,
    }
    with world(cluster, linger_ms=10**6, **options) as sim:
        for count in (1, 12):  # a partition's first batch is sent alone
            sim.cluster.seen.clear()
            for partition in range(partitions):
                sim.send_batches(count, partition, "other")
            sim.send_batches(count, None)
            sim.close_batches()
            sim.finish()
        topic_partitions = [
            topic_partition for seen in sim.cluster.seen for topic_partition in seen.batches
        ]
        for start in range(0, len(topic_partitions), partitions + 1):
            assert len(set(topic_partitions[start : start + partitions + 1])) == partitions + 1


def test_batch_that_does_not_fit_is_not_overtaken_by_smaller_ones() -> None:
    cluster = FakeCluster(topics={"t": 3})
    with world(cluster, max_request_size=1_000) as sim:
        for partition, size in enumerate((300, 800, 100)):
            sim.send([b"." * size], partition)
        sim.finish()
    topic_partitions = [sorted(seen.batches) for seen in cluster.seen]
    assert topic_partitions == [[("t", 0)], [("t", 1)], [("t", 2)]]


def test_batch_that_does_not_fit_is_sent_with_the_next_request_of_the_step() -> None:
    cluster = FakeCluster(topics={"other": 1, "t": 1})
    with world(cluster, max_request_size=1_000) as sim:
        for _ in range(2):  # a partition's first batch is sent alone
            sim.finish()
            sim.send_batches(1, 0, "other")
            sim.send_batches(1, None)
        sim.step()
        assert sim.client.network.in_flight(1) == 2
        sim.finish()


def test_closed_request_accepts_no_more_batches() -> None:
    result = DrainResult({1: 1_000, 2: 1_000}, 0.0)
    topic_partition = TopicPartition("t", 0)
    assert result.fits(topic_partition, 1, 1_001)  # the first batch may have any size
    result.requests[1] = []
    assert result.fits(topic_partition, 1, 1_000)
    assert not result.fits(topic_partition, 1, 1_001)
    assert not result.is_full({1}, 900)
    result.close(1)
    assert not result.fits(topic_partition, 1)
    assert result.is_full({1}, 1)
    assert result.fits(topic_partition, 2, 900)
