"""One partition's batches on the sender's side: what is in flight, what is to be retried, in order.

Rules that keep sequences gapless and records in order:
- a batch that must be retried waits until nothing of its partition is in flight;
- batches to be retried go first, lowest sequence first, each alone: brokers remember a producer's
  last five batches, and take one that lies further back for out of order;
- a partition that has moved waits until its old leader has answered;
- a partition's first batch goes alone, in each session, after a pause, and to each new leader: a
  broker that does not know the producer accepts any sequence, so it may refuse the first and accept
  the second. Brokers forget a producer after producer.id.expiration.ms, counted from the newest
  timestamp of its records, and a replica that has none of its records does not know it;
- a batch that a later one has overtaken all the same is not sent again: the session fails;
- where records were taken out of a batch that was refused, what follows starts over once nothing is
  in flight: in a new epoch, or in a transaction, whose epoch stays, at that batch's sequence.

Owned by the sender thread. Source: ``Sender``, ``RecordAccumulator.shouldStopDrainBatches...``;
librdkafka's introduction on leader changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.client.cluster import NO_LEADER
from spark_kafka_sink.producer.send.batch_failure import order_error, rewound_error
from spark_kafka_sink.records.record_batch import NO_SEQUENCE

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from spark_kafka_sink.client.cluster import TopicPartition
    from spark_kafka_sink.common.errors import DeliveryError
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch


_REMEMBERED_S = 1.0
"""Seconds without an acknowledgement after which the next batch goes alone."""


class Gap(NamedTuple):
    """Where a refused batch has left the sequences: its place in the order, its first sequence."""

    order: tuple[int, ...]
    sequence: int


@dataclass(slots=True)
class InFlightBatches:
    """`in_flight` and `retry_queue` are in sequence order; `retry_at` in seconds of the clock.

    `leader` is where the batches in flight were sent. `bump_epoch`: a new epoch begins once nothing
    is in flight, in a transaction new sequences after the `gap`. `passed_gap`: a broker has taken a
    batch behind it.
    """

    partition: TopicPartition
    in_flight: list[ProducerBatch] = field(default_factory=list)
    retry_queue: list[ProducerBatch] = field(default_factory=list)
    retry_at: float = 0.0
    leader: int = NO_LEADER
    bump_epoch: bool = False
    gap: Gap | None = None
    passed_gap: bool = False
    _known_by: int = NO_LEADER
    """The leader that acknowledged a batch of this epoch last, at `_known_at`."""
    _known_at: float = 0.0
    _last: tuple[tuple[int, ...], int] = ((), -1)
    """The order and the base offset of the acknowledged batch that is last in order."""
    _drained: int = 0

    @property
    def count(self) -> int:
        """Batches that are in flight or to be retried."""
        return len(self.in_flight) + len(self.retry_queue)

    # What may be sent.

    @property
    def must_bump_epoch(self) -> bool:
        """A new epoch is due and can begin now."""
        return self.bump_epoch and not self.in_flight

    def next(
        self, queue: deque[ProducerBatch] | None, leader: int, now: float
    ) -> ProducerBatch | None:
        """The batch that may be sent to `leader` now; it stays where it is until it is sent."""
        if not self._may_send_to(leader, now):
            return None
        if self.retry_queue:
            return self.retry_queue[0]
        if queue and queue[0].ready:
            return queue[0]
        return None

    def takes_any(self, leader: int, now: float) -> bool:
        """Whether a batch that was never sent may go to `leader` now, as this partition's."""
        return self._may_send_to(leader, now) and not self.retry_queue

    def _may_send_to(self, leader: int, now: float) -> bool:
        if leader == NO_LEADER or now < self.retry_at:
            return False
        if not self.in_flight:
            return True
        if self.retry_queue or self.bump_epoch or leader != self.leader:
            return False
        return self._may_be_followed(self.in_flight[0])

    def _may_be_followed(self, first: ProducerBatch) -> bool:
        """See the rules on five batches and on brokers that don't know the producer."""
        if first.attempts > 1:
            return False
        known = self.leader == self._known_by and first.sent_at <= self._known_at + _REMEMBERED_S
        return known or first.sequence == NO_SEQUENCE

    def is_head(self, batch: ProducerBatch) -> bool:
        """No earlier batch of the partition is incomplete, or has left a gap in the sequences."""
        earlier = bool(self.retry_queue) and self.retry_queue[0].order < batch.order
        return not earlier and not self.bump_epoch and self.in_flight[0] is batch

    # What happens to a batch.

    def sent(self, batch: ProducerBatch, leader: int) -> None:
        """`batch`, which may go now, is on its way."""
        if self.retry_queue and self.retry_queue[0] is batch:
            self.retry_queue.pop(0)
        else:
            self._drained += 1
            batch.order = (self._drained,)
        self.in_flight.append(batch)
        self.leader = leader

    def completed(self, batch: ProducerBatch) -> None:
        """The batch is acknowledged or has failed."""
        self.in_flight.remove(batch)

    def acknowledged(self, batch: ProducerBatch, offset: int, now: float) -> DeliveryError | None:
        """A broker has appended the batch at `offset` (-1: unknown), or had it already.

        Returns an error if the log is not in the order of the batches, or has lost some.
        """
        self.completed(batch)
        if self.gap is not None and batch.order > self.gap.order:
            self.passed_gap = True
        if batch.sequence == NO_SEQUENCE:
            return None
        self._known_by, self._known_at = self.leader, now
        last_order, last_offset = self._last
        if batch.order < last_order:
            return order_error(self.partition) if 0 <= last_offset < offset else None
        self._last = batch.order, offset
        self._clear_doubt(batch)
        if 0 <= offset < last_offset:
            return rewound_error(self.partition, last_offset, offset)
        refused = [each for each in self.retry_queue if not each.ambiguous]
        overtaken = any(each.order < batch.order for each in refused)
        return order_error(self.partition) if overtaken else None

    def _clear_doubt(self, piece: ProducerBatch) -> None:
        """The broker has accepted a piece of a batch, so it never appended that batch whole."""
        for each in self.retry_queue:
            if each.order[0] == piece.order[0] and not each.attempts:
                each.ambiguous = False

    def retry(self, batch: ProducerBatch, at: float) -> None:
        """The batch goes again, not before `at`."""
        self.in_flight.remove(batch)
        self._insert([batch])
        self.retry_at = max(self.retry_at, at)

    def replace(self, batch: ProducerBatch, pieces: list[ProducerBatch]) -> None:
        """These go in the place of the batch; there may be none."""
        self.in_flight.remove(batch)
        if pieces:
            self._insert(pieces)

    def left_gap(self, batch: ProducerBatch) -> None:
        """Records of the batch, which no log has, go elsewhere: its sequences won't be used up."""
        self.bump_epoch = True
        gap = Gap(batch.order, batch.sequence)
        self.gap = gap if self.gap is None else min(self.gap, gap)

    def take_retries(self, unwanted: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Remove batches that wait to be retried; those that were removed."""
        taken = [batch for batch in self.retry_queue if unwanted(batch)]
        if taken:
            self.retry_queue = [batch for batch in self.retry_queue if batch not in taken]
        return taken

    def epoch_bumped(self) -> None:
        """A new epoch has begun: what is retried gets new sequences, and the first goes alone."""
        self.bump_epoch, self._known_by, self.gap = False, NO_LEADER, None
        for batch in self.retry_queue:
            batch.unnumber()

    def gap_closed(self) -> None:
        """What was behind the gap gets sequences that begin with those of the refused batch."""
        assert self.gap is not None
        for batch in self.retry_queue:
            if batch.order >= self.gap.order:
                batch.unnumber()
        self.bump_epoch, self.gap = False, None

    def _insert(self, batches: list[ProducerBatch]) -> None:
        position = 0
        while position < len(self.retry_queue) and (
            self.retry_queue[position].order < batches[0].order
        ):
            position += 1
        self.retry_queue[position:position] = batches


class DrainedBatch(NamedTuple):
    """A batch that goes into a request, and the batches of its partition that it is one of."""

    batches: InFlightBatches
    batch: ProducerBatch
