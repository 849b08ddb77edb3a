"""Which task a report is about, and how long it took."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TaskInfo:
    """Spark's numbers of a task: its partition, its attempt, and the id that no other has."""

    partition_id: int = 0
    attempt: int = 0
    task_attempt_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TaskTime:
    """How long one task took, in milliseconds. Ordered by time."""

    duration_ms: int
    task: TaskInfo

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"duration_ms": self.duration_ms, **asdict(self.task)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` made."""
        task = TaskInfo(**{field.name: data[field.name] for field in fields(TaskInfo)})
        return cls(duration_ms=data["duration_ms"], task=task)
