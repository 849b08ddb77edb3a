"""One partition's batches on the sender's side: what is under way, what goes out again, in order.

Rules that keep sequences gapless and records in order:
- a batch that must go again waits until nothing of its partition is under way;
- batches that go again go first, lowest sequence first, each alone: brokers remember a
  producer's last five batches, and take one that lies further back for out of order;
- a partition that has moved waits until its old leader has answered;
- a partition's first batch goes alone: a broker that is only just becoming its leader may refuse
  the first and take the second, as it knows no sequence yet, and then never takes the first.

Owned by the sender thread. Source: ``Sender``, ``RecordAccumulator.shouldStopDrainBatches...``;
librdkafka's introduction on leader changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.client.cluster import NO_LEADER

if TYPE_CHECKING:
    import uuid
    from collections import deque

    from spark_kafka_sink.producer.batch import ProducerBatch, TopicPartition


@dataclass(slots=True)
class Lane:
    """`under_way` and `again` are in sequence order; `retry_at` in seconds of the clock.

    `leader` is where the batches under way were sent. `renumber`: a new epoch begins once nothing
    is under way. `proven`: the brokers have taken a batch of this producer here.
    """

    partition: TopicPartition
    under_way: list[ProducerBatch] = field(default_factory=list)
    again: list[ProducerBatch] = field(default_factory=list)
    retry_at: float = 0.0
    leader: int = NO_LEADER
    renumber: bool = False
    proven: bool = False
    topic_id: uuid.UUID | None = None
    _drained: int = 0

    def next(
        self, queue: deque[ProducerBatch] | None, leader: int, now: float
    ) -> ProducerBatch | None:
        """The batch that may be sent to `leader` now; it stays where it is until it is sent."""
        if not self._is_open(leader, now):
            return None
        if self.again:
            return self.again[0]
        if queue and queue[0].ready:
            return queue[0]
        return None

    def takes_any(self, leader: int, now: float) -> bool:
        """Whether a batch that was never sent may go to `leader` now, as this partition's."""
        return self._is_open(leader, now) and not self.again

    def _is_open(self, leader: int, now: float) -> bool:
        if leader == NO_LEADER or now < self.retry_at:
            return False
        if not self.under_way:
            return True
        if not self.proven or self.again or self.renumber or self._retrying:
            return False
        return leader == self.leader

    @property
    def _retrying(self) -> bool:
        """Nothing may follow a batch that was sent before: see the rule on five batches."""
        return self.under_way[0].attempts > 1

    def sent(self, batch: ProducerBatch, leader: int) -> None:
        """`batch`, which may go now, is on its way."""
        if self.again and self.again[0] is batch:
            self.again.pop(0)
        else:
            self._drained += 1
            batch.order = (self._drained,)
        self.under_way.append(batch)
        self.leader = leader

    def is_head(self, batch: ProducerBatch) -> bool:
        """No earlier batch of the partition is unsettled, or has left a gap in the sequences."""
        earlier_again = bool(self.again) and self.again[0].order < batch.order
        return not earlier_again and not self.renumber and self.under_way[0] is batch

    def settled(self, batch: ProducerBatch) -> None:
        """The batch is acknowledged or has failed."""
        self.under_way.remove(batch)
        self.proven = True

    def retry(self, batch: ProducerBatch, at: float) -> None:
        """The batch goes again, not before `at`."""
        self.under_way.remove(batch)
        self._insert([batch])
        self.retry_at = max(self.retry_at, at)

    def split(self, batch: ProducerBatch, pieces: list[ProducerBatch]) -> None:
        """The batch goes again as these pieces; there may be none."""
        self.under_way.remove(batch)
        if pieces:
            self._insert(pieces)

    def _insert(self, batches: list[ProducerBatch]) -> None:
        position = 0
        while position < len(self.again) and self.again[position].order < batches[0].order:
            position += 1
        self.again[position:position] = batches
