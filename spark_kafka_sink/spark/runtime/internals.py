"""Read Spark's internals, which can change in any release.

Each function decorated with `_probe` reads one internal value. If Spark does not provide it, or on
a system other than Linux, the function returns a default, and the write continues as described in
`Probe.without`. `PROBES` lists all probes; `PROBES[name].read` can be replaced to test a write
without the value.

Spark starts a daemon for each kind of Python worker and forks the workers from it. A worker serves
one request after another. On Spark's driver, the daemons are children of the JVM.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import time
from dataclasses import dataclass
from functools import cache, lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from spark_kafka_sink.spark.runtime.proc_files import (
    PROC,
    SELF,
    STARTED,
    command_lines,
    stat_field,
    stderr_of,
    thread_name,
    thread_start,
    threads_named,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_P = ParamSpec("_P")
_T = TypeVar("_T")

BATCH_ID = "streaming.sql.batchId"
QUERY_ID = "sql.streaming.queryId"
"""The micro-batch and the query of a task, in a stream and within foreachBatch.

Source: ``MicroBatchExecution.BATCH_ID_KEY``, ``StreamExecution.QUERY_ID_KEY``.
"""
JOB_GROUP = "spark.jobGroup.id"
"""The id of a query's run, in a stream and within foreachBatch, unless the user has set another job
group.

Source: ``StreamExecution.runStream``, ``SparkContext.SPARK_JOB_GROUP_ID``.
"""
JOB_DESCRIPTION = "spark.job.description"
"""The description of a query's jobs, in a stream and within foreachBatch, unless the user has set
another description.

Source: ``StreamExecution.getBatchDescriptionString``.
"""
_RUN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
APPLICATION = "spark.app.name"
TAGS = "spark.job.tags"
CONNECT_TAG = "SparkConnect_"
"""Local property with a job's tags, and the prefix of the tag of a Spark Connect operation."""
CONNECT_SESSION = re.compile(
    r"SparkConnect_OperationTag_User_[^,]*_Session_([0-9a-f-]{36})_Operation_"
)
"""The tag of a Spark Connect operation, with the id of its Spark session (``ExecuteJobTag``)."""
QUERY_SETTINGS = ("spark.sql.requireAllClusterKeysForDistribution", "spark.sql.cbo.enabled")
"""Spark sets both settings to false in its copy of the Spark session for each run of a query. The
first setting is internal and false by default. Source: ``StreamExecution.runStream``.
"""
QUERY_MARKER = "spark.sql.streaming.internal.stateStore.partitions"
"""Since Spark 4.1, each run of a query also sets this internal setting. Without it, a user has set
the settings of `QUERY_SETTINGS` for a batch job. Source: ``StreamExecution.runStream``.
"""
_ARTIFACT_FOLDER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DAEMON = "pyspark.daemon"
_SLACK_S = 0.5
"""Seconds that a daemon may be idle between its start and its first fork."""
_LOG_LEVEL = "spark.log.level"
_QUIET_LEVEL = re.compile(rf"{re.escape(_LOG_LEVEL)}=(ERROR|FATAL|OFF)", re.IGNORECASE)
_TERMINALS = ("/dev/pts/", "/dev/tty", "/dev/console")
_KERNELS = ("ipykernel", "kernel_launcher")
_EPOCHS, _QUERY = "epoch update thread for"[:15], "stream execution thread for"[:15]
"""Thread names of ContinuousExecution and StreamExecution, truncated as on Linux."""
PROBES: dict[str, Probe] = {}
"""The probes by the names of their functions."""


@dataclass(frozen=True, slots=True)
class Probe:
    """An internal value of Spark, and the effect on a write if it is unavailable."""

    read: Callable[..., Any]
    source: str
    """Where Spark, Python or Linux provides the value."""
    without: str
    """Effect on a write if the value is unavailable."""


def run_id(job_group: str | None) -> str | None:
    """Return the id of a query's run, or None if the user has set a different job group.

    A group that is the same after a restart does not distinguish runs.
    """
    return job_group if job_group is not None and _RUN_ID.fullmatch(job_group) else None


