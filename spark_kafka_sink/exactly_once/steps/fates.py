"""Determine the fate of each transaction of a decided batch.

The fate of transactions that their coordinators have forgotten (transactional.id.expiration.ms) is
read from the markers after their records in the topics. A task's producer id has only one
transaction, so its first marker in any partition shows the fate of the whole transaction.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthorizationError, KafkaProdError, UnknownTopicError
from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, end_txn_outcome
from spark_kafka_sink.exactly_once.decision_record import Fate
from spark_kafka_sink.kafka.logs.log_reader import LogReader
from spark_kafka_sink.kafka.protocol.transactions import TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_kafka_sink.exactly_once.decision_record import DecidedBatch
    from spark_kafka_sink.exactly_once.task_transaction import PartitionRange, TaskTransaction
    from spark_kafka_sink.kafka.admin.transaction_description import TransactionDescription
    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient

_READ_TIMEOUT_S = 10.0
"""Maximum time in seconds to search one partition for the marker of one transaction."""
_LOG = logging.getLogger(__name__)
_ABORTED = frozenset(
    {
        TransactionState.PREPARE_ABORT,
        TransactionState.COMPLETE_ABORT,
        TransactionState.PREPARE_EPOCH_FENCE,
    }
)


def fates_from_codes(
    decided: DecidedBatch,
    codes: Mapping[str, int],
    descriptions: Mapping[str, TransactionDescription],
) -> tuple[Fate, ...]:
    """Return the fate of each transaction of a decision, in the same order.

    Args:
        decided: the decision.
        codes: error codes of EndTxn(commit) by transactional id; none of them is transient.
        descriptions: the coordinators' descriptions of transactions that EndTxn has not confirmed.
    """
    return tuple(
        _fate_from_code(task, codes[task.transactional_id], descriptions.get(task.transactional_id))
        for task in decided.transactions
    )


def _fate_from_code(
    task: TaskTransaction, code: int, description: TransactionDescription | None
) -> Fate:
    """Return the fate of one transaction.

    The id was used for only one transaction, so the coordinator's description refers to that
    transaction. It counts more than the code: some brokers answer a repeated EndTxn(commit) with
    INVALID_TXN_STATE, such as Redpanda before 24.2.
    """
    outcome = end_txn_outcome(code)
    if outcome is EndOutcome.COMMITTED:
        return Fate.COMMITTED
    if description is None or description.producer_id != task.transaction.producer_id:
        return Fate.LOST if outcome is EndOutcome.LOST else Fate.UNKNOWN
    if description.state is TransactionState.COMPLETE_COMMIT:
        return Fate.COMMITTED
    return Fate.LOST if description.state in _ABORTED else Fate.UNKNOWN


class FateReader:
    """Reads the fates of transactions from the markers in their topics.

    A topic or partition that cannot be read is not read again.

    Args:
        client: sends the requests.
        deadline: nothing is read after this time, in seconds of the client's clock; None to read
            every partition, each for at most `_READ_TIMEOUT_S`.
    """

    def __init__(self, client: BlockingClient, deadline: float | None = None) -> None:
        self._client = client
        self._deadline = deadline
        self._unreadable: set[str | tuple[str, int]] = set()
        """Topics, and partitions as (topic, number)."""

    def resolve_unknown(self, decided: DecidedBatch, fates: tuple[Fate, ...]) -> tuple[Fate, ...]:
        """Return the fates of a decision's transactions; those that are unknown are read."""
        return tuple(
            self.fate_of(task) if fate is Fate.UNKNOWN else fate
            for task, fate in zip(decided.transactions, fates, strict=True)
        )

    def fate_of(self, task: TaskTransaction) -> Fate:
        """Return the fate of a transaction, from the first partition that has its marker."""
        fates = (fate for _, fate in self.by_partition(task))
        return next((fate for fate in fates if fate is not Fate.UNKNOWN), Fate.UNKNOWN)

    def by_partition(self, task: TaskTransaction) -> Iterator[tuple[PartitionRange, Fate]]:
        """Yield the fate of a transaction in each of its partitions, until the deadline."""
        for written in task.partitions:
            deadline = self._client.deadline(_READ_TIMEOUT_S)
            if self._deadline is not None:
                deadline = min(deadline, self._deadline)
            if self._client.now() >= deadline:
                return
            yield written, self._read_fate(task, written, deadline)

    def _read_fate(self, task: TaskTransaction, written: PartitionRange, deadline: float) -> Fate:
        partition = written.topic, written.partition
        if written.last_offset is None or not self._unreadable.isdisjoint(
            {written.topic, partition}
        ):
            return Fate.UNKNOWN
        reader = LogReader(self._client, *partition)
        producer_id = task.transaction.producer_id
        try:
            marker = reader.marker_of(producer_id, written.last_offset, deadline)
        except KafkaProdError as error:
            is_of_topic = isinstance(error, (UnknownTopicError, AuthorizationError))
            self._unreadable.add(written.topic if is_of_topic else partition)
            _LOG.warning(
                "the fate of %s cannot be read from its topic: %s", task.transactional_id, error
            )
            return Fate.UNKNOWN
        if marker is None:
            return Fate.UNKNOWN
        return Fate.COMMITTED if marker.is_commit else Fate.LOST
