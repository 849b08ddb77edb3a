"""Topics that have unsent rows with a partition: rows without one get it earlier there.

Normally, unassigned batches get a partition when they are drained. While a topic has unsent rows
with a partition, its unassigned batches are sent first, and new rows without a partition get one
when they are appended (design.md: unassigned-first).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED

if TYPE_CHECKING:
    from collections.abc import Collection

    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.buffer.batch_queues import BatchQueues
    from spark_kafka_sink.producer.buffer.session_state import SessionState
    from spark_kafka_sink.producer.limits.buffer_quotas import BufferQuotas


class AssignedTopics:
    """The topics of one session that have unsent rows with a partition."""

    def __init__(
        self,
        state: SessionState,
        accumulator: Accumulator,
        queues: BatchQueues,
        quotas: BufferQuotas,
    ) -> None:
        self._lock = state.lock  # guards `_topics`
        self._accumulator = accumulator
        self._queues = queues
        self._quotas = quotas
        self._topics: set[str] = set()

    def add(self, topics: Collection[str]) -> None:
        """Add topics whose next rows have partitions; writer thread only."""
        with self._lock:
            if self._topics.issuperset(topics):
                return
            self._topics.update(topics)
            self._accumulator.close_unassigned(self._topics)

    def remove_sent(self, topics: Collection[str]) -> None:
        """Remove the topics whose rows with a partition have all been sent; writer thread only."""
        with self._lock:
            if self._topics.isdisjoint(topics):
                return
            open_partitions = (partition for partition, _ in self._accumulator.open_batches())
            busy = {
                topic
                for topic, partition in (*self._queues.waiting(), *open_partitions)
                if partition != UNASSIGNED
            }
            self._topics.difference_update(set(topics) - busy)

    def __contains__(self, topic: str) -> bool:
        """Return True if unassigned rows of a topic get a partition when they are appended."""
        with self._lock:
            return topic in self._topics

    def may_assign(
        self, batch: ProducerBatch, topic_partition: TopicPartition, cluster: ClusterSnapshot
    ) -> bool:
        """Return True if the quotas of a partition and its broker have room for a batch.

        The quotas are ignored if rows with a partition wait for unassigned batches, because these
        rows might be using up the quotas.
        """
        if topic_partition.topic in self:
            return True
        return not self._quotas.is_over_quota(topic_partition, batch.payload_size, cluster)
