"""Replication: in-sync replicas and high watermarks.

In-sync replicas and high watermarks are implemented as in Kafka's Partition class. A follower that
has not caught up for longer than replica.lag.time.max.ms is removed from the in-sync replicas. The
follower is added again when it has all records below the high watermark. The high watermark
advances only while at least min.insync.replicas replicas are in sync (KIP-966).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.broker.cluster.nodes import NodeControl
    from spark_kafka_sink.broker.cluster.topics import Topics
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.requests.purgatory import DelayedOperationPurgatory


@dataclass(frozen=True, slots=True)
class ReplicaManager:
    """Replicates partitions. Each follower copies records after a configured lag.

    A follower that has not caught up for `max_lag` seconds is removed from the in-sync replicas.
    """

    _nodes: NodeControl
    _topics: Topics
    _purgatory: DelayedOperationPurgatory
    _max_lag: float

    def replicated(self) -> Iterable[Partition]:
        """Yield the partitions of all replicated topics."""
        for topic in self._topics.all():
            if topic.is_replicated:
                yield from topic.partitions

    def tick(self, now: float) -> None:
        """Replicate the records whose lag has passed, in all partitions."""
        for partition in self.replicated():
            states, end = partition.replica_states, partition.log.end_offset
            is_fully_in_sync = len(partition.in_sync) == len(partition.replicas)
            if not (is_fully_in_sync and states.seen_end == end == states.high_watermark):
                self.advance(partition, now)

    def advance(self, partition: Partition, now: float) -> None:
        """Replicate a partition's records whose lag has passed, and wake waiting requests."""
        if len(partition.replicas) == 1:
            return
        states = partition.replica_states
        before = (states.high_watermark, list(partition.in_sync))
        if partition.log.end_offset != states.seen_end:
            states.record_append(partition.log.end_offset, now)
        if partition.leader < 0 or not self._nodes[partition.leader].fetches:
            return
        self._copy_to_followers(partition, now)
        for node in partition.in_sync:
            if node != partition.leader and states.ends[node] < states.seen_end:
                states.track(node, now)
        self._update_in_sync(partition, now)
        self._raise_watermark(partition)
        if before != (states.high_watermark, partition.in_sync):
            self._purgatory.wake(partition.topic_partition)

    def next_deadline(self) -> float | None:
        """Return the time in monotonic seconds at which a follower next copies records, or None."""
        due = (
            step + self._nodes[node].lag
            for partition in self.replicated()
            if partition.leader >= 0 and partition.replica_states.has_lagging_follower
            for node in self._fetching_followers(partition)
            if (step := partition.replica_states.next_step(node)) is not None
        )
        return min(due, default=None)

    def _copy_to_followers(self, partition: Partition, now: float) -> None:
        states, slowest = partition.replica_states, 0.0
        for node in self._fetching_followers(partition):
            lag = self._nodes[node].lag
            if states.ends[node] < states.seen_end and states.next_step(node) is None:
                states.record_append(states.seen_end, now)  # Catch up after inactivity.
            states.copy(node, now - lag, now)
            slowest = max(slowest, lag)
        states.forget_before(now - slowest)

    def _fetching_followers(self, partition: Partition) -> list[int]:
        """Return the ids of the followers that fetch from the leader."""
        others = (node for node in partition.replicas if node != partition.leader)
        return [node for node in others if self._nodes[node].fetches]

    def _update_in_sync(self, partition: Partition, now: float) -> None:
        """Update the in-sync replicas, in the order of the replicas."""
        partition.in_sync = [
            node
            for node in partition.replicas
            if node == partition.leader or self._is_in_sync(partition, node, now)
        ]

    def _is_in_sync(self, partition: Partition, node: int, now: float) -> bool:
        states, status = partition.replica_states, self._nodes[node]
        if node in partition.in_sync:
            return not states.is_lagging(node, now, self._max_lag)
        has_caught_up = states.ends[node] >= states.high_watermark
        return has_caught_up and status.is_active and status.fetches

    def _raise_watermark(self, partition: Partition) -> None:
        if len(partition.in_sync) < partition.min_in_sync:
            return
        states = partition.replica_states
        ends = [states.ends[node] for node in partition.in_sync if node != partition.leader]
        lowest = min([partition.log.end_offset, *ends])
        states.high_watermark = max(states.high_watermark, lowest)
