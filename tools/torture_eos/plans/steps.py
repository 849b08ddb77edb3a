"""The places at which a run can be stopped, as the harness and the processes of a run name them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Step(StrEnum):
    """A moment in the life of a micro-batch.

    Those of `LOG` are seen by the harness in the topic, whichever sink writes, `END_TXN` on
    the way to the broker; all others are reached by a Python process, which waits there until the
    harness lets it go on.
    """

    LOG_HALF = "log.half"
    """About half of a batch's records are in the topic."""
    LOG_FULL = "log.full"
    """All of a batch's records are in the topic."""

    BEGINNING = "plan.beginning"
    """Before InitProducerId of the transaction that all tasks share."""
    BEGUN = "plan.begun"
    """After it, before the decision log is read behind the fence."""
    PLANNED = "plan.writer"
    """The writer of a micro-batch was made, its tasks have not begun."""
    TASK_BEGUN = "task.begun"
    TASK_APPENDED = "task.appended"
    """Between two Arrow batches."""
    TASK_FLUSHED = "task.flushed"
    """After the last acknowledgement."""
    TASK_ENDED = "task.ended"
    """The commit message is about to go back."""
    COMMIT_BEGUN = "commit.begun"
    COMMIT_ENDED = "commit.ended"
    """Before Spark's own commit log."""

    TASK_OPENING = "task.opening"
    """Before InitProducerId of a task's transaction."""
    TASK_OPENED = "task.opened"
    """After it, or after the claim to a part of the shared transaction; nothing is written."""
    TASK_CLAIMED = "task.claimed"
    """A task without rows has claimed its part of the shared transaction."""
    FENCING = "driver.fencing"
    """Before InitProducerId of the driver's own id."""
    FENCED = "driver.fenced"
    LOG_READ = "driver.log-read"
    CHECKED = "driver.checked"
    """The leaders have what the tasks report for the shared transaction."""
    APPENDING = "driver.appending"
    """Before a record of the decision log: the first is the decision, the second says done; there
    is but one, that says done, where tasks share a transaction."""
    APPENDED = "driver.appended"
    APPENDED_UNCOMMITTED = "driver.appended-uncommitted"
    """The record is in the log, and the transaction that it is in is open."""
    ENDING = "driver.ending"
    """Before EndTxn of the tasks' transactions."""
    END_TXN = "net.end-txn"
    """A commit of a task's transaction, or of the shared one, on its way to the broker."""

    ABORT_BEGUN = "abort.begun"
    ABORT_ENDED = "abort.ended"


LOG = frozenset({Step.LOG_HALF, Step.LOG_FULL})
TASK = (Step.TASK_BEGUN, Step.TASK_APPENDED, Step.TASK_FLUSHED, Step.TASK_ENDED)
COMMIT = (Step.COMMIT_BEGUN, Step.COMMIT_ENDED)
OPENING = (Step.TASK_OPENING, Step.TASK_OPENED, Step.TASK_CLAIMED)
PLANNING = (Step.BEGINNING, Step.BEGUN)
DECIDING = (
    Step.FENCING,
    Step.FENCED,
    Step.LOG_READ,
    Step.CHECKED,
    Step.APPENDING,
    Step.APPENDED_UNCOMMITTED,
    Step.APPENDED,
    Step.ENDING,
)
EXACTLY_ONCE = frozenset({*PLANNING, *OPENING, *DECIDING, Step.END_TXN})
"""What only a sink with transactions comes to."""
SHARED_ONLY = frozenset({*PLANNING, Step.TASK_CLAIMED, Step.CHECKED})
"""What only a batch in one shared transaction comes to."""
SEVERAL_ONLY = frozenset({Step.FENCING, Step.FENCED, Step.ENDING})
"""What only a batch in several transactions comes to, in its commit."""
UNNUMBERED = frozenset({*PLANNING, Step.PLANNED})
"""Where the number of the micro-batch is not known."""
TWICE = frozenset(
    {
        Step.TASK_APPENDED,
        Step.APPENDING,
        Step.APPENDED_UNCOMMITTED,
        Step.APPENDED,
        Step.END_TXN,
    }
)
"""What a task, or a commit, comes to at least twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The `hit`th time that a process reaches `step` in micro-batch `batch` (None: in any).

    Hits are counted for each task attempt, or each commit, by itself. `after`: the number of the
    plan's stop that somebody must have reached before.
    """

    step: Step
    batch: int | None
    hit: int = 1
    after: int | None = None

    def __str__(self) -> str:
        hit = f" #{self.hit}" if self.step in TWICE else ""
        return f"{self.step}{hit}"

    def as_json(self) -> dict[str, Any]:
        return {"step": str(self.step), "batch": self.batch, "hit": self.hit, "after": self.after}
