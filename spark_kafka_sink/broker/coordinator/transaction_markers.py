"""Ends of transactions on their way into the partitions.

As Kafka's TransactionMarkerChannelManager, but without the network between coordinator and leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.coordinator.transactional_offsets import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.coordinator.group_coordinator import GroupCoordinator
    from spark_kafka_sink.broker.coordinator.transactional_offsets import TransactionalOffsets
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.broker.purgatory import DelayedOperationPurgatory
    from spark_kafka_sink.broker.topic_partition import TopicPartition
    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.records.control_batch import EndTransactionMarker


class TransactionMarkerWriter:
    """Appends transaction markers to partitions.

    Args:
        find_topic: finds a topic by its name.
        groups: get the offsets of a committed transaction.
        offsets: takes the markers of the offsets topic.
        purgatory: told of partitions whose last stable offset may have moved.
        clock: time of the markers.
    """

    __slots__ = ("_clock", "_find_topic", "_groups", "_offsets", "_purgatory")

    def __init__(
        self,
        find_topic: Callable[[str], Topic | None],
        groups: GroupCoordinator,
        offsets: TransactionalOffsets,
        purgatory: DelayedOperationPurgatory,
        clock: Clock,
    ) -> None:
        self._find_topic = find_topic
        self._groups = groups
        self._purgatory = purgatory
        self._clock = clock
        self._offsets = offsets

    def write(self, topic_partition: TopicPartition, marker: EndTransactionMarker) -> bool:
        """Write a marker; False while the partition has no leader. A deleted one needs none."""
        name, index = topic_partition
        if name == OFFSETS_TOPIC:
            self._offsets.end(marker, self._groups)
            return True
        topic = self._find_topic(name)
        partition = topic.partition(index) if topic else None
        if topic is None or partition is None:
            return True
        if partition.leader < 0:
            return False
        try:
            partition.end_transaction(marker, topic.config, self._clock.wall_ms())
        except OSError:
            return False
        self._purgatory.wake((name, index))
        return True
