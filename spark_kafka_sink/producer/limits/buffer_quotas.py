"""The buffer space that each partition and each broker may use.

Quotas prevent a stalled partition or broker from using the whole buffer. With a quota of s percent
of buffer.memory (the option bufferShare):

- Together, the partitions of one broker use at most s percent of the buffer. One partition uses at
  most half of that, so that the other partitions of the broker make progress. A single row may
  exceed the limits. The broker's limit does not apply if there is only one broker, and the
  partition's limit does not apply if there is only one partition. The rest of the buffer stays
  available to the other brokers and partitions.
- Rows without a key wait without a partition. They do not count towards a quota until a batch of
  them can be sent at once. A partition does not get such a batch if the partition or its broker has
  used up its quota. Therefore, these rows never wait for a single stalled partition. If all
  partitions of their topic stall, they can fill the whole buffer. While keyed or explicitly
  partitioned rows of their topic wait, rows without a key are assigned to partitions with remaining
  quota and count towards it.
- Rows with a key or an explicit partition wait when the quota of their partition is used up. The
  other rows of the chunk are appended first. Because rows arrive in order, no later chunk is
  accepted before the waiting rows are appended: the writer blocks for at most max.block.ms while
  the sender continues.

Until the writer blocks, the other partitions continue at full speed and can use at least the rest
of the buffer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, TypeVar

from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER, UNASSIGNED, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from threading import RLock

    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot, ClusterTopic

_T = TypeVar("_T")
PARTITION_QUOTA_DIVISOR = 2
"""A partition's quota is the broker's quota divided by this number."""
_WHOLE = 100


class BufferQuotas:
    """The bytes charged for each partition's batches, and the quotas.

    Args:
        limit: the quota of one broker in bytes; None for no limit.
        lock: the session state's lock.
    """

    def __init__(self, limit: int | None, lock: RLock) -> None:
        self.limit = limit
        self._partition_limit = (limit or 0) // PARTITION_QUOTA_DIVISOR
        self._lock = lock

        # Guarded by the lock.
        self._held: dict[TopicPartition, int] = {}
        self._total = 0
        self._names: set[str] = set()
        self._cluster: ClusterSnapshot | None = None
        """The snapshot to which the fields below apply; None if they must be computed."""
        self._topics: dict[str, ClusterTopic] = {}
        """The topics that the session writes to."""
        self._bytes_by_broker: Counter[int] = Counter()
        """The bytes charged for the batches of each broker."""
        self._has_partitions = self._has_brokers = False
        """True if there is more than one, so that the limit of one applies."""

    @classmethod
    def of_percent(cls, percent: int, buffer_memory: int, lock: RLock) -> BufferQuotas:
        """Create quotas of `percent` of the buffer per broker; 100 or more means no limit."""
        return cls(None if percent >= _WHOLE else buffer_memory * percent // _WHOLE, lock)

    def charged_bytes(self, topic_partition: TopicPartition) -> int:
        """Return the bytes charged for a partition's batches."""
        with self._lock:
            return self._held.get(topic_partition, 0)

    def change(self, topic_partition: TopicPartition, size: int) -> None:
        """Add `size` bytes (may be negative) to a partition; ignore unassigned batches.

        The caller must hold the lock.
        """
        if topic_partition.partition == UNASSIGNED:
            return
        self._total += size
        held = self._held.get(topic_partition, 0) + size
        if held:
            self._held[topic_partition] = held
        else:
            self._held.pop(topic_partition, None)
        if self._cluster is not None:
            self._bytes_by_broker[self._leader(topic_partition)] += size

    def add_topics(self, topics: Iterable[ClusterTopic]) -> None:
        """Add topics that the session writes to."""
        names = {topic.name for topic in topics}
        with self._lock:
            if not self._names.issuperset(names):
                self._names |= names
                self._cluster = None

    def partitions_over_quota(
        self, size: int, cluster: ClusterSnapshot
    ) -> Mapping[str, Collection[int]]:
        """Return the partitions, by topic, whose quota `size` bytes would exceed.

        The result also contains all partitions whose leader's quota would be exceeded. A partition
        or broker without charged bytes is never over its quota.
        """
        over_quota: defaultdict[str, set[int]] = defaultdict(set)
        with self._lock:
            if self.limit is None or self._total + size <= self._partition_limit:
                return over_quota
            self._use_leaders(cluster)
            if self._has_partitions:
                for topic, partition in _owners_above(self._held, size, self._partition_limit):
                    over_quota[topic].add(partition)
            brokers = _owners_above(self._bytes_by_broker, size, self.limit) - {NO_LEADER}
            if self._has_brokers and brokers:
                for name, cluster_topic in self._topics.items():
                    leaders = enumerate(cluster_topic.leaders)
                    over_quota[name].update(
                        number for number, leader in leaders if leader in brokers
                    )
            return over_quota

    def is_over_quota(
        self, topic_partition: TopicPartition, size: int, cluster: ClusterSnapshot
    ) -> bool:
        """Return True if `partitions_over_quota` contains the partition; the cost is constant."""
        with self._lock:
            if self.limit is None or self._total + size <= self._partition_limit:
                return False
            self._use_leaders(cluster)
            leader = self._leader(topic_partition)
            held = self._held.get(topic_partition, 0)
            if self._has_partitions and held and held + size > self._partition_limit:
                return True
            if not self._has_brokers or leader == NO_LEADER:
                return False
            charged = self._bytes_by_broker[leader]
            return charged > 0 and charged + size > self.limit

    def _use_leaders(self, cluster: ClusterSnapshot) -> None:
        """Compute the bytes of each broker if the leaders may have changed."""
        if cluster is self._cluster:
            return
        self._cluster, current = cluster, cluster.topics
        self._topics = {name: current[name] for name in self._names if name in current}
        self._bytes_by_broker.clear()
        for topic_partition, size in self._held.items():
            self._bytes_by_broker[self._leader(topic_partition)] += size
        topics = self._topics.values()
        leaders = {leader for topic in topics for leader in topic.leaders}
        self._has_brokers = len(leaders - {NO_LEADER}) > 1
        self._has_partitions = sum(topic.partition_count for topic in topics) > 1

    def _leader(self, topic_partition: TopicPartition) -> int:
        topic = self._topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= topic.partition_count:
            return NO_LEADER
        return topic.leaders[topic_partition.partition]


def _owners_above(sizes: Mapping[_T, int], added: int, limit: int) -> set[_T]:
    return {owner for owner, size in sizes.items() if size and size + added > limit}
