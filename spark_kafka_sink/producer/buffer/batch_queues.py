"""Queues of closed batches that were never sent, one for each partition.

Batches without a partition wait in a queue for the topic (design.md: unassigned-queue).

Source: ``RecordAccumulator``.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from threading import RLock

    from spark_kafka_sink.producer.buffer.batch import ProducerBatch


class BatchQueues:
    """The closed batches of a session; any thread may call the methods."""

    def __init__(self, lock: RLock) -> None:
        self._lock = lock  # guards all fields; the lock of the session's state
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        """Oldest batch first.

        Partitions are processed in this order. Every partition that has received data is included.
        """

    def append(self, batch: ProducerBatch) -> None:
        """Add a closed batch to the queue of its partition."""
        with self._lock:
            self._queues.setdefault(batch.topic_partition, deque()).append(batch)

    def pop(self, topic_partition: TopicPartition) -> ProducerBatch:
        """Remove and return the first batch of a queue; see `move_to_end`."""
        with self._lock:
            return self._queues[topic_partition].popleft()

    def move_to_end(self, topic_partition: TopicPartition) -> None:
        """Move a partition's queue to the end of the order after a batch was drained."""
        with self._lock:
            queue = self._queues.pop(topic_partition, None)
            self._queues[topic_partition] = deque() if queue is None else queue

    def take_first(self, should_remove: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Remove and return the first batches of each queue while `should_remove` is true."""
        taken: list[ProducerBatch] = []
        with self._lock:
            for queue in self._queues.values():
                while queue and should_remove(queue[0]):
                    taken.append(queue.popleft())
        return taken

    def take_all(self) -> list[ProducerBatch]:
        """Remove and return all batches."""
        with self._lock:
            batches = self.batches()
            self._queues.clear()
            return batches

    def waiting(self, retried: Collection[TopicPartition] = ()) -> list[TopicPartition]:
        """Return `retried` and all partitions with queued batches, least recently served first.

        This order prevents starvation: a batch that did not fit into a request is first in the next
        request.
        """
        with self._lock:
            return [
                topic_partition
                for topic_partition, queue in self._queues.items()
                if queue or topic_partition in retried
            ]

    def head(self, topic_partition: TopicPartition) -> ProducerBatch | None:
        """Return the first batch of a queue, or None if no batch may be drained now.

        A partition's batches wait for older unassigned batches of the topic, because these could be
        assigned to the same partition (design.md: unassigned-first).
        """
        with self._lock:
            queue = self._queues.get(topic_partition)
            if not queue or not queue[0].is_ready:
                return None
            is_assigned = topic_partition.partition != UNASSIGNED
            if is_assigned and self._queues.get(TopicPartition(topic_partition.topic, UNASSIGNED)):
                return None
            return queue[0]

    def ready_count(self, topic_partition: TopicPartition) -> int:
        """Return the number of batches in a queue that are ready to be sent."""
        with self._lock:
            return sum(batch.is_ready for batch in self._queues.get(topic_partition, ()))

    def batches(self) -> list[ProducerBatch]:
        """Return all batches."""
        return self.batches_of(lambda _: True)

    def batches_of(self, belongs: Callable[[TopicPartition], bool]) -> list[ProducerBatch]:
        """Return the batches of the partitions that `belongs` accepts."""
        with self._lock:
            queues = self._queues.items()
            return [batch for partition, queue in queues if belongs(partition) for batch in queue]

    def lengths(self, topic: str) -> Counter[int]:
        """Return the number of batches for each partition of a topic."""
        with self._lock:
            queues = self._queues.items()
            return Counter({p.partition: len(queue) for p, queue in queues if p.topic == topic})
