"""Receive the progress of tasks, add it up, and display it: `progress`.

A `ProgressListener` receives datagrams in its own thread, `ProgressSum` adds them up to a
`WriteProgress`, and a display shows the sum in a notebook or on stderr.
"""

from __future__ import annotations

import logging
import secrets
import socket
import sys
import time
from collections import Counter, deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Protocol

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql.utils import is_remote

from spark_kafka_sink.common.arguments import SESSION, check_argument
from spark_kafka_sink.common.errors import ConfigError, ReportError
from spark_kafka_sink.common.text import plural, size_text
from spark_kafka_sink.report.progress_counts import ProgressCounts
from spark_kafka_sink.spark.reports.last_report import is_connect_session
from spark_kafka_sink.spark.reports.report_folder import ReportFolder
from spark_kafka_sink.spark.reports.task_progress import ProgressAddress, TaskProgress, WaitsFor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

_DATAGRAM = 4096
"""Maximum size of a datagram in bytes; the datagrams of tasks are much smaller."""
_MISSED_INTERVALS = 3
"""Number of intervals without a datagram after which a task no longer counts as running."""
_UPDATE_INTERVAL_S = 2.0
_LOG = logging.getLogger(__name__)
_WINDOW_S = 10.0
"""Time window of the current rate, in seconds."""
_SUMMED = ("rows", *(field.name for field in fields(ProgressCounts)))


def line_display() -> Callable[[WriteProgress], None]:
    """Return a display below the cell in a notebook, otherwise a display as lines on stderr."""
    if "ipykernel" in sys.modules:
        from IPython.core.getipython import get_ipython
        from IPython.display import display

        if get_ipython() is not None:  # Otherwise, a script has imported IPython.
            return NotebookLine(display(_Line("waiting for the first task ..."), display_id=True))
    return lambda progress: print(f"kafkaprod: {progress}", file=sys.stderr, flush=True)


class NotebookDisplay(Protocol):
    """Interface of IPython's DisplayHandle."""

    def update(self, content: object, /) -> None:
        """Replace the displayed object."""


class NotebookLine:
    """A line below a notebook cell that each call replaces. Used by one thread at a time."""

    def __init__(self, display: NotebookDisplay) -> None:
        self._display = display
        self._called = False

    def __call__(self, progress: WriteProgress) -> None:
        """Display the progress of the writes."""
        self._called = True
        self._display.update(_Line(str(progress)))

    def close(self) -> None:
        """If no progress was received, replace the initial line."""
        if not self._called:
            self._display.update(_Line("no task reported progress"))


class _Line:
    """Text that a notebook displays without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


class ProgressListener:
    """A UDP port and the thread that listens on it until `close`.

    Args:
        host: the address to listen on, reachable from the executors.
        interval_s: seconds between datagrams of a task, and between calls of `show`.
        show: called in the listener's thread with the sum over all tasks, as soon as the first task
            reports.

    Raises:
        OSError: no port is available on that address.
    """

    def __init__(self, host: str, interval_s: float, show: Callable[[WriteProgress], None]) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._socket.settimeout(min(interval_s, 0.2))
        self.address = ProgressAddress(
            host=host,
            port=self._socket.getsockname()[1],
            token=secrets.token_hex(16),
            interval_s=interval_s,
        )
        self._show = show
        self._displayed: WriteProgress | None = None
        """The last displayed progress, without its times. Used only by the listener's thread."""
        self._end = Event()
        self._lock = Lock()
        self._sum = ProgressSum()
        """Guarded by the lock."""
        self._thread = Thread(target=self._listen, name="kafkaprod-progress", daemon=True)
        self._thread.start()

    @property
    def latest(self) -> WriteProgress:
        """The current progress."""
        with self._lock:
            return self._sum.total(time.monotonic(), _MISSED_INTERVALS * self.address.interval_s)

    def close(self) -> None:
        """Receive pending datagrams, show the final progress, and close the port."""
        self._end.set()
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        due = time.monotonic() + self.address.interval_s
        received = False
        while not self._end.is_set():
            received = self._receive_datagram() or received
            now = time.monotonic()
            if now >= due and received:
                due = now + self.address.interval_s
                self._show_progress()
        self._socket.setblocking(False)
        while self._receive_datagram():
            received = True
        if received:
            self._show_progress(at_end=True)

    def _show_progress(self, *, at_end: bool = False) -> None:
        """Show the progress.

        Unchanged progress is shown only while tasks are running, not at the end.
        """
        latest = self.latest
        counts = replace(latest, seconds=0.0, rate=0.0)
        if counts != self._displayed or (latest.running and not at_end):
            self._show(latest)
        self._displayed = counts

    def _receive_datagram(self) -> bool:
        """Receive a datagram; return True if it came from a task."""
        with suppress(TimeoutError, BlockingIOError):
            datagram = self._socket.recv(_DATAGRAM)
            progress = TaskProgress.decode(datagram, self.address.token)
            if progress is not None:
                with self._lock:
                    self._sum.add(progress, time.monotonic())
                return True
        return False


@contextmanager
def progress(
    spark: SparkSession | None = None,
    *,
    interval_s: float = _UPDATE_INTERVAL_S,
    show: Callable[[WriteProgress], None] | None = None,
) -> Iterator[ProgressListener]:
    """Display the progress of the writes and micro-batches that start within the `with` block.

    Every other second it shows the acknowledged records, the rate, and what the tasks wait for: on
    stderr, or in place below a notebook's cell. Tasks send their progress by UDP to a port of this
    process on `spark.driver.host`. If the network between executors and driver blocks UDP, nothing
    is shown, but the write is not affected.

    Args:
        spark: the Spark session; any session works, because a process has only one Spark
            application.
        interval_s: seconds between two lines.
        show: called with each `WriteProgress`, in a separate thread, instead of displaying it.

    Raises:
        ConfigError: an argument is wrong.
        ReportError: there is no Spark application in this process, as with Spark Connect.
    """
    if spark is not None:
        check_argument("progress(spark)", spark, SESSION, ("createDataFrame",))
    if interval_s <= 0:
        raise ConfigError(f"progress(): interval_s must be above 0, not {interval_s}")
    if show is not None:
        check_argument("progress(show=...)", show, "a function", ("__call__",))
    folder = ReportFolder.here()
    context = SparkContext._active_spark_context  # noqa: SLF001 - there is no public API
    remote = is_remote() if spark is None else is_connect_session(spark)
    if folder is None or context is None or remote:
        raise ReportError(
            "progress() requires the Spark driver in this process",
            hint="With Spark Connect, use last_report() after the write, or the Spark UI.",
        )
    host = context.getConf().get("spark.driver.host") or "127.0.0.1"
    display = show or line_display()
    try:
        listener = ProgressListener(host, interval_s, display)
    except OSError as error:
        raise ReportError(
            f"progress() cannot listen on spark.driver.host {host}: {error}",
            hint="Set spark.driver.host to an address of this machine.",
        ) from error
    try:
        listener.address.publish(folder.path)
        yield listener
    except (KeyboardInterrupt, Py4JError):
        # On Ctrl-C PySpark asks the JVM to cancel on the connection that is busy with the write.
        # That fails with one of these two errors.
        if (message := listener.latest.interruption_message()) is not None:
            _LOG.warning("%s", message)
        raise
    finally:
        ProgressAddress.withdraw(folder.path)
        listener.close()
        if isinstance(display, NotebookLine):
            display.close()


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
