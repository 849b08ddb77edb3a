"""The commit messages of exactly-once tasks, and what the driver reads from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.config.enums import ReportTasks
from spark_kafka_sink.exactly_once.task_transaction import (
    PartitionRange,
    TaskResult,
    max_listed_partitions,
)
from spark_kafka_sink.report.columnar.packed_numbers import UNKNOWN
from spark_kafka_sink.report.delivery_counters import SLOWEST_KEPT, TASKS_KEPT, ReportedTransaction
from spark_kafka_sink.report.packed_report import partitions_of
from spark_kafka_sink.spark.writers.commit_messages import CommitMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.report.partition_report import PartitionReport

_MAX_REPORTED = {
    ReportTasks.ALL: TASKS_KEPT,
    ReportTasks.SLOWEST: SLOWEST_KEPT,
    ReportTasks.NONE: 0,
}


@dataclass
class TransactionCommitMessage(CommitMessage):
    """Message of a task whose rows are acknowledged, in a transaction that the driver will end."""

    result: TaskResult
    """The task's result. Its transaction does not list the partitions: the report contains them."""
    nonce: str
    """Nonce of the planning that created the task."""


def of_tasks(messages: Sequence[object]) -> list[TransactionCommitMessage]:
    """Return the commit messages of finished tasks."""
    return [message for message in messages if isinstance(message, TransactionCommitMessage)]


def results_of(messages: Sequence[TransactionCommitMessage]) -> list[TaskResult]:
    """Return the result of each task, with at most as many partitions as a decision can list."""
    written = sum(message.result.transaction is not None for message in messages)
    max_partitions = max_listed_partitions(written)
    return [_result_of(message, max_partitions) for message in messages]


def transactions_of(
    results: Sequence[TaskResult], tasks: ReportTasks
) -> tuple[ReportedTransaction, ...]:
    """Return the distinct transactions of the tasks, sorted by id.

    Their number is limited in the same way as the task lines of a report.
    """
    written = {
        result.transaction.transaction for result in results if result.transaction is not None
    }
    infos = sorted(
        ReportedTransaction(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            epoch=transaction.epoch,
        )
        for transaction in written
    )
    return tuple(infos[: _MAX_REPORTED[tasks]])


def _result_of(message: TransactionCommitMessage, max_partitions: int) -> TaskResult:
    """Return the task's result with its partitions, at most `max_partitions` of them.

    If the tasks share a transaction, all partitions are included, because the check of that
    transaction needs to know which task wrote to each partition.
    """
    result = message.result
    if result.transaction is None:
        return result
    columns = partitions_of(message.report)
    persisted = columns.column("persisted")
    written = np.flatnonzero(persisted)
    if result.shared is not None:
        max_partitions = len(written)
    # If the offset is unknown, the transaction's fate cannot be read from the topic later.
    unclear = columns.column("last_offset")[written] == UNKNOWN
    order = written[np.argsort(unclear, kind="stable")]
    listed, unlisted = np.sort(order[:max_partitions]), order[max_partitions:]
    transaction = replace(
        result.transaction,
        partitions=tuple(_persisted_range(part) for part in columns.select(listed).to_reports()),
        unlisted_partitions=len(unlisted),
        unlisted_records=int(persisted[unlisted].sum()),
    )
    return replace(result, transaction=transaction)


def _persisted_range(part: PartitionReport) -> PartitionRange:
    return PartitionRange(
        topic=part.topic,
        partition=part.partition,
        records=part.persisted,
        first_offset=part.first_offset,
        last_offset=part.last_offset,
    )
