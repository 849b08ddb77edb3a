"""The progress of a running write: the sum over its tasks."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from spark_kafka_sink.common.text import plural, size_text
from spark_kafka_sink.report.progress_counts import ProgressCounts
from spark_kafka_sink.spark.reports.task_progress import TaskProgress, WaitsFor

if TYPE_CHECKING:
    from collections.abc import Mapping

_WINDOW_S = 10.0
"""Time window of the current rate, in seconds."""
_SUMMED = ("rows", *(field.name for field in fields(ProgressCounts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteProgress(ProgressCounts):
    """Sum over all tasks that have reported since the listener started."""

    seconds: float = 0.0
    """Seconds since the start of the first task that reported."""
    rows: int = 0
    """Number of rows received from Spark."""
    running: int = 0
    """Number of running tasks."""
    ended: int = 0
    """Number of tasks that have ended, successfully or not."""
    rate: float = 0.0
    """Number of these records (written, dropped or dead letters) per second, over the last
    `_WINDOW_S` seconds.
    """
    waits_for: Mapping[WaitsFor, int]
    """Number of running tasks, by what they wait for."""

    def interruption_message(self) -> str | None:
        """Return the message for an interrupted program, or None if no task is running."""
        if not self.running:
            return None
        return (
            "interrupted, but tasks are still writing: spark.sparkContext.cancelAllJobs() stops "
            "them, and last_report() then returns what the finished tasks delivered. Progress so "
            f"far: {self}"
        )

    def __str__(self) -> str:
        word = "sent" if self.sent else "acknowledged"
        if self.would_be_written:
            word = "would be written"
        tasks = f"{self.running:,} running, {self.ended:,} ended"
        text = (
            f"{plural(self.records, 'record')} {word}, {self.rate:,.0f}/s, "
            f"{size_text(self.bytes_sent)}"
        )
        waits = [
            f"{count:,} wait{'s' if count == 1 else ''} for {cause}"
            for cause, count in self.waits_for.items()
            if count and cause is not WaitsFor.NOTHING
        ]
        again = [f"{plural(self.retries, 'batch', 'batches')} sent again"] if self.retries else []
        return "; ".join([f"{self.seconds:,.0f} s: {text}", f"tasks: {tasks}", *waits, *again])


class ProgressSum:
    """Adds up the tasks' progress. Used by one thread, or while holding a lock."""

    def __init__(self) -> None:
        self._tasks: dict[int, tuple[TaskProgress, float]] = {}
        """The latest progress of each task and when it was received, by task attempt id (unique
        within an application).
        """
        self._since: float | None = None
        self._history: deque[tuple[float, int]] = deque()
        """Record counts at several times within the window, and at one time before it."""

    def add(self, progress: TaskProgress, now: float) -> None:
        """Add a task's progress. Datagrams can be duplicated or reordered."""
        last = self._tasks.get(progress.task_attempt_id)
        if last is not None and (last[0].done or last[0].rows > progress.rows):
            return
        if self._since is None:
            self._since = now - progress.elapsed_ms / 1000
            self._history.append((self._since, 0))
        self._tasks[progress.task_attempt_id] = progress, now

    def total(self, now: float, timeout_s: float) -> WriteProgress:
        """Return the sum. Tasks without a datagram for `timeout_s` do not count as running."""
        if self._since is None:
            return WriteProgress(waits_for={})
        tasks = [task for task, _ in self._tasks.values()]
        running = [
            task for task, at in self._tasks.values() if not task.done and now - at < timeout_s
        ]
        counts = {name: sum(getattr(task, name) for task in tasks) for name in _SUMMED}
        return WriteProgress(
            seconds=now - self._since,
            running=len(running),
            ended=len(tasks) - len(running),
            rate=self._records_per_second(now, sum(task.records for task in tasks)),
            waits_for=Counter(task.waits_for for task in running),
            **counts,
        )

    def _records_per_second(self, now: float, records: int) -> float:
        history = self._history
        while len(history) > 1 and history[1][0] <= now - _WINDOW_S:
            history.popleft()
        before, earlier = history[0]
        if now > history[-1][0]:
            history.append((now, records))
        return (records - earlier) / (now - before) if now > before else 0.0
