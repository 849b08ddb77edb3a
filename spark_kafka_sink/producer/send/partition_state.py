"""The state of each partition: the order of its batches, their sequences, epochs and gaps.

Rules that keep sequences gapless and records in order:

- A batch is retried when no other batch of its partition is in flight.
- Retries precede new batches. They are sent one at a time, lowest sequence first, because brokers
  remember only a producer's last five batches and reject older batches as out of order.
- After a leader change, nothing is sent for a partition until its old leader has responded.
- A partition's first batch is sent alone: in each session, after a pause, and to each new leader. A
  broker that does not know the producer accepts any sequence, so it could reject the first batch
  and accept the second. A broker forgets a producer when the newest timestamp of the producer's
  records is older than producer.id.expiration.ms. A replica without records of the producer does
  not know it either.
- If a broker nevertheless appends a later batch while an earlier batch waits to be retried, the
  session fails and the earlier batch is not sent again.
- A batch gets its sequence when it is first sent. The sequence does not change in retries.
- After UNKNOWN_PRODUCER_ID, or after records were removed from a rejected batch, the partition gets
  new sequences as soon as nothing is in flight. Outside transactions it restarts at sequence 0 in a
  new producer epoch (KIP-360). In a transaction the epoch must not change: a producer that bumps it
  leaves the transaction. The partition continues at the sequence of the rejected batch, which was
  not appended. Batches that were sent after that batch and returned to the retry queue are resent
  with new sequences, provided that the log cannot contain any of them.

Sender thread only. Source: ``Sender``, ``RecordAccumulator.shouldStopDrainBatches...``,
``TxnPartitionMap``, ``TransactionManager.bumpIdempotentProducerEpoch`` and
``adjustSequencesDueToFailedBatch``; librdkafka's introduction on leader changes; KIP-98, KIP-890.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER
from spark_kafka_sink.kafka.records.record_batch import NO_SEQUENCE, next_sequence
from spark_kafka_sink.producer.send.batch_failure import order_error, rewound_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_kafka_sink.common.errors import DeliveryError
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.producer_id import ProducerIdentity


_REMEMBERED_S = 1.0
"""Seconds without an acknowledgement after which the next batch is sent alone."""


class _Gap(NamedTuple):
    """The order and the first sequence of a rejected batch whose sequences stay unused."""

    order: tuple[int, ...]
    sequence: int


class _NextSequence(NamedTuple):
    """A partition's producer id and epoch, and the sequence of its next record."""

    producer_id: int
    epoch: int
    sequence: int


class Renumbering(NamedTuple):
    """The result of `PartitionState.renumber`."""

    unsafe_batches: list[ProducerBatch]
    """Batches that may be in the log and therefore cannot get new sequences."""
    sequence: int | None = None
    """The sequence at which the partition continues in its epoch; None if it restarts in a new
    epoch, or cannot continue.
    """
    is_past_gap: bool = False
    """The log may contain batches sent after the gap, so the partition cannot continue."""


