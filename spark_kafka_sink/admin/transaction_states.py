"""What brokers tell about transactions and their producers (KIP-664)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.client.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.protocol.open_transaction import OpenTransaction
    from spark_kafka_sink.protocol.transaction_state import TransactionState


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id as its coordinator knows it."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int | None
    """When the transaction began by the coordinator's clock, milliseconds since 1970; None where
    there is none."""
    topics: tuple[tuple[str, Sequence[int]], ...] = ()
    """Topics that this client may describe, each with the numbers of its partitions: those that
    the transaction has written to. A driver holds those of all tasks at once."""

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All of them, sorted."""
        found = (TopicPartition(topic, each) for topic, numbers in self.topics for each in numbers)
        return tuple(sorted(found))

    def is_of(self, transaction: OpenTransaction) -> bool:
        """Whether this is the very transaction, at the epoch that it was opened with."""
        opened = (transaction.producer_id, transaction.epoch)
        return (self.producer_id, self.epoch) == opened


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transactional id as the list has it; `coordinator` is a broker's id."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A producer that a partition's leader remembers.

    `last_sequence` and `coordinator_epoch` are -1 where there is none, `last_timestamp_ms` is in
    milliseconds since 1970. `transaction_start` is the first offset of its open transaction.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None
