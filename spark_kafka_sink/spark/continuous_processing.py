"""Detects `trigger(continuous=...)`, which Spark does not report to a data source.

Spark passes rows to a Python sink only through `DataWriter.writeAll`. Continuous processing calls
`DataWriter.write` for each row, which does nothing in a Python sink: no task ever reaches Python,
and epochs are committed with messages that are None. Options, schema and environment are those of
any other stream, and Spark logs an error at a commit and keeps the query running. The only
difference from the start is in the driver's JVM: each continuous query has a thread for its epochs.
"""

from __future__ import annotations

from pathlib import Path

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.spark.commit_messages import CONTINUOUS_HINT

# Thread names of ContinuousExecution and StreamExecution, truncated as Linux does.
_EPOCHS, _QUERY = "epoch update thread for"[:15], "stream execution thread for"[:15]
_PROC = Path("/proc")


def refuse_continuous(proc: Path = _PROC) -> None:
    """Raise if every query of the driver's JVM is a continuous one; called at planning.

    If there are other queries as well, this one cannot be identified, and on systems other than
    Linux threads cannot be listed: the first commit raises instead.

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
    """Return thread names of streaming queries, from the nearest ancestor process with any."""
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
    """Return the parent's process id; the fields of `stat` follow the name in brackets."""
    return (process / "stat").read_text().rpartition(")")[2].split()[1]


def _name(task: Path) -> str:
    """Return the name of a thread; empty if the thread has ended."""
    try:
        return (task / "comm").read_text().strip()
    except OSError:
        return ""
