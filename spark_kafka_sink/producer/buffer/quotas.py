"""Quotas of the buffer: a stalled partition or broker must not hold all of it.

With a quota of s percent of buffer.memory (the option bufferShare):
- No broker's partitions hold more than s percent together, and no partition more than half of
  that, so that its neighbours on the broker go on too. Exempt are the only broker and the only
  partition that the session's topics have, and one row that is larger. What is beyond the quota
  stays free for the others.
- Rows without a key wait unassigned and count towards no quota, until a batch of them can be sent
  at once; a partition that has used up its quota, or whose broker has, is given none. So they never
  wait for what is stalled, only for room in the whole buffer: it is theirs where all of their
  topic is stalled. While rows of their topic that belong to one partition wait, they are given
  partitions whose quota is not used up, and count as theirs.
- Rows that belong to one partition, by key or by number, wait when its quota is used up. The
  chunk's other rows go first. But rows come in one order, and what comes after can't be taken
  until these are: then the writer stands still, for at most max.block.ms, while everything that
  it has handed over goes on being sent.
The time until then is what the quota buys: the others run at full speed, with at least the rest
of the buffer to themselves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from spark_kafka_sink.client.cluster import NO_LEADER
from spark_kafka_sink.client.topic_partition import UNASSIGNED, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_kafka_sink.client.cluster import Cluster, TopicInfo

_T = TypeVar("_T")


PARTITIONS_PART = 2
"""A partition may hold this part of what a broker may."""
_WHOLE = 100


@dataclass(frozen=True, slots=True)
class Full:
    """Partitions and brokers that can't be given more."""

    partitions: frozenset[TopicPartition] = frozenset()
    brokers: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.partitions or self.brokers)

    def of(self, topic: TopicInfo) -> frozenset[int]:
        """The topic's partitions among them, or led by one of them."""
        if not self:
            return frozenset()
        return frozenset(
            number
            for number, leader in enumerate(topic.leaders)
            if leader in self.brokers or TopicPartition(topic.name, number) in self.partitions
        )


NOTHING_FULL = Full()


def find_full(
    held: Mapping[TopicPartition, int],
    topics: Mapping[str, TopicInfo],
    more: int,
    limit: int,
) -> Full:
    """Who would hold too much with `more` bytes in addition; who holds nothing may.

    `limit` is that of a broker, a partition has half of it; `topics` are all that the session
    writes to.
    """
    brokers: Counter[int] = Counter()
    for topic_partition, size in held.items():
        brokers[_leader(topics, topic_partition)] += size
    full_brokers = _over(brokers, more, limit)
    known_brokers = {leader for topic in topics.values() for leader in topic.leaders}
    partitions = sum(topic.partition_count for topic in topics.values())
    return Full(
        _over(held, more, limit // PARTITIONS_PART) if partitions > 1 else frozenset(),
        full_brokers - {NO_LEADER} if len(known_brokers - {NO_LEADER}) > 1 else frozenset(),
    )


def _over(held: Mapping[_T, int], more: int, limit: int) -> frozenset[_T]:
    return frozenset(who for who, size in held.items() if size and size + more > limit)


def _leader(topics: Mapping[str, TopicInfo], topic_partition: TopicPartition) -> int:
    topic = topics.get(topic_partition.topic)
    if topic is None or topic_partition.partition >= topic.partition_count:
        return NO_LEADER
    return topic.leaders[topic_partition.partition]


class BufferQuotas:
    """Bytes of the batches that each partition has in the buffer, and the most it may have.

    `limit` is that of one broker, in bytes; None for no limit.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit

        # Guarded by the lock of the session's state, which callers hold.
        self.held: dict[TopicPartition, int] = {}
        self._total = 0
        self._topics: set[str] = set()

    @classmethod
    def of_percent(cls, percent: int, buffer_memory: int) -> BufferQuotas:
        """So many percent of the buffer for one broker; no limit where that is all of it."""
        return cls(None if percent >= _WHOLE else buffer_memory * percent // _WHOLE)

    def change(self, topic_partition: TopicPartition, size: int) -> None:
        """A partition holds `size` bytes more, or less; unassigned batches count for none."""
        if topic_partition.partition == UNASSIGNED:
            return
        self._total += size
        now = self.held.get(topic_partition, 0) + size
        if now:
            self.held[topic_partition] = now
        else:
            self.held.pop(topic_partition, None)

    def learn(self, topics: Iterable[TopicInfo]) -> None:
        """The session writes to these topics too."""
        self._topics.update(topic.name for topic in topics)

    def full(self, more: int, cluster: Cluster) -> Full:
        """Who can't be given `more` bytes, as the brokers lead now."""
        if self.limit is None or self._total + more <= self.limit // PARTITIONS_PART:
            return NOTHING_FULL
        known = cluster.topics
        topics = {name: known[name] for name in self._topics if name in known}
        return find_full(self.held, topics, more, self.limit)
