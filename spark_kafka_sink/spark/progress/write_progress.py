"""The progress of a whole write: its tasks' added up; pure, times in seconds of a clock."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.quantity import plural, size_text
from spark_kafka_sink.spark.progress.task_progress import WaitsFor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.spark.progress.task_progress import TaskProgress

WINDOW_S = 10.0
"""The current rate is that of so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteProgress:
    """All tasks that were heard of, since the watching began."""

    seconds: float = 0.0
    """Since the task began that was heard of first."""
    rows: int = 0
    """Rows taken over from Spark."""
    persisted: int = 0
    """Records acknowledged, those of attempts that have failed included."""
    sent: int = 0
    """Records sent with acks=0."""
    would_be_written: int = 0
    """Records of a dry run."""
    bytes_sent: int = 0
    """Bytes of those, after compression."""
    retries: int = 0
    """Batches sent again."""
    running: int = 0
    """Tasks that run now."""
    ended: int = 0
    """Tasks that have ended, well or not."""
    rate: float = 0.0
    """Records of these three kinds a second, over the last `WINDOW_S` seconds."""
    waits_for: Mapping[WaitsFor, int]
    """How many running tasks wait for what."""

    def interrupted(self) -> str | None:
        """What to tell who has interrupted the Python that waits; None where no task runs."""
        if not self.running:
            return None
        return (
            "interrupted, but tasks still write: "
            "spark.sparkContext.cancelAllJobs() stops them, and last_report() then says what the "
            "finished ones delivered. Until now: "
            f"{self}"
        )

    def __str__(self) -> str:
        records = self.persisted + self.sent + self.would_be_written
        word = "sent" if self.sent else "acknowledged"
        if self.would_be_written:
            word = "would be written"
        tasks = f"{self.running:,} running, {self.ended:,} ended"
        text = (
            f"{plural(records, 'record')} {word}, {self.rate:,.0f}/s, {size_text(self.bytes_sent)}"
        )
        waits = [
            f"{count:,} wait{'s' if count == 1 else ''} for {what}"
            for what, count in self.waits_for.items()
            if count and what is not WaitsFor.NOTHING
        ]
        again = [f"{plural(self.retries, 'batch', 'batches')} sent again"] if self.retries else []
        return "; ".join([f"{self.seconds:,.0f} s: {text}", f"tasks: {tasks}", *waits, *again])


class ProgressSum:
    """Adds up what the tasks tell; used by one thread, or under a lock."""

    def __init__(self) -> None:
        self._tasks: dict[int, tuple[TaskProgress, float]] = {}
        """By task attempt id, which no two attempts of an application share: when it was heard."""
        self._since: float | None = None
        self._history: deque[tuple[float, int]] = deque()
        """Records so far, at times within the window and one before it."""

    def take(self, progress: TaskProgress, now: float) -> None:
        """A task has told its progress; datagrams may come twice or in another order."""
        last = self._tasks.get(progress.task_attempt_id)
        if last is not None and (last[0].done or last[0].rows > progress.rows):
            return
        if self._since is None:
            self._since = now - progress.elapsed_ms / 1000
            self._history.append((self._since, 0))
        self._tasks[progress.task_attempt_id] = progress, now

    def total(self, now: float, silence_s: float) -> WriteProgress:
        """What is known now; a task that was silent for so long is not counted as running."""
        if self._since is None:
            return WriteProgress(waits_for={})
        tasks = [task for task, _ in self._tasks.values()]
        running = [
            task for task, at in self._tasks.values() if not task.done and now - at < silence_s
        ]
        persisted, sent = sum(t.persisted for t in tasks), sum(t.sent for t in tasks)
        dry = sum(task.would_be_written for task in tasks)
        return WriteProgress(
            seconds=now - self._since,
            rows=sum(task.rows for task in tasks),
            persisted=persisted,
            sent=sent,
            would_be_written=dry,
            bytes_sent=sum(task.bytes_sent for task in tasks),
            retries=sum(task.retries for task in tasks),
            running=len(running),
            ended=len(tasks) - len(running),
            rate=self._rate(now, persisted + sent + dry),
            waits_for=Counter(task.waits_for for task in running),
        )

    def _rate(self, now: float, records: int) -> float:
        history = self._history
        while len(history) > 1 and history[1][0] <= now - WINDOW_S:
            history.popleft()
        before, earlier = history[0]
        if now > history[-1][0]:
            history.append((now, records))
        return (records - earlier) / (now - before) if now > before else 0.0