class PartitionState:
    """The order, sequences, epoch and gap of one partition's batches in one session."""

    def __init__(
        self, topic_partition: TopicPartition, retried: set[TopicPartition] | None = None
    ) -> None:
        self.topic_partition = topic_partition
        self._retried = set() if retried is None else retried
        """The session's partitions that may have retries; see `SessionPartitions`."""
        self._in_flight: list[ProducerBatch] = []
        self._retry_queue: list[ProducerBatch] = []
        """Batches to be retried, in sequence order."""
        self.retry_at = 0.0
        """Time before which nothing is sent, in seconds (monotonic clock)."""
        self.leader = NO_LEADER
        """The broker that batches were last sent to; NO_LEADER before the first batch."""
        self._next: _NextSequence | None = None
        """None until the first batch of an epoch is sent."""
        self._must_renumber = False
        self._gap: _Gap | None = None
        self._passed_gap = False
        """True if a broker has appended a batch after the gap."""
        self._known_by = NO_LEADER
        """The leader that last acknowledged a batch of this epoch; `_known_at` is the time."""
        self._known_at = 0.0
        self._last: tuple[tuple[int, ...], int] = ((), -1)
        """Order and base offset of the last acknowledged batch, in batch order."""
        self._sent = 0

    # The methods below do not change the state.

    @property
    def in_flight(self) -> tuple[ProducerBatch, ...]:
        """The batches in flight, in sequence order."""
        return tuple(self._in_flight)

    @property
    def retries(self) -> tuple[ProducerBatch, ...]:
        """The batches that wait to be retried, in sequence order."""
        return tuple(self._retry_queue)

    @property
    def is_busy(self) -> bool:
        """True if a batch is in flight."""
        return bool(self._in_flight)

    @property
    def has_retries(self) -> bool:
        """True if a batch waits to be retried."""
        return bool(self._retry_queue)

    @property
    def can_renumber(self) -> bool:
        """True if new sequences are required and nothing is in flight; see `renumber`."""
        return self._must_renumber and not self._in_flight

    def is_in_flight(self, batch: ProducerBatch) -> bool:
        """Return True if the batch is in flight; False if it has expired after it was sent."""
        return batch in self._in_flight

    def is_head(self, batch: ProducerBatch) -> bool:
        """Return True if no earlier batch is incomplete, or has left a gap in the sequences."""
        earlier = bool(self._retry_queue) and self._retry_queue[0].order < batch.order
        return not earlier and not self._must_renumber and self._in_flight[0] is batch

    def next_retry(self, leader: int, now: float) -> ProducerBatch | None:
        """Return the retry that may be sent to `leader` now, or None; the queue does not change."""
        return self._retry_queue[0] if self._retry_queue and self._may_send(leader, now) else None

    def may_send_new(self, leader: int, now: float) -> bool:
        """Return True if a batch that was never sent may be sent to `leader` now."""
        return not self._retry_queue and self._may_send(leader, now)

    # The methods below record what happened to a batch.

    def mark_sent(self, batch: ProducerBatch, leader: int) -> None:
        """Record that a batch is sent now; from now on, it is in flight."""
        if self._retry_queue and self._retry_queue[0] is batch:
            self._retry_queue.pop(0)
        else:
            self._sent += 1
            batch.assign_order(self._sent)
        self._in_flight.append(batch)
        self.leader = leader

    def assign_sequence(self, batch: ProducerBatch, producer: ProducerIdentity) -> bool:
        """Assign the next sequence to the batch; return False if it already has a sequence."""
        if batch.sequence != NO_SEQUENCE:
            return False
        if self._next is None:
            self._next = _NextSequence(*producer.use_epoch(), 0)
        batch.set_sequence(*self._next)
        self._next = self._next._replace(sequence=next_sequence(self._next.sequence, batch.records))
        return True

    def remove(self, batch: ProducerBatch) -> None:
        """Remove a batch in flight that is complete or has failed."""
        self._in_flight.remove(batch)

    def acknowledge(self, batch: ProducerBatch, offset: int, now: float) -> DeliveryError | None:
        """Remove a batch that a broker has appended at `offset` (-1: unknown).

        Return an error if the log's order differs from the order of the batches, or if records were
        lost.
        """
        self.remove(batch)
        if self._gap is not None and batch.order > self._gap.order:
            # The gap can no longer be closed by renumbering (design.md: one-epoch).
            self._passed_gap = True
        if batch.sequence == NO_SEQUENCE:
            return None
        self._known_by = self.leader
        self._known_at = now
        last_order, last_offset = self._last
        if batch.order < last_order:
            return order_error(self.topic_partition) if 0 <= last_offset < offset else None
        self._last = batch.order, offset
        self._clear_possibly_persisted(batch)
        if 0 <= offset < last_offset:
            return rewound_error(self.topic_partition, last_offset, offset)
        # If retried, the earlier batch would follow this one in the log (design.md: retry-order).
        overtaken = any(
            retry.order < batch.order and not retry.delivery.is_possibly_persisted
            for retry in self._retry_queue
        )
        return order_error(self.topic_partition) if overtaken else None

    def retry(self, batch: ProducerBatch, retry_at: float, *, in_new_epoch: bool = False) -> None:
        """Queue a batch in flight for a retry at `retry_at` or later."""
        self.replace(batch, [batch])
        self.retry_at = max(self.retry_at, retry_at)
        self._must_renumber |= in_new_epoch

    def replace(self, batch: ProducerBatch, pieces: list[ProducerBatch]) -> None:
        """Remove a batch in flight, and queue these pieces for a retry instead."""
        self._in_flight.remove(batch)
        if pieces:
            self._retried.add(self.topic_partition)
            position = sum(retry.order < pieces[0].order for retry in self._retry_queue)
            self._retry_queue[position:position] = pieces

    def leave_gap(self, batch: ProducerBatch) -> None:
        """Record that the batch's sequences stay unused because rejected records were removed."""
        if batch.sequence == NO_SEQUENCE:
            return
        self._must_renumber = True
        gap = _Gap(batch.order, batch.sequence)
        self._gap = gap if self._gap is None else min(self._gap, gap)

    def take_retries(self, should_remove: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Remove and return the retries for which `should_remove` is true."""
        taken = [batch for batch in self._retry_queue if should_remove(batch)]
        if taken:
            self._retry_queue = [batch for batch in self._retry_queue if batch not in taken]
        return taken

    def abandon_in_flight(
        self, should_abandon: Callable[[ProducerBatch], bool]
    ) -> list[ProducerBatch]:
        """Remove, mark and return the batches in flight for which `should_abandon` is true.

        They are marked as possibly persisted, because their response will not be read.
        """
        abandoned = [batch for batch in self._in_flight if should_abandon(batch)]
        for batch in abandoned:
            batch.delivery.is_possibly_persisted = True
            self._in_flight.remove(batch)
        return abandoned

    # Sequences are reassigned only while nothing is in flight.

    def renumber(self, producer: ProducerIdentity) -> Renumbering:
        """Restart in a new epoch, or in a transaction, continue at the sequence of the gap.

        A batch that may be in the log cannot be sent again with different sequences.
        """
        if producer.transactional_id is not None:
            return self._close_gap()
        if self._next is None or self._next[:2] == (producer.producer_id, producer.epoch):
            producer.bump_epoch()  # Otherwise, another partition has already left this epoch.
        # A duplicate with a new sequence would be appended again (design.md: one-sequence).
        unsafe = self.take_retries(lambda batch: batch.delivery.is_possibly_persisted)
        # The first batch of the new epoch is sent alone.
        self._must_renumber = False
        self._known_by = NO_LEADER
        self._gap = None
        self._next = None
        _clear_sequences(self._retry_queue)
        return Renumbering(unsafe)

    def _may_send(self, leader: int, now: float) -> bool:
        if leader == NO_LEADER or now < self.retry_at:
            return False
        if not self._in_flight:
            return True
        if self._retry_queue or self._must_renumber or leader != self.leader:
            return False
        return self._may_be_followed(self._in_flight[0])

    def _may_be_followed(self, first: ProducerBatch) -> bool:
        """Return True if another batch may be sent while `first` is in flight; see the module."""
        if first.delivery.attempts > 1:
            return False
        is_known = self.leader == self._known_by
        return first.sequence == NO_SEQUENCE or (
            is_known and first.delivery.sent_at <= self._known_at + _REMEMBERED_S
        )

    def _clear_possibly_persisted(self, piece: ProducerBatch) -> None:
        """Clear the flag of a split batch's unsent pieces after the broker accepted a piece.

        The broker cannot have appended the whole batch; otherwise it would have rejected the piece.
        """
        for retry in self._retry_queue:
            if retry.order[0] == piece.order[0] and not retry.delivery.attempts:
                retry.delivery.is_possibly_persisted = False

    def _close_gap(self) -> Renumbering:
        gap = self._gap
        assert gap is not None
        assert self._next is not None
        unsafe = self.take_retries(
            lambda batch: batch.delivery.is_possibly_persisted and batch.order >= gap.order
        )
        if unsafe or self._passed_gap:
            return Renumbering(unsafe, is_past_gap=True)
        self._next = self._next._replace(sequence=gap.sequence)
        _clear_sequences(batch for batch in self._retry_queue if batch.order >= gap.order)
        self._must_renumber = False
        self._gap = None
        return Renumbering([], gap.sequence)


def _clear_sequences(batches: Iterable[ProducerBatch]) -> None:
    for batch in batches:
        batch.clear_sequence()
