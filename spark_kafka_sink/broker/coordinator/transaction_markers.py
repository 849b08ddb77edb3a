"""Ends of transactions on their way into the partitions.

As Kafka's TransactionMarkerChannelManager, but without the network between coordinator and leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.coordinator.transactional_offsets import OFFSETS_TOPIC

if TYPE_CHECKING:
    from spark_kafka_sink.broker.cluster.topics import Topics
    from spark_kafka_sink.broker.coordinator.group_coordinator import Groups
    from spark_kafka_sink.broker.coordinator.transaction_metadata import Place
    from spark_kafka_sink.broker.coordinator.transactional_offsets import OffsetsPartition
    from spark_kafka_sink.broker.partition.control_batch import Marker
    from spark_kafka_sink.broker.purgatory import DelayedAnswers
    from spark_kafka_sink.common.clock import Clock


class Markers:
    """Writes markers; `offsets` takes those of the offsets topic."""

    __slots__ = ("_clock", "_delayed", "_groups", "_topics", "offsets")

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        offsets: OffsetsPartition,
        delayed: DelayedAnswers,
        clock: Clock,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._delayed = delayed
        self._clock = clock
        self.offsets = offsets

    def write(self, place: Place, marker: Marker) -> bool:
        """Write a marker; False while the partition has no leader. A deleted one needs none."""
        name, index = place
        if name == OFFSETS_TOPIC:
            self.offsets.end(marker, self._groups)
            return True
        topic = self._topics.named(name)
        partition = topic.partition(index) if topic else None
        if topic is None or partition is None:
            return True
        if partition.leader < 0:
            return False
        try:
            partition.end_transaction(marker, topic.config, self._clock.wall_ms())
        except OSError:
            return False
        self._delayed.wake((name, index))
        return True
