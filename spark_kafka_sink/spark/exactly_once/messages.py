"""The commit message of a task that wrote in a transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from spark_kafka_sink.config.enums import ReportTasks
from spark_kafka_sink.exactly_once.task_transaction import PartitionRange, partitions_to_name
from spark_kafka_sink.report.delivery_counters import SLOWEST_KEPT, TASKS_KEPT
from spark_kafka_sink.report.packed_columns import UNKNOWN
from spark_kafka_sink.report.packed_report import columns_of
from spark_kafka_sink.report.task_report import TransactionInfo
from spark_kafka_sink.spark.commit_messages import DeliveryMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import WriterCommitMessage

    from spark_kafka_sink.exactly_once.task_transaction import TaskResult
    from spark_kafka_sink.report.partition_report import PartitionReport

_MOST_REPORTED: Final = {
    ReportTasks.ALL: TASKS_KEPT,
    ReportTasks.SLOWEST: SLOWEST_KEPT,
    ReportTasks.NONE: 0,
}


@dataclass
class TransactionMessage(DeliveryMessage):
    """A task's rows are acknowledged in a transaction that only the driver can commit."""

    result: TaskResult
    """Its transaction does not list the partitions, which are in the report."""
    nonce: str
    """Of the planning that the task belongs to."""


def of_tasks(messages: Sequence[WriterCommitMessage | None]) -> list[TransactionMessage]:
    """Return the messages of finished tasks."""
    return [each for each in messages if isinstance(each, TransactionMessage)]


def results_of(messages: Sequence[TransactionMessage]) -> list[TaskResult]:
    """Return the result of each task, with as many partitions as a decision of all tasks lists."""
    written = sum(each.result.transaction is not None for each in messages)
    most = partitions_to_name(written)
    return [_result_of(each, most) for each in messages]


def transactions_of(
    results: Sequence[TaskResult], tasks: ReportTasks
) -> tuple[TransactionInfo, ...]:
    """Return the tasks' transactions, each once, by id; limited like the task lines of a report."""
    written = {each.transaction.transaction for each in results if each.transaction is not None}
    infos = sorted(
        TransactionInfo(
            transactional_id=each.transactional_id, producer_id=each.producer_id, epoch=each.epoch
        )
        for each in written
    )
    return tuple(infos[: _MOST_REPORTED[tasks]])


def _result_of(message: TransactionMessage, most: int) -> TaskResult:
    """Return the result with partitions; with all of them if the tasks share a transaction.

    The check of a shared transaction needs the task that owns each partition.
    """
    result = message.result
    if result.transaction is None:
        return result
    columns = columns_of(message.report)
    persisted = columns.column("persisted")
    written = np.flatnonzero(persisted)
    if result.shared is not None:
        most = len(written)
    # Without a known offset, the outcome of the transaction cannot be read from the topic later.
    unclear = columns.column("last_offset")[written] == UNKNOWN
    order = written[np.argsort(unclear, kind="stable")]
    named, unnamed = np.sort(order[:most]), order[most:]
    transaction = replace(
        result.transaction,
        partitions=tuple(_range(part) for part in columns.taken(named).to_reports()),
        unnamed_partitions=len(unnamed),
        unnamed_records=int(persisted[unnamed].sum()),
    )
    return replace(result, transaction=transaction)


def _range(part: PartitionReport) -> PartitionRange:
    return PartitionRange(
        topic=part.topic,
        partition=part.partition,
        records=part.persisted,
        first_offset=part.first_offset,
        last_offset=part.last_offset,
    )
