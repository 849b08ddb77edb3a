"""The Python worker in which this code runs, and its ancestors, as far as `/proc` describes them.

Spark starts a daemon for each kind of Python worker and forks the workers from it. A worker serves
one request after another. Spark does not report startup times to Python, so they are read from
`/proc`.

Spark does not pass the log level to Python workers. `spark.log.level` is on the JVM's command line
if the session's builder or `--conf` has set it. A later `setLogLevel` only changes the JVM's
loggers, and a worker cannot detect it.

``trigger(continuous=...)``: Spark passes rows to a Python sink only with ``DataWriter.writeAll``.
Continuous processing calls ``DataWriter.write`` for each row, which does nothing in a Python sink:
tasks run no Python code, and epochs are committed with messages that are None. An error raised in a
commit does not help, because Spark only logs it and continues the query. Options, schema and
environment are the same as for any other stream. The only early sign is in the driver's JVM: each
continuous query has a thread for its epochs.

On systems other than Linux, nothing of this is known.
"""

from __future__ import annotations

import gc
import inspect
import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_PROC: Final = Path("/proc")
_PARENT, _STARTED = 1, 19
"""Indices of two fields in /proc/PID/stat, counted after the name: the parent's process id and the
start time in clock ticks since boot.
"""
_INIT: Final = "1"
_DAEMON: Final = "pyspark.daemon"
_SLACK_S: Final = 0.5
"""Seconds that a daemon may be idle between its start and its first fork."""


def _field(process: Path, place: int) -> str:
    """Return the field of `stat` at this index, counted after the name in parentheses."""
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[place]


def _ancestors(proc: Path) -> Iterator[Path]:
    """Yield the folders of this process and its ancestors."""
    process = "self"
    while process != "0":
        try:
            parent = _field(proc / process, _PARENT)
        except (OSError, IndexError):
            return
        yield proc / process
        process = parent


def _command_lines(proc: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the folder and the command line of this process and of its ancestors except init."""
    for folder in _ancestors(proc):
        if folder.name == _INIT:
            return
        try:
            yield folder, (folder / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            return


def startup_ms(proc: Path = _PROC) -> int:
    """Return the milliseconds from the start of this worker until now.

    This includes the start of the daemon if Spark started it for this worker. Returns 0 if the
    worker has already handled a request, or if the time is unknown.
    """
    if not is_first_request():
        return 0
    try:
        return round((time.clock_gettime(time.CLOCK_BOOTTIME) - _worker_start_s(proc)) * 1000)
    except (AttributeError, OSError, ValueError, IndexError):
        return 0


def freeze_loaded_modules() -> None:
    """In a Python worker, exclude everything loaded so far from garbage collection.

    Importing modules triggers collections, and `pyspark.daemon` runs one after each request. They
    would traverse every object in PySpark's modules, which takes tens of milliseconds.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name == _DAEMON:
        gc.freeze()


def is_first_request() -> bool:
    """Return True in the first request of a forked worker.

    The loop over requests in `pyspark.daemon.manager` sets the variable `code` after each request.
    """
    frame = inspect.currentframe()
    while frame is not None and not _is_manager(frame):
        frame = frame.f_back
    return frame is not None and "code" not in frame.f_locals


def _is_manager(frame: FrameType) -> bool:
    if frame.f_code.co_name != "manager":
        return False
    spec = frame.f_globals.get("__spec__")
    return spec is not None and spec.name == _DAEMON


def _worker_start_s(proc: Path) -> float:
    """Return the start time of the worker, or of a daemon started for it, in seconds after boot.

    If the daemon was idle before it forked this worker, it was started for an earlier worker.
    `schedstat` contains the nanoseconds that the daemon ran, and that it waited for a CPU.
    """
    parent, ticks = proc / str(os.getppid()), os.sysconf("SC_CLK_TCK")
    worker, daemon = (int(_field(each, _STARTED)) / ticks for each in (proc / "self", parent))
    ran, waited = (parent / "schedstat").read_text().split()[:2]
    busy = (int(ran) + int(waited)) / 1e9
    return daemon if worker - daemon <= busy + _SLACK_S else worker


_LEVELS = frozenset(f"spark.log.level={level}" for level in ("ERROR", "FATAL", "OFF"))
_TERMINALS = ("/dev/pts/", "/dev/tty", "/dev/console")
_KERNELS = ("ipykernel", "kernel_launcher")


@cache
def only_errors_are_logged(proc: Path = _PROC) -> bool:
    """Return True if an ancestor process was started with spark.log.level above WARN."""
    return any(not _LEVELS.isdisjoint(words) for _, words in _command_lines(proc))


@cache
def is_watched(proc: Path = _PROC) -> bool:
    """Return True if a user sees the driver's stderr, in a terminal or below a notebook cell.

    Python workers write to a pipe, which the driver's JVM copies to its own stderr.
    """
    is_terminal = False
    for folder, words in _command_lines(proc):
        if Path(words[0]).name == "java":
            is_terminal = _stderr_of(folder).startswith(_TERMINALS)
        if any(kernel in word for word in words for kernel in _KERNELS):
            return True
    return is_terminal


def _stderr_of(process: Path) -> str:
    try:
        return str((process / "fd" / "2").readlink())
    except OSError:
        return ""


CONTINUOUS_HINT: Final = (
    "With .trigger(continuous=...) Spark drops the rows of every Python data source: use "
    ".trigger(processingTime='0 seconds') for minimum latency, or Spark's own format('kafka')"
)
# Thread names of ContinuousExecution and StreamExecution, truncated as on Linux.
_EPOCHS, _QUERY = "epoch update thread for"[:15], "stream execution thread for"[:15]


def reject_continuous(proc: Path = _PROC) -> None:
    """Raise an error if every query of the driver's JVM is continuous; called during planning.

    If there are other queries, this query cannot be identified, and on systems other than Linux
    threads cannot be listed: the first commit raises instead.

    Raises:
        ConfigError: the trigger is continuous.
    """
    names = [_name(task) for task in _query_threads(proc)]
    if names and names.count(_EPOCHS) == names.count(_QUERY):
        raise ConfigError(
            "trigger(continuous=...): Spark would count the rows as written without writing them",
            hint=CONTINUOUS_HINT,
        )


def latest_query_start(proc: Path = _PROC) -> tuple[int, int] | None:
    """Return when the latest query in the driver's JVM started; None if threads cannot be listed.

    A planning process serves all queries of a session, and Spark passes it nothing that differs
    between two starts of the same query. Only the query's thread differs.

    Returns:
        Clock ticks since the system's boot, and the thread's id.
    """
    starts = [_start(task) for task in _query_threads(proc) if _name(task) == _QUERY]
    return max((each for each in starts if each is not None), default=None)


def _query_threads(proc: Path) -> list[Path]:
    """Return the threads of streaming queries in the nearest ancestor process that has any."""
    for process in _ancestors(proc):
        try:
            tasks = list((process / "task").iterdir())
        except OSError:
            return []
        if threads := [task for task in tasks if _name(task) in {_EPOCHS, _QUERY}]:
            return threads
    return []


def _start(task: Path) -> tuple[int, int] | None:
    try:
        return int(_field(task, _STARTED)), int(task.name)
    except (OSError, ValueError, IndexError):  # The thread has ended.
        return None


def _name(task: Path) -> str:
    """Return the name of a thread; empty if the thread has ended."""
    try:
        return (task / "comm").read_text().strip()
    except OSError:
        return ""
