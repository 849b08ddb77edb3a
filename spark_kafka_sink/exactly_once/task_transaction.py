"""What a task hands the driver: the transaction that it left open, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.text import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.protocol.transactions import OpenTransaction


_NAMED: Final = 100_000
"""Partitions of all tasks that a decision names: 3 MB of JSON, which the driver appends in one
transaction of seconds. One of each task tells how its transaction has ended."""
MAX_TOPICS: Final = 100
"""Topics that a record of the decision log names."""


class TaskOutcome(StrEnum):
    """What a task has done with its rows."""

    WRITTEN = "written"
    """They are acknowledged, in a transaction that is open."""
    EMPTY = "empty"
    """There were none, and so there is no transaction."""
    SKIPPED = "skipped"
    """The batch is decided already: they were not written again, and there is no transaction."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartitionRange:
    """The records that a transaction has in one partition.

    Records of other transactions may lie between the offsets, which are None where the broker
    named none.
    """

    topic: str
    partition: int
    records: int
    first_offset: int | None = None
    last_offset: int | None = None

    def __str__(self) -> str:
        """For messages, such as "events-3: 5,210 records at offsets 17 to 9120"."""
        if self.first_offset is None or self.last_offset is None:
            where = "offsets unknown"
        else:
            where = f"offsets {self.first_offset} to {self.last_offset}"
        return f"{self.topic}-{self.partition}: {plural(self.records, 'record')}, {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTransaction:
    """A transaction with all records of a task acknowledged in it, not ended yet."""

    transaction: OpenTransaction
    started_ms: int
    """When it began by the task's clock, milliseconds since 1970."""
    timeout_ms: int
    """transaction.timeout.ms: the broker aborts it when it is older."""
    partitions: tuple[PartitionRange, ...] = ()
    """By topic and partition, each once."""
    unnamed_partitions: int = 0
    """How many more it has written to, where naming all would make the decision too large."""
    unnamed_records: int = 0
    """Records in these."""

    @property
    def transactional_id(self) -> str:
        """The id that the task made for itself alone."""
        return self.transaction.transactional_id

    @property
    def records(self) -> int:
        """Records in all partitions."""
        return sum(each.records for each in self.partitions) + self.unnamed_records


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """How one task ended, as its commit message carries it.

    Raises:
        ValueError: a transaction is missing for WRITTEN, or is there for another outcome.
    """

    outcome: TaskOutcome
    query_id: str | None
    """The streaming query's; None in a batch job."""
    batch: str
    """A stream's batch number; otherwise the name of the scope."""
    transaction: TaskTransaction | None = None
    rows: int | None = None
    """What Spark handed the task, written or not; None where it did not count them."""
    topics: frozenset[str] | None = None
    """That the rows of a write with a batchId name; None without, or where they are too many."""
    run_id: str | None = None
    """Of the query, where foreachBatch writes; None if it is not known."""
    shared: OpenTransaction | None = None
    """The transaction of all tasks of the batch, whether this one has written in it or not; None
    where each has its own."""

    def __post_init__(self) -> None:
        if (self.transaction is None) == (self.outcome is TaskOutcome.WRITTEN):
            raise ValueError(f"a task that ends as {self.outcome.value} has {self.transaction}")


def partitions_to_name(tasks: int) -> int:
    """How many partitions the decision names of each of so many tasks."""
    return max(1, _NAMED // max(1, tasks))


def rows_of(results: Sequence[TaskResult]) -> int | None:
    """The rows that Spark handed all tasks; None where one has not counted its own."""
    counts = [each.rows for each in results if each.rows is not None]
    return sum(counts) if len(counts) == len(results) else None


def topics_of(results: Sequence[TaskResult]) -> tuple[str, ...] | None:
    """The topics that the rows of all tasks name, sorted; None where one has not told its own."""
    names = [each.topics for each in results if each.topics is not None]
    every = frozenset[str]().union(*names)
    return tuple(sorted(every)) if len(names) == len(results) and len(every) <= MAX_TOPICS else None
