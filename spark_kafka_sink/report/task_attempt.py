"""The identity of a task attempt."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TaskAttempt:
    """Spark's ids of a task attempt."""

    partition_id: int = 0
    """The number of the task's DataFrame partition."""
    attempt: int = 0
    """Number of the attempt, counted from 0. It restarts at 0 if Spark runs the stage again."""
    task_attempt_id: int = 0
    """Spark's unique id of this attempt."""
