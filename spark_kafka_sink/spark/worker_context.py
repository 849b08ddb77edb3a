"""Information that a Python worker has on its session: settings, files, task.

Spark passes the SQL settings of the session to its tasks as local properties (``SQLExecution``);
settings that were not set are missing and have their defaults.

Spark copies files of `--files` and `addFile` into one folder of the driver and of each executor,
and passes the folder to Python workers. `addArtifact(file=True)` of Spark Connect copies them into
a subfolder of the session: Spark passes that subfolder to the driver's workers and to tasks of
batches, but not to tasks of streams.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from pyspark import SparkFiles, TaskContext

from spark_kafka_sink.config.model import DEFAULT_CLIENT_ID, ProducerConfig
from spark_kafka_sink.kafka.security.credentials import located
from spark_kafka_sink.report.advice import ARROW_BYTES, ARROW_RECORDS

_DEFAULTS = {ARROW_BYTES: 64 * 1024 * 1024, ARROW_RECORDS: 10_000}
"""The default values in Spark 4.1 and 4.3."""
_UNLIMITED = 2**31 - 1
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
_OF_STREAM = ("spark.sql.requireAllClusterKeysForDistribution", "spark.sql.cbo.enabled")
"""Spark sets both settings to false in its copy of the session for each run of a query. The first
setting is internal and false by default, so nothing else sets it to false. Source:
``StreamExecution.runStream``.
"""
_TAGS, _OF_CONNECT = "spark.job.tags", "SparkConnect_"
"""Local property with a job's tags, and the prefix of the tag of a Spark Connect operation."""
_CONNECT_SESSION = re.compile(
    r"SparkConnect_OperationTag_User_[^,]*_Session_([0-9a-f-]{36})_Operation_"
)
"""The tag of a Spark Connect operation, with the id of its session (``ExecuteJobTag``)."""
_SIZE = re.compile(r"([0-9]+)([kmgtp]?)b?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 100
_UNITS = ("", "k", "m", "g", "t", "p")


def setting(name: str) -> str | None:
    """Return a setting of the session, or None if it is not set or this is not a task."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def lacks_query() -> bool:
    """Return True in a task of foreachBatch that cannot determine its query.

    The DataFrame has the query's session, but Spark stores the id of the query per thread, and a
    Python thread does not inherit it. With Spark Connect, which runs each operation in its own
    thread, the result is False.
    """
    if setting(QUERY_ID) or _OF_CONNECT in (setting(_TAGS) or ""):
        return False
    return _has_query_settings()


def connect_query_session() -> str | None:
    """Return the id of the Spark Connect session whose foreachBatch function runs this task.

    Return None in any other task. Each start of a query has its own session.
    """
    found = _CONNECT_SESSION.search(setting(_TAGS) or "")
    return found[1] if found and _has_query_settings() else None


def _has_query_settings() -> bool:
    return all(setting(name) == "false" for name in _OF_STREAM)


def client_id(query_name: str = "") -> str:
    """Return the client id of a task's producer: one per application and named query.

    All runs and tasks use the same id, because quotas and metrics by client id need stable names.
    If an application has no name, Spark uses a random UUID, which is omitted.
    """
    application = setting("spark.app.name") or ""
    names = ("" if _UUID.fullmatch(application) else application, query_name)
    return "-".join([DEFAULT_CLIENT_ID, *filter(None, map(_as_client_id, names))])


def _as_client_id(name: str) -> str:
    """Replace characters that metrics and quotas do not display unchanged."""
    return _OTHER.sub("_", name)[:_LONGEST_NAME].strip("_")


def arrow_batch_limits() -> tuple[tuple[str, str], ...]:
    """Return Spark's limits for its Arrow batches (bytes and rows) by name; empty outside a task.

    If the number of rows is not positive, there is no limit.
    """
    if TaskContext.get() is None:
        return ()
    sizes = {name: _number(setting(name), default) for name, default in _DEFAULTS.items()}
    if sizes[ARROW_RECORDS] <= 0:
        sizes[ARROW_RECORDS] = _UNLIMITED
    return tuple((name, str(size)) for name, size in sorted(sizes.items()))


def _number(text: str | None, default: int) -> int:
    """Parse bytes as Spark does (``JavaUtils.byteStringAsBytes``), or a plain number."""
    if text is None:
        return default
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        return -1
    return int(found[1]) << 10 * _UNITS.index(found[2])


def session_folder() -> str | None:
    """Return the name of the driver's folder; with Spark Connect, it is the session's folder."""
    root = _root()
    return None if root is None else root.name


def with_shipped_files(config: ProducerConfig, session: str | None = None) -> ProducerConfig:
    """Return the config with the paths of shipped files in this process.

    Args:
        config: the sink's settings, as set by the user.
        session: in a task, the result of `session_folder` on the driver.
    """
    root = _root()
    if root is None:
        return config
    folders = (root,) if session is None else (root / session, root)
    return replace(config, security=located(config.security, folders))


def _root() -> Path | None:
    """Return Spark's folder for files, or None without a Python worker or a session."""
    try:
        return Path(SparkFiles.getRootDirectory())
    except (AssertionError, AttributeError):
        return None
