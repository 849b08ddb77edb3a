"""The report of a task in one line."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.report.task_attempt import TaskAttempt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COUNTS = ("records", "bytes_sent", "retries", "poison")


COLUMNS = ("duration_ms", *(field.name for field in fields(TaskAttempt)), *_COUNTS)
"""Names of the values that `TaskReport.to_row` returns."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TaskReport:
    """The report of one task in one line. Instances are ordered by duration."""

    duration_ms: int
    """Duration of the task in milliseconds."""
    task: TaskAttempt
    records: int = 0
    """Number of records handed to the producer."""
    bytes_sent: int = 0
    """Bytes after compression."""
    retries: int = 0
    """Number of batches sent again."""
    poison: int = 0
    """Number of rows that could not be written."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return dict(zip(COLUMNS, self.to_row(), strict=True))

    def to_row(self) -> tuple[int, ...]:
        """Return the values of `COLUMNS`."""
        counts = (self.records, self.bytes_sent, self.retries, self.poison)
        return (self.duration_ms, *astuple(self.task), *counts)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Parse the result of `to_dict`."""
        task = TaskAttempt(**{field.name: data[field.name] for field in fields(TaskAttempt)})
        counts = {name: int(data[name]) for name in _COUNTS}
        return cls(duration_ms=data["duration_ms"], task=task, **counts)

    @classmethod
    def from_row(cls, columns: Sequence[str], row: Sequence[int]) -> Self:
        """Parse the result of `to_row`, given the columns of the file."""
        return cls.from_dict(dict(zip(columns, row, strict=True)))
