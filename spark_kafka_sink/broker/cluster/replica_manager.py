"""Replication: in-sync replicas, high watermarks and partition reassignments (KIP-455).

In-sync replicas and high watermarks are implemented as in Kafka's Partition class. A follower that
has not caught up for longer than replica.lag.time.max.ms is removed from the in-sync replicas. The
follower is added again when it has all records below the high watermark. The high watermark
advances only while at least min.insync.replicas replicas are in sync (KIP-966).

Reassignments are implemented as in Kafka's controller. During a reassignment, a partition has both
the target replicas and the replicas to be removed. When all added replicas are in sync, the
replicas to be removed are dropped, and one of the remaining replicas becomes the leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.topics import TopicError, Topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_kafka_sink.broker.cluster.elections import Elections
    from spark_kafka_sink.broker.cluster.nodes import NodeStates
    from spark_kafka_sink.broker.partition.partition import Partition, Topic
    from spark_kafka_sink.broker.purgatory import DelayedOperationPurgatory


class ReplicaManager:
    """Replicates partitions. Each follower copies records after a configured lag.

    A follower that has not caught up for `max_lag` seconds is removed from the in-sync replicas.
    """

    def __init__(
        self,
        nodes: NodeStates,
        topics: Topics,
        purgatory: DelayedOperationPurgatory,
        max_lag: float,
    ) -> None:
        self._nodes = nodes
        self._topics = topics
        self._purgatory = purgatory
        self._max_lag = max_lag

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
            states.appended(partition.log.end_offset, now)
        if partition.leader < 0 or not self._nodes[partition.leader].fetches:
            return
        self._copy(partition, now)
        for node in partition.in_sync:
            if node != partition.leader and states.end(node) < states.seen_end:
                states.track(node, now)
        self._update_in_sync(partition, now)
        self._raise_watermark(partition)
        if before != (states.high_watermark, partition.in_sync):
            self._purgatory.wake((partition.topic, partition.index))

    def _copy(self, partition: Partition, now: float) -> None:
        states, slowest = partition.replica_states, 0.0
        for node in self._followers(partition):
            lag = self._nodes[node].lag
            if states.end(node) < states.seen_end and states.next_step(node) is None:
                states.appended(states.seen_end, now)  # Catch up after inactivity.
            states.copy(node, now - lag, now)
            slowest = max(slowest, lag)
        states.forget_before(now - slowest)

    def _followers(self, partition: Partition) -> list[int]:
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
        caught_up = states.end(node) >= states.high_watermark
        return caught_up and status.is_active and status.fetches

    def _raise_watermark(self, partition: Partition) -> None:
        if len(partition.in_sync) < self.min_in_sync(partition):
            return
        states = partition.replica_states
        ends = [states.end(node) for node in partition.in_sync if node != partition.leader]
        lowest = min([partition.log.end_offset, *ends])
        states.high_watermark = max(states.high_watermark, lowest)

    def min_in_sync(self, partition: Partition) -> int:
        """Return the topic's min.insync.replicas, or the number of replicas if that is lower."""
        topic = self._topics.named(partition.topic)
        least = topic.config.batch_rules.min_in_sync if topic else 1
        return min(least, len(partition.replicas))

    def next_deadline(self) -> float | None:
        """Return the time in monotonic seconds at which a follower next copies records, or None."""
        due = (
            step + self._nodes[node].lag
            for partition in self.replicated()
            if partition.leader >= 0 and partition.replica_states.has_lagging_follower
            for node in self._followers(partition)
            if (step := partition.replica_states.next_step(node)) is not None
        )
        return min(due, default=None)


class Reassignments:
    """The ongoing reassignments, by topic and partition index."""

    def __init__(self, topics: Topics, elections: Elections) -> None:
        self._topics = topics
        self._elections = elections
        self._ongoing: dict[tuple[str, int], Partition] = {}

    def ongoing(self) -> list[Partition]:
        """Return the partitions that are being reassigned."""
        return [self._ongoing[key] for key in sorted(self._ongoing)]

    def begin(self, topic: Topic, partition: Partition, target: Sequence[int]) -> None:
        """Start to move a partition to the replicas in `target`, preferred leader first.

        Raises:
            TopicError: `target` is empty, or contains duplicate or unknown nodes.
        """
        if problem := self._topics.problem_with_replicas(target):
            raise TopicError(ErrorCode.invalid_replica_assignment, problem)
        original = [node for node in partition.replicas if node not in partition.adding]
        if len(partition.replicas) == 1:
            partition.replica_states.begin(partition.log.end_offset)
        partition.adding = [node for node in target if node not in original]
        partition.removing = [node for node in partition.replicas if node not in target]
        partition.replicas = [*target, *partition.removing]
        topic.is_replicated = topic.is_replicated or len(partition.replicas) > 1
        self._ongoing[partition.topic, partition.index] = partition
        self._topics.store.save(topic)

    def cancel(self, topic: Topic, partition: Partition) -> None:
        """Cancel the reassignment of a partition.

        Raises:
            TopicError: no reassignment is in progress, or no original replica is in sync.
        """
        if (partition.topic, partition.index) not in self._ongoing:
            raise TopicError(ErrorCode.no_reassignment_in_progress, "")
        original = [node for node in partition.replicas if node not in partition.adding]
        if not set(original) & set(partition.in_sync):
            raise TopicError(
                ErrorCode.invalid_replica_assignment, "None of the original replicas is in sync."
            )
        self._end(topic, partition, original)

    def tick(self) -> None:
        """Complete the reassignments whose added replicas are all in sync."""
        for partition in self.ongoing():
            topic = self._topics.named(partition.topic)
            if topic is None or topic.partition(partition.index) is not partition:
                del self._ongoing[partition.topic, partition.index]
                continue
            target = [node for node in partition.replicas if node not in partition.removing]
            in_sync = set(partition.in_sync)
            if set(partition.adding) <= in_sync and in_sync & set(target):
                self._end(topic, partition, target)

    def _end(self, topic: Topic, partition: Partition, replicas: list[int]) -> None:
        removed = [node for node in partition.replicas if node not in replicas]
        partition.adding, partition.removing = [], []
        self._elections.set_replicas(partition, replicas)
        for node in removed:
            partition.replica_states.forget(node)
        del self._ongoing[partition.topic, partition.index]
        self._topics.store.save(topic)
