"""Which task a report is about, what it did in one line, and the transaction it left open."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TaskInfo:
    """Spark's numbers of a task: its partition, its attempt, and the id that no other has."""

    partition_id: int = 0
    """The partition of the DataFrame."""
    attempt: int = 0
    """The number of the attempt, 0 for the first; counted anew if Spark runs the stage again."""
    task_attempt_id: int = 0
    """Spark's id of this attempt, which no other has."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TaskReport:
    """One task in a line: time in milliseconds, bytes as sent. Ordered by time."""

    duration_ms: int
    """Time of the task, in milliseconds."""
    task: TaskInfo
    records: int = 0
    """Records handed over."""
    bytes_sent: int = 0
    """Bytes after compression."""
    retries: int = 0
    """Batches sent again."""
    poison: int = 0
    """Rows that could not be written."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return dict(zip(COLUMNS, self.to_row(), strict=True))

    def to_row(self) -> tuple[int, ...]:
        """The values under `COLUMNS`."""
        counts = (self.records, self.bytes_sent, self.retries, self.poison)
        return (self.duration_ms, *astuple(self.task), *counts)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` made; reports of version 2 have no counts."""
        task = TaskInfo(**{field.name: data[field.name] for field in fields(TaskInfo)})
        counts = {name: int(data.get(name, 0)) for name in _COUNTS}
        return cls(duration_ms=data["duration_ms"], task=task, **counts)

    @classmethod
    def from_row(cls, columns: Sequence[str], row: Sequence[int]) -> Self:
        """Read what `to_row` made, under the columns of its file."""
        return cls.from_dict(dict(zip(columns, row, strict=True)))


_COUNTS = ("records", "bytes_sent", "retries", "poison")
COLUMNS = ("duration_ms", *(field.name for field in fields(TaskInfo)), *_COUNTS)
"""Names of what `TaskReport.to_row` gives."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TransactionInfo:
    """A transaction that a task left open for the driver to decide."""

    transactional_id: str
    """Of one attempt of a task; with atomicBatch=true all tasks write in one transaction."""
    producer_id: int
    """Which the transaction's batches carry in the log, as they do the epoch."""
    epoch: int
    """Of the producer id."""
