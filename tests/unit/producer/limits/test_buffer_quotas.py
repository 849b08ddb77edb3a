"""Buffer shares of partitions and brokers."""

from dataclasses import replace
from threading import RLock, Thread
from types import MappingProxyType

import pytest

from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot, ClusterTopic
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.producer.limits.buffer_quotas import BufferQuotas
from tests.support.harness.offline import topic

LIMIT = 200
"""Of a broker; a partition may hold half of it."""
WIDE = replace(topic("t", 6), leaders=(1, 2, 1, 2, 1, 2))


def partition_of(partition: int, name: str = "t") -> TopicPartition:
    return TopicPartition(name, partition)


def known(*topics: ClusterTopic) -> dict[str, ClusterTopic]:
    return {info.name: info for info in topics}


def find_over_quota(
    held: dict[TopicPartition, int], topics: dict[str, ClusterTopic], more: int, limit: int
) -> dict[str, set[int]]:
    """Return the partitions over quota, and check that `is_over_quota` agrees for each."""
    quotas, there = BufferQuotas(limit, RLock()), ClusterSnapshot(topics=MappingProxyType(topics))
    quotas.add_topics(topics.values())
    for number, (partition, size) in enumerate(held.items()):
        quotas.change(partition, size)
        if number == len(held) // 2:
            # The sums follow the metadata that comes later.
            quotas.partitions_over_quota(limit, cluster(WIDE))
    over_quota = quotas.partitions_over_quota(more, there)
    topic_partitions = {partition_of(number, name) for name in topics for number in range(9)}
    for name, number in topic_partitions | held.keys():
        assert quotas.is_over_quota(partition_of(number, name), more, there) == (
            number in over_quota.get(name, ())
        )
    return {name: set(numbers) for name, numbers in over_quota.items() if numbers}


@pytest.mark.parametrize(
    ("held", "more", "over_quota"),
    [
        ({0: 50}, 50, set()),
        ({0: 50}, 51, {0}),
        ({0: 100}, 0, set()),
        ({0: 101}, 0, {0}),
        ({0: 60, 1: 70, 2: 10}, 41, {0, 1}),
        ({}, 1_000, set()),
    ],
)
def test_partition_holds_at_most_its_share(
    held: dict[int, int], more: int, over_quota: set[int]
) -> None:
    sizes = {partition_of(number): size for number, size in held.items()}
    assert find_over_quota(sizes, known(topic("t", 4)), more, LIMIT) == (
        {"t": over_quota} if over_quota else {}
    )


def test_broker_uses_the_sum_of_its_partitions() -> None:
    held = {partition_of(0): 85, partition_of(2): 85, partition_of(1): 85}
    assert not find_over_quota(held, known(WIDE), 15, LIMIT)
    held |= {partition_of(4): 16}
    assert find_over_quota(held, known(WIDE), 15, LIMIT) == {"t": {0, 2, 4}}


def test_partition_over_quota_leaves_room_for_others() -> None:
    assert find_over_quota({partition_of(0): 100}, known(WIDE), 10, LIMIT) == {"t": {0}}


def test_single_partition_may_use_the_whole_buffer() -> None:
    assert not find_over_quota({partition_of(0): 1_000}, known(topic("t", 1)), 1, LIMIT)
    both = known(topic("t", 1), topic("u", 1))
    assert find_over_quota({partition_of(0): 1_000}, both, 1, LIMIT) == {"t": {0}}


def test_single_broker_may_use_the_whole_buffer() -> None:
    held = {partition_of(number): 90 for number in range(6)}
    assert not find_over_quota(held, known(topic("t", 6)), 10, LIMIT)
    assert find_over_quota(held, known(WIDE), 10, LIMIT) == {"t": set(range(6))}


def test_partitions_without_leader_belong_to_no_broker() -> None:
    info = replace(topic("t", 4), leaders=(-1, -1, 1, 2))
    assert not find_over_quota({partition_of(0): 90, partition_of(1): 90}, known(info), 10, LIMIT)
    held = {partition_of(0): 190, partition_of(1): 90}
    assert find_over_quota(held, known(info), 11, LIMIT) == {"t": {0, 1}}


def test_deleted_topic_counts_only_per_partition() -> None:
    held = {partition_of(7): 90, partition_of(0, "gone"): 90}
    assert find_over_quota(held, known(WIDE), 20, LIMIT) == {"t": {7}, "gone": {0}}


def cluster(*topics: ClusterTopic) -> ClusterSnapshot:
    return ClusterSnapshot(topics=MappingProxyType(known(*topics)))


def test_usage_per_partition_and_broker() -> None:
    quotas = BufferQuotas(LIMIT, RLock())
    quotas.add_topics([WIDE])
    quotas.change(partition_of(0), 80)
    quotas.change(partition_of(1), 10)
    assert quotas.partitions_over_quota(21, cluster(WIDE)) == {"t": {0}}
    quotas.change(partition_of(0), -80)
    assert (quotas.charged_bytes(partition_of(0)), quotas.charged_bytes(partition_of(1))) == (0, 10)
    assert not quotas.partitions_over_quota(90, cluster(WIDE))


def test_only_written_topics_count_for_shares() -> None:
    quotas = BufferQuotas(LIMIT, RLock())
    quotas.add_topics([topic("t", 1)])
    quotas.change(partition_of(0), 1_000)
    there = cluster(topic("t", 1), topic("elsewhere", 9))
    assert not quotas.partitions_over_quota(1, there)
    quotas.add_topics([topic("elsewhere", 9)])
    assert quotas.partitions_over_quota(1, there)


def test_nothing_is_full_without_a_limit() -> None:
    quotas = BufferQuotas(None, RLock())
    quotas.add_topics([WIDE])
    quotas.change(partition_of(0), 1 << 40)
    assert not quotas.partitions_over_quota(1 << 40, cluster(WIDE))


class ConcurrentTopics(dict[str, ClusterTopic]):
    """Topics whose lookup lets another thread add a topic to the quotas."""

    def __init__(self, topics: dict[str, ClusterTopic], quotas: BufferQuotas) -> None:
        super().__init__(topics)
        self.writer = Thread(target=quotas.add_topics, args=(topics.values(),))

    def __contains__(self, name: object) -> bool:
        if not self.writer.ident:
            self.writer.start()
            self.writer.join(0.3)  # the writer waits for the lock
        return super().__contains__(name)


def test_writer_adds_topic_while_sender_counts_shares() -> None:
    quotas, both = BufferQuotas(LIMIT, RLock()), (topic("t", 1), topic("u", 1))
    quotas.add_topics(both[:1])
    quotas.change(partition_of(0), 1_000)
    topics = ConcurrentTopics(known(*both), quotas)
    assert not quotas.partitions_over_quota(1, ClusterSnapshot(topics=MappingProxyType(topics)))
    topics.writer.join()
    assert quotas.partitions_over_quota(1, cluster(*both)) == {"t": {0}}
