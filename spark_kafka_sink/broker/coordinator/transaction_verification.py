"""Whether a transaction includes the partition that a producer writes to, asked before it writes.

As Kafka's AddPartitionsToTxnManager (KIP-890): older clients added the partition themselves, newer
ones (Produce 12, TxnOffsetCommit 5) leave that to the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Self

from kio.schema.errors import ErrorCode

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.transaction_coordinator import TransactionCoordinator
    from spark_kafka_sink.broker.coordinator.transaction_metadata import (
        ProducerIdAndEpoch,
    )
    from spark_kafka_sink.broker.topic_partition import TopicPartition


class TransactionSupportedOperation(Enum):
    """What the client's version of a request can do."""

    DEFAULT_ERROR = auto()
    GENERIC_ERROR_SUPPORTED = auto()
    """It knows TRANSACTION_ABORTABLE."""
    ADD_PARTITION = auto()
    """It adds partitions by writing to them."""

    @classmethod
    def of(cls, version: int, *, generic_errors: int, adding: int) -> Self:
        """What a request of this version can do; the others are the first that can do more."""
        if version >= adding:
            return cls.ADD_PARTITION
        return cls.GENERIC_ERROR_SUPPORTED if version >= generic_errors else cls.DEFAULT_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who writes inside a transaction."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    supported_operation: TransactionSupportedOperation


def verify(
    transactions: TransactionCoordinator, writer: Writer, topic_partition: TopicPartition
) -> ErrorCode:
    """Add a partition to the writer's transaction, or see whether it is part of it."""
    if writer.supported_operation is TransactionSupportedOperation.ADD_PARTITION:
        error = transactions.add(writer.transactional_id, writer.producer, [topic_partition])
    else:
        error = transactions.verify(writer.transactional_id, writer.producer, topic_partition)
    if error is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if (
        error is ErrorCode.transaction_abortable
        and writer.supported_operation is TransactionSupportedOperation.DEFAULT_ERROR
    ):
        return ErrorCode.invalid_txn_state
    return error
