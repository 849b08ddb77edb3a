"""In-flight batches and retries of one partition, in sequence order.

Rules that keep sequences gapless and records in order:

- A batch that must be retried waits until no batch of its partition is in flight.
- Retries precede new batches, lowest sequence first, each alone: brokers remember a producer's last
  five batches, and reject an older one as out of order.
- After a leader change, a partition waits until its old leader has answered.
- A partition's first batch is sent alone: in each session, after a pause, and to each new leader. A
  broker that does not know the producer accepts any sequence, so it could refuse the first batch
  and accept the second. Brokers forget a producer after producer.id.expiration.ms, counted from the
  newest timestamp of its records, and a replica without any of its records does not know it.
- If a broker nevertheless appends a later batch while an earlier one waits to be retried, the
  earlier one is not sent again: the session fails.
- After records were removed from a refused batch, the partition gets new sequences once nothing is
  in flight: in a new epoch, or in a transaction, whose epoch must not change, from that batch's
  sequence on.

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
"""Seconds without an acknowledgement after which the next batch is sent alone."""


class Gap(NamedTuple):
    """The place of a refused batch in the order, and its first sequence, which is now unused."""

    order: tuple[int, ...]
    sequence: int


@dataclass(slots=True)
class InFlightBatches:
    """The in-flight batches and retries of one partition.

    `in_flight` and `retry_queue` are in sequence order; `retry_at` is in seconds of the clock.
    `leader` is the broker that the in-flight batches were sent to. `bump_epoch`: a new epoch is due
    once nothing is in flight; in a transaction, new sequences after the `gap`. `passed_gap`: a
    broker has appended a batch after the gap.
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
    """The leader that last acknowledged a batch of this epoch, at `_known_at`."""
    _known_at: float = 0.0
    _last: tuple[tuple[int, ...], int] = ((), -1)
    """Order and base offset of the last acknowledged batch, in batch order."""
    _drained: int = 0

    @property
    def count(self) -> int:
        """Number of batches in flight or to be retried."""
        return len(self.in_flight) + len(self.retry_queue)

    # What may be sent.

    @property
    def must_bump_epoch(self) -> bool:
        """True if a new epoch is due and can begin now."""
        return self.bump_epoch and not self.in_flight

    def next(
        self, queue: deque[ProducerBatch] | None, leader: int, now: float
    ) -> ProducerBatch | None:
        """Return the batch that may be sent to `leader` now; it is not removed until it is sent."""
        if not self._may_send_to(leader, now):
            return None
        if self.retry_queue:
            return self.retry_queue[0]
        if queue and queue[0].ready:
            return queue[0]
        return None

    def takes_any(self, leader: int, now: float) -> bool:
        """Return True if a new batch of this partition may be sent to `leader` now."""
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
        """Return True if another batch may be sent while `first` is in flight; see the rules."""
        if first.attempts > 1:
            return False
        known = self.leader == self._known_by and first.sent_at <= self._known_at + _REMEMBERED_S
        return known or first.sequence == NO_SEQUENCE

    def is_head(self, batch: ProducerBatch) -> bool:
        """Return True if no earlier batch is incomplete, or has left a gap in the sequences."""
        earlier = bool(self.retry_queue) and self.retry_queue[0].order < batch.order
        return not earlier and not self.bump_epoch and self.in_flight[0] is batch

    # What happens to a batch.

    def sent(self, batch: ProducerBatch, leader: int) -> None:
        """Add a batch that is sent now to the in-flight batches."""
        if self.retry_queue and self.retry_queue[0] is batch:
            self.retry_queue.pop(0)
        else:
            self._drained += 1
            batch.order = (self._drained,)
        self.in_flight.append(batch)
        self.leader = leader

    def completed(self, batch: ProducerBatch) -> None:
        """Remove a batch that was acknowledged or has failed."""
        self.in_flight.remove(batch)

    def acknowledged(self, batch: ProducerBatch, offset: int, now: float) -> DeliveryError | None:
        """Record that a broker has appended the batch at `offset` (-1: unknown), or had it already.

        Return an error if the log is not in the order of the batches, or has lost some.
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
        """Clear `ambiguous` of a split batch's unsent pieces after the broker accepted a piece.

        The broker has never appended the whole batch, else it would have refused the piece.
        """
        for each in self.retry_queue:
            if each.order[0] == piece.order[0] and not each.attempts:
                each.ambiguous = False

    def retry(self, batch: ProducerBatch, at: float) -> None:
        """Queue the batch for a retry, not before `at`."""
        self.in_flight.remove(batch)
        self._insert([batch])
        self.retry_at = max(self.retry_at, at)

    def replace(self, batch: ProducerBatch, pieces: list[ProducerBatch]) -> None:
        """Replace the batch by these pieces, if any."""
        self.in_flight.remove(batch)
        if pieces:
            self._insert(pieces)

    def left_gap(self, batch: ProducerBatch) -> None:
        """Record that sequences of the batch stay unused, because refused records were removed."""
        self.bump_epoch = True
        gap = Gap(batch.order, batch.sequence)
        self.gap = gap if self.gap is None else min(self.gap, gap)

    def take_retries(self, unwanted: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Remove and return unwanted batches that wait to be retried."""
        taken = [batch for batch in self.retry_queue if unwanted(batch)]
        if taken:
            self.retry_queue = [batch for batch in self.retry_queue if batch not in taken]
        return taken

    def epoch_bumped(self) -> None:
        """Begin a new epoch: retries get new sequences, and the first batch is sent alone."""
        self.bump_epoch, self._known_by, self.gap = False, NO_LEADER, None
        for batch in self.retry_queue:
            batch.unnumber()

    def gap_closed(self) -> None:
        """Unnumber the retries after the gap; their sequences continue at the refused batch's."""
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
    """A batch for a request, and the in-flight batches of its partition."""

    batches: InFlightBatches
    batch: ProducerBatch
