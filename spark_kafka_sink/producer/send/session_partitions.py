"""The states of all partitions of a session, and a drained batch with the state of its partition.

Used only by the sender thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.producer.send.partition_state import PartitionState

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.buffer.batch_queues import BatchQueues


class SessionPartitions:
    """The states of the partitions that a session has sent to.

    Args:
        queues: the batches that were never sent.
    """

    def __init__(self, queues: BatchQueues) -> None:
        self._queues = queues
        self._states: dict[TopicPartition, PartitionState] = {}
        self._retried: set[TopicPartition] = set()
        """Partitions with retries, and some whose retries were sent since `with_retries`."""

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def get(self, topic_partition: TopicPartition) -> PartitionState | None:
        """Return the state of a partition; None before it is first needed."""
        return self._states.get(topic_partition)

    def of(self, topic_partition: TopicPartition) -> PartitionState:
        """Return the state of a partition; create it if necessary."""
        state = self._states.get(topic_partition)
        if state is None:
            state = self._states[topic_partition] = PartitionState(topic_partition, self._retried)
        return state

    def with_retries(self) -> set[TopicPartition]:
        """Return the partitions that have retries; the cost does not depend on the others."""
        done = [partition for partition in self._retried if not self._states[partition].has_retries]
        self._retried.difference_update(done)
        return self._retried

    def take_retries(self, should_remove: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Remove and return the retries of all partitions for which `should_remove` is true."""
        retried = [self._states[partition] for partition in self.with_retries()]
        return [batch for state in retried for batch in state.take_retries(should_remove)]

    def take_waiting(self, should_remove: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Remove and return the retries and the first batches of queues that are to be removed."""
        return self.take_retries(should_remove) + self._queues.take_first(should_remove)

    def abandon_in_flight(
        self, should_abandon: Callable[[ProducerBatch], bool]
    ) -> list[ProducerBatch]:
        """Remove and return batches in flight, marked as possibly persisted.

        These are the batches of all partitions for which `should_abandon` is true.
        """
        busy = [state for state in self if state.is_busy]
        return [batch for state in busy for batch in state.abandon_in_flight(should_abandon)]

    def abandon(self, should_abandon: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Remove and return batches in any state: retries, then in flight, then unsent batches.

        Those in flight are marked as possibly persisted.
        """
        abandoned = self.take_retries(should_abandon)
        abandoned += self.abandon_in_flight(should_abandon)
        return abandoned + self._queues.take_first(should_abandon)

    def waiting_for(self, node_id: int, cluster: ClusterSnapshot) -> list[ProducerBatch]:
        """Return the incomplete batches that wait for a broker."""
        waiting = [
            batch
            for state in self
            if node_id in {state.leader, cluster.leader(*state.topic_partition)}
            for batch in (*state.in_flight, *state.retries)
        ]
        return waiting + self._queues.batches_of(
            lambda topic_partition: cluster.leader(*topic_partition) == node_id
        )

    def waiting_for_metadata(self, cluster: ClusterSnapshot) -> list[ProducerBatch]:
        """Return the batches whose topic is unknown."""
        return self._queues.batches_of(
            lambda topic_partition: topic_partition.topic not in cluster.topics
        )

    def unacknowledged(self, topic: str) -> Counter[int]:
        """Return the number of batches queued for or in flight to each partition of a topic."""
        counts = self._queues.lengths(topic)
        for state in self:
            if state.topic_partition.topic == topic:
                counts[state.topic_partition.partition] += len(state.in_flight) + len(state.retries)
        return counts

    def seconds_until_retry(self, now: float) -> float:
        """Return the seconds until the next retry can be sent; infinite if no retry is queued."""
        times = [self._states[partition].retry_at - now for partition in self.with_retries()]
        return min([time for time in times if time > 0], default=float("inf"))


class DrainedBatch(NamedTuple):
    """A drained batch, and the state of its partition."""

    state: PartitionState
    batch: ProducerBatch
