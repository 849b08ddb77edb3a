"""The idempotent producer's identity: producer id, epoch, and each partition's next sequence.

Owned by the sender thread. A healthy session passes its `ProducerState` on to the next one, so that
a worker process that runs many tasks leaves one producer state on each broker instead of one per
task. Each session starts its sequences at 0 in an epoch of its own, which brokers accept regardless
of what they know about earlier sessions.

Source: KIP-98, KIP-360; Kafka's ``TransactionManager``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.records.record_batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    next_sequence,
)

if TYPE_CHECKING:
    from spark_kafka_sink.client.cluster import TopicPartition

LAST_EPOCH = (1 << 15) - 1


class ProducerIdState(Enum):
    """Whether the producer id is missing, requested or known."""

    MISSING = auto()
    REQUESTED = auto()
    KNOWN = auto()


_TRANSITIONS: dict[ProducerIdState, frozenset[ProducerIdState]] = {
    ProducerIdState.MISSING: frozenset({ProducerIdState.REQUESTED}),
    ProducerIdState.REQUESTED: frozenset({ProducerIdState.KNOWN, ProducerIdState.MISSING}),
    ProducerIdState.KNOWN: frozenset({ProducerIdState.MISSING}),
}


class BatchSequence(NamedTuple):
    """A batch's identity for the broker: producer id, epoch, and its first record's sequence."""

    producer_id: int
    epoch: int
    base_sequence: int


@dataclass(slots=True)
class Sequence:
    """The producer id and epoch that a partition uses, and the sequence of its next record."""

    producer_id: int
    epoch: int
    next: int = 0


@dataclass(slots=True)
class ProducerState:
    """The producer id and epoch, and the sequence of each partition.

    `transactional_id` is None for a producer that is only idempotent.
    """

    state: ProducerIdState = ProducerIdState.MISSING
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    transactional_id: str | None = None
    sequences: dict[TopicPartition, Sequence] = field(default_factory=dict)

    def transition_to(self, state: ProducerIdState) -> None:
        """Change the state; a transition that is not in the table is a bug."""
        if state not in _TRANSITIONS[self.state]:
            raise AssertionError(f"a producer id cannot go from {self.state} to {state}")
        self.state = state

    def producer_id_granted(self, producer_id: int, epoch: int) -> None:
        """Store the producer id and epoch that InitProducerId returned."""
        self.transition_to(ProducerIdState.KNOWN)
        self.producer_id, self.epoch = producer_id, epoch

    def begin_session(self) -> None:
        """Restart all partitions in a new epoch, unless no sequence has been assigned yet."""
        if self.sequences:
            self.sequences.clear()
            self._next_epoch()

    def assign_sequence(self, partition: TopicPartition, records: int) -> BatchSequence:
        """Return the sequence for a batch that was never sent; retries keep theirs.

        Args:
            partition: the batch's partition.
            records: number of records in the batch.
        """
        if self.state is not ProducerIdState.KNOWN:
            raise AssertionError("a batch can't have a sequence without a producer id")
        sequence = self.sequences.get(partition)
        if sequence is None:
            sequence = self.sequences[partition] = Sequence(self.producer_id, self.epoch)
        assigned = BatchSequence(sequence.producer_id, sequence.epoch, sequence.next)
        sequence.next = next_sequence(sequence.next, records)
        return assigned

    def rewind(self, partition: TopicPartition, sequence: int) -> None:
        """Continue at an earlier sequence of this epoch; the batch that had it was refused."""
        self.sequences[partition].next = sequence

    def bump_epoch(self, partition: TopicPartition) -> None:
        """Restart a partition at sequence 0 in a new epoch; none of its batches may be in flight.

        Other partitions keep their epoch, because brokers check each partition separately.
        """
        self.sequences.pop(partition, None)
        self._next_epoch()

    def _next_epoch(self) -> None:
        """Increment the epoch, or request a new producer id after the last epoch."""
        if self.state is not ProducerIdState.KNOWN:
            return  # a new producer id was or will be requested
        if self.epoch >= LAST_EPOCH:
            self.transition_to(ProducerIdState.MISSING)
        else:
            self.epoch += 1
