"""The result that a task sends to the driver: its open transaction, or why it has none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_kafka_sink.common.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer


_MAX_LISTED_PARTITIONS = 100_000
"""Maximum number of partitions that a decision lists, for all tasks together: 3 MB of JSON, which
the driver appends in one transaction of a few seconds. One partition per task is enough to
determine the fate of its transaction.
"""
MAX_TOPICS = 100
"""Maximum number of topics in a record of the decision log."""


class TaskOutcome(StrEnum):
    """Outcome of a task: rows written, no rows, or batch skipped."""

    WRITTEN = "written"
    """The task's records are acknowledged, in a transaction that is still open."""
    EMPTY = "empty"
    """The task had no rows, and therefore has no transaction."""
    SKIPPED = "skipped"
    """The batch is already decided: the rows were not written again, and there is no transaction.
    """


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartitionRange:
    """The records of a transaction in one partition.

    The offsets are None if the broker did not return them. The range may also contain records of
    other transactions.
    """

    topic: str
    partition: int
    records: int
    first_offset: int | None = None
    last_offset: int | None = None

    def __str__(self) -> str:
        """Return text for messages, such as "events-3: 5,210 records at offsets 17 to 9120"."""
        if self.first_offset is None or self.last_offset is None:
            offsets = "offsets unknown"
        else:
            offsets = f"offsets {self.first_offset} to {self.last_offset}"
        return f"{self.topic}-{self.partition}: {plural(self.records, 'record')}, {offsets}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTransaction:
    """An open transaction in which all records of a task are acknowledged."""

    transaction: TransactionalProducer
    started_ms: int
    """Start time by the task's clock, in milliseconds since 1970."""
    timeout_ms: int
    """transaction.timeout.ms: age in milliseconds at which the broker aborts the transaction."""
    partitions: tuple[PartitionRange, ...] = ()
    """The partitions, sorted by topic and number, without duplicates."""
    unlisted_partitions: int = 0
    """Number of partitions that are not listed because the decision would be too large."""
    unlisted_records: int = 0
    """Number of records in the partitions that are not listed."""

    @property
    def transactional_id(self) -> str:
        """The transactional id, which only this task attempt uses."""
        return self.transaction.transactional_id

    @property
    def records(self) -> int:
        """Number of records in all partitions."""
        return sum(partition.records for partition in self.partitions) + self.unlisted_records


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """Outcome of one task; part of its commit message.

    Raises:
        ValueError: an outcome other than WRITTEN has a transaction, or WRITTEN has none.
    """

    outcome: TaskOutcome
    query_id: str | None
    """Id of the streaming query; None in a batch job."""
    batch: str
    """Batch number of a stream; otherwise the name of the scope."""
    transaction: TaskTransaction | None = None
    rows: int | None = None
    """Number of rows that Spark passed to the task, written or not; None if not counted."""
    topics: frozenset[str] | None = None
    """Topics that the rows of a write with a batchId specify. None if there is no batchId, or if
    the list would be too large.
    """
    run_id: str | None = None
    """Run id of the query for a write in foreachBatch; None if unknown."""
    shared: TransactionalProducer | None = None
    """The transaction that all tasks of the batch share, even if this task has not written; None if
    each task has its own.
    """

    def __post_init__(self) -> None:
        if (self.transaction is None) == (self.outcome is TaskOutcome.WRITTEN):
            raise ValueError(
                f"the task's outcome is {self.outcome.value}, but its transaction is "
                f"{self.transaction}"
            )


def ids_of(tasks: Iterable[TaskTransaction]) -> list[str]:
    """Return the transactional ids of tasks."""
    return [task.transactional_id for task in tasks]


def max_listed_partitions(tasks: int) -> int:
    """Return the maximum number of partitions per task that a decision lists."""
    return max(1, _MAX_LISTED_PARTITIONS // max(1, tasks))


def rows_of(results: Sequence[TaskResult]) -> int | None:
    """Return how many rows Spark passed to all tasks; None if a task did not count them."""
    counts = [result.rows for result in results if result.rows is not None]
    return sum(counts) if len(counts) == len(results) else None


def topics_of(results: Sequence[TaskResult]) -> tuple[str, ...] | None:
    """Return the sorted topics that all rows specify; None if some are unknown, or too many."""
    names = [result.topics for result in results if result.topics is not None]
    every = frozenset[str]().union(*names)
    return tuple(sorted(every)) if len(names) == len(results) and len(every) <= MAX_TOPICS else None
