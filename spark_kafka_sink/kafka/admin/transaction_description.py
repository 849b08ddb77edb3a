"""The states of transactions and their producers, as returned by coordinators and leaders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionState


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """The state of a transactional id at its coordinator."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int | None
    """Start of the transaction by the coordinator's clock, in milliseconds since 1970; None if
    there is no transaction."""
    topics: tuple[tuple[str, Sequence[int]], ...] = ()
    """Partitions of the transaction by topic, only for topics that this client is authorized to
    describe. The format is compact, because a driver stores the partitions of all tasks at once.
    """

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions in `topics`, sorted."""
        result = (
            TopicPartition(topic, number) for topic, numbers in self.topics for number in numbers
        )
        return tuple(sorted(result))

    def is_of(self, transaction: TransactionalProducer) -> bool:
        """Return True if `transaction` has the same producer id and epoch."""
        return (self.producer_id, self.epoch) == (transaction.producer_id, transaction.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transaction in a ListTransactions response."""

    transactional_id: str
    state: TransactionState
    coordinator: int
    """The id of the coordinator's broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """An active producer of a partition, as reported by the leader."""

    producer_id: int
    epoch: int
    last_sequence: int
    """-1 if it is not set."""
    transaction_start: int | None
    """The first offset of the open transaction, or None if no transaction is open."""
