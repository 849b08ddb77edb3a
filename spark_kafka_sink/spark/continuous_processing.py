"""Detects `trigger(continuous=...)`, of which Spark tells a data source nothing.

Spark hands a Python sink its rows through `DataWriter.writeAll` alone. Continuous processing calls
`DataWriter.write` row by row, which does nothing there: no task ever reaches Python, and epochs
are committed with messages that are None. Options, schema and environment are those of any other
stream, and an error at a commit is logged by Spark and leaves the query running. What differs
from the start is the driver's JVM: each continuous query has a thread of its own for epochs.
"""

from __future__ import annotations

from pathlib import Path

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.spark.commit_messages import CONTINUOUS_HINT

# ContinuousExecution's and StreamExecution's thread names, as far as Linux keeps them.
_EPOCHS, _QUERY = "epoch update thread for"[:15], "stream execution thread for"[:15]
_PROC = Path("/proc")


def refuse_continuous(proc: Path = _PROC) -> None:
    """Called where a stream's write is planned, in a Python worker under the driver's JVM.

    It refuses where every query of that JVM is a continuous one, so ours too. Beside others it
    can't tell ours, and away from Linux it sees nothing: then the first commit refuses.

    Raises:
        ConfigError: the trigger is continuous.
    """
    names = _query_threads(proc)
    if names and names.count(_EPOCHS) == names.count(_QUERY):
        raise ConfigError(
            "trigger(continuous=...): Spark would count the rows as written and write none",
            hint=CONTINUOUS_HINT,
        )


def _query_threads(proc: Path) -> list[str]:
    """Names of the threads of streaming queries, in the nearest ancestor that has any."""
    process = "self"
    while process != "0":
        try:
            tasks = list((proc / process / "task").iterdir())
            parent = _parent(proc / process)
        except (OSError, ValueError):
            return []
        names = [name for name in map(_name, tasks) if name in {_EPOCHS, _QUERY}]
        if names:
            return names
        process = parent
    return []


def _parent(process: Path) -> str:
    """The process's parent; the fields of `stat` start behind its name in brackets."""
    return (process / "stat").read_text().rpartition(")")[2].split()[1]


def _name(task: Path) -> str:
    """A thread's name; empty when the thread has ended."""
    try:
        return (task / "comm").read_text().strip()
    except OSError:
        return ""
