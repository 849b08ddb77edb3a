"""One partition's batches on the sender's side: what is under way, what goes out again, in order.

Rules that keep sequences gapless and records in order:
- a batch that must go again waits until nothing of its partition is under way;
- batches that go again go first, lowest sequence first, each alone: brokers remember a
  producer's last five batches, and take one that lies further back for out of order;
- a partition that has moved waits until its old leader has answered;
- a partition's first batch goes alone: a broker that is only just becoming its leader may refuse
  the first and take the second, as it knows no sequence yet, and then never takes the first;
- the partition of a topic that was deleted and made anew starts over in a new epoch: what goes
  again and what the old topic has acknowledged would leave a gap in the new one.

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

    from spark_kafka_sink.client.topic_partition import TopicPartition
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch


@dataclass(slots=True)
class InFlightBatches:
    """`in_flight` and `again` are in sequence order; `retry_at` in seconds of the clock.

    `leader` is where the batches under way were sent. `renumber`: a new epoch begins once nothing
    is under way. `proven`: the brokers have taken a batch of this producer here. `topic_id` is that
    of the newest topic of this name, None where the brokers tell none. `recreated`: that topic has
    taken nothing yet, and a new epoch begins once nothing that it may hold goes again.
    `outdated`: the metadata has an older topic again, to which nothing is sent.
    """

    partition: TopicPartition
    in_flight: list[ProducerBatch] = field(default_factory=list)
    again: list[ProducerBatch] = field(default_factory=list)
    retry_at: float = 0.0
    leader: int = NO_LEADER
    renumber: bool = False
    proven: bool = False
    recreated: bool = False
    outdated: bool = False
    topic_id: uuid.UUID | None = None
    _former: set[uuid.UUID] = field(default_factory=set)
    _drained: int = 0

    def belongs_to(self, topic_id: uuid.UUID | None) -> bool:
        """Whether this is the newest topic of its name that is known here.

        One that this producer has not met yet is. One that another has replaced never is again: a
        broker tells of it whose metadata lags behind.
        """
        if topic_id == self.topic_id or topic_id is None:
            return True
        if topic_id in self._former:
            return False
        if self.topic_id is not None:
            self._former.add(self.topic_id)
            self._start_over()
        self.topic_id = topic_id
        return True

    def _start_over(self) -> None:
        self.proven, self.recreated = False, True
        for batch in self.again + self.in_flight:
            if not batch.by_name:
                batch.ambiguous = False  # only a topic that is gone can have it

    def doubt(self, batch: ProducerBatch) -> None:
        """The partition's log may hold the batch: its latest request got no clear answer."""
        if batch.by_name or batch.topic_id == self.topic_id:
            batch.ambiguous = True

    @property
    def must_start_over(self) -> bool:
        """A new epoch is due and can begin now."""
        if self.in_flight:
            return False
        return self.renumber or (
            self.recreated and not any(batch.ambiguous for batch in self.again)
        )

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
        if not self.in_flight:
            return True
        if not self.proven or self.again or self.renumber or self._retrying:
            return False
        return leader == self.leader

    @property
    def _retrying(self) -> bool:
        """Nothing may follow a batch that was sent before: see the rule on five batches."""
        return self.in_flight[0].attempts > 1

    def sent(self, batch: ProducerBatch, leader: int) -> None:
        """`batch`, which may go now, is on its way."""
        if self.again and self.again[0] is batch:
            self.again.pop(0)
        else:
            self._drained += 1
            batch.order = (self._drained,)
        self.in_flight.append(batch)
        self.leader = leader

    def is_head(self, batch: ProducerBatch) -> bool:
        """No earlier batch of the partition is unsettled, or has left a gap in the sequences."""
        earlier_again = bool(self.again) and self.again[0].order < batch.order
        return not earlier_again and not self.renumber and self.in_flight[0] is batch

    def settled(self, batch: ProducerBatch) -> None:
        """The batch is acknowledged or has failed."""
        self.in_flight.remove(batch)
        self.proven = self.proven or batch.topic_id in {None, self.topic_id}

    def retry(self, batch: ProducerBatch, at: float) -> None:
        """The batch goes again, not before `at`."""
        self.in_flight.remove(batch)
        self._insert([batch])
        self.retry_at = max(self.retry_at, at)

    def split(self, batch: ProducerBatch, pieces: list[ProducerBatch]) -> None:
        """The batch goes again as these pieces; there may be none."""
        self.in_flight.remove(batch)
        if pieces:
            self._insert(pieces)

    def _insert(self, batches: list[ProducerBatch]) -> None:
        position = 0
        while position < len(self.again) and self.again[position].order < batches[0].order:
            position += 1
        self.again[position:position] = batches