def query_name(description: str | None, query_id: str) -> str:
    """Return the name of a query from the description of its jobs; empty if it is unknown."""
    name, marker, _ = (description or "").partition(f"\nid = {query_id}\n")
    return name if marker else ""


def _probe(
    *, source: str, without: str, default: Any
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Register a function that reads Spark's internals; it returns `default` if it fails."""

    def register(function: Callable[_P, _T]) -> Callable[_P, _T]:
        name = function.__name__
        PROBES[name] = Probe(function, source, without)

        @wraps(function)
        def read(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                value: _T = PROBES[name].read(*args, **kwargs)
            except Exception:  # noqa: BLE001 - a different release may fail in any way
                value = default
            return value

        return read

    return register


@_probe(
    source="TaskContext.getLocalProperty: SQLExecution copies the session's settings to its tasks",
    without="The report has no query and batch, the client id no application; times are in UTC. "
    "An exactly-once stream fails, because its batches could not be recognized after a restart.",
    default=None,
)
def local_property(name: str) -> str | None:
    """Return a local property or a setting of the session in a task.

    Settings that were not set are missing. Returns None outside a task.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


@_probe(
    source="SparkFiles.getRootDirectory: Spark copies files of --files, addFile and addArtifact to "
    "a folder of the application on the driver and on each executor, and passes it to workers",
    without="There is no last_report, and abort does not know the errors of tasks. Shipped files "
    "are found only by an absolute path.",
    default=None,
)
def files_folder() -> Path | None:
    """Return the folder of shipped files, which Spark deletes when the application ends.

    `addArtifact(file=True)` of Spark Connect copies files into a subfolder of the Spark session:
    this is the folder in the driver's workers and in tasks of batches, but not in tasks of streams.
    """
    from pyspark import SparkContext, SparkFiles

    context = SparkContext._active_spark_context  # noqa: SLF001 - there is no public API
    return Path(SparkFiles.getRootDirectory()) if context is None else _driver_files(context)


@lru_cache(maxsize=1)
def _driver_files(context: SparkContext) -> Path:  # noqa: ARG001 - the folder is the context's
    """Return the folder of a driver, for which PySpark sends three requests to the JVM."""
    from pyspark import SparkFiles

    return Path(SparkFiles.getRootDirectory())


def application_folder(files: Path) -> Path:
    """Return the application's folder, given the folder of a Spark Connect session within it."""
    return files.parent if _ARTIFACT_FOLDER.fullmatch(files.name) else files


@_probe(
    source="sys.modules['__main__'].__spec__: Spark starts workers with python -m",
    without="Errors are shown with Python's traceback; garbage collections slow down workers.",
    default="",
)
def main_module() -> str:
    """Return the name of the module that this process runs; empty for a script."""
    return str(getattr(sys.modules["__main__"].__spec__, "name", ""))


@_probe(
    source="the variable `code` in pyspark.daemon.manager, which is set after each request",
    without="The report does not contain the time to start Python workers.",
    default=False,
)
def is_first_request() -> bool:
    """Return True in the first request of a forked worker."""
    frame = inspect.currentframe()
    while frame is not None and not _is_manager(frame):
        frame = frame.f_back
    return frame is not None and "code" not in frame.f_locals


def _is_manager(frame: FrameType) -> bool:
    if frame.f_code.co_name != "manager":
        return False
    spec = frame.f_globals.get("__spec__")
    return spec is not None and spec.name == DAEMON


@_probe(
    source="/proc/PID/stat and schedstat of the worker and of its daemon",
    without="The report does not contain the time to start Python workers.",
    default=0,
)
def startup_ms(proc: Path = PROC) -> int:
    """Return the milliseconds from the start of this worker until now.

    This includes the start of the daemon if Spark started it for this worker. Returns 0 if the
    worker has already handled a request.
    """
    if not is_first_request():
        return 0
    return round((time.clock_gettime(time.CLOCK_BOOTTIME) - _worker_start_s(proc)) * 1000)


def _worker_start_s(proc: Path) -> float:
    """Return the start time of the worker, or of a daemon started for it, in seconds after boot.

    If the daemon was idle before it forked this worker, it was started for an earlier worker.
    `schedstat` contains the nanoseconds that the daemon ran, and that it waited for a CPU.
    """
    parent = proc / str(os.getppid())
    ticks = os.sysconf("SC_CLK_TCK")
    worker, daemon = (int(stat_field(folder, STARTED)) / ticks for folder in (proc / SELF, parent))
    ran, waited = (parent / "schedstat").read_text(encoding="utf-8").split()[:2]
    busy = (int(ran) + int(waited)) / 1e9
    return daemon if worker - daemon <= busy + _SLACK_S else worker


@_probe(
    source="spark.log.level in the command line of the driver's JVM, or for `write` in _conf of "
    "SparkContext._active_spark_context; Spark does not pass the log level to workers, and a later "
    "setLogLevel changes only the JVM's loggers",
    without="The summary of a successful write is logged although the log level is ERROR.",
    default=False,
)
def only_errors_are_logged(proc: Path = PROC) -> bool:
    """Return True if the driver's JVM was started with spark.log.level above WARN."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001 - see `source`
    if context is not None:  # The JVM can be a child of this process, not an ancestor.
        # getConf() would send 200 requests to the JVM, to copy each setting.
        return bool(_QUIET_LEVEL.fullmatch(f"{_LOG_LEVEL}={context._conf.get(_LOG_LEVEL)}"))  # noqa: SLF001
    return _has_quiet_ancestor(proc)


@cache
def _has_quiet_ancestor(proc: Path) -> bool:
    return any(_QUIET_LEVEL.fullmatch(word) for _, words in command_lines(proc) for word in words)


@_probe(
    source="the stderr of the driver's JVM, to which Spark copies the output of workers, and for "
    "`write` that of this process",
    without="The summary is logged with time and level, as in a log file.",
    default=False,
)
@cache
def is_watched(proc: Path = PROC) -> bool:
    """Return True if a user sees the driver's stderr, in a terminal or below a notebook cell."""
    is_terminal = False
    for folder, words in command_lines(proc):
        if folder == proc / SELF or Path(words[0]).name == "java":
            is_terminal |= stderr_of(folder).startswith(_TERMINALS)
        if any(kernel in word for word in words for kernel in _KERNELS):
            return True
    return is_terminal


@_probe(
    source="names of the JVM's threads: ContinuousExecution and StreamExecution",
    without="trigger(continuous=...) fails at the first commit and not when the query starts.",
    default=False,
)
def is_continuous(proc: Path = PROC) -> bool:
    """Return True if every query of the driver's JVM is continuous.

    Each continuous query has a thread for its epochs. If there are other queries, the query of this
    worker cannot be identified.
    """
    names = [thread_name(thread) for thread in threads_named({_EPOCHS, _QUERY}, proc)]
    return bool(names) and names.count(_EPOCHS) == names.count(_QUERY)


@_probe(
    source="start times of the JVM's threads named by StreamExecution",
    without="Each micro-batch registers its schemas again; a query that is restarted in the same "
    "session does not check the brokers again.",
    default=None,
)
def latest_query_start(proc: Path = PROC) -> tuple[int, int] | None:
    """Return when the latest query in the driver's JVM started; None if there is no query.

    A planning process serves all queries of a Spark session, and Spark passes it nothing that
    differs between two starts of the same query. Only the query's thread differs.

    Returns:
        Clock ticks since the system's boot, and the thread's id.
    """
    starts = map(thread_start, threads_named({_QUERY}, proc))
    return max((start for start in starts if start is not None), default=None)


@_probe(
    source="SparkContext._jsc, which SparkSession.builder also reads",
    without="A stopped session is reported by Spark's own error.",
    default=False,
)
def is_stopped(spark: SparkSession) -> bool:
    """Return True if `stop` was called in Python or in the JVM, or if the JVM has exited."""
    from py4j.protocol import Py4JNetworkError  # may be missing in a Spark Connect client

    context = spark.sparkContext._jsc  # noqa: SLF001 - see `source`
    try:
        return context is None or context.sc().isStopped()
    except (Py4JNetworkError, OSError):
        return True
