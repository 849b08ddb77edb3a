"""What a Python worker derives from the settings of its Spark session and from shipped files."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pyspark
from pyspark import TaskContext

from spark_kafka_sink.config.client_config import DEFAULT_CLIENT_ID
from spark_kafka_sink.kafka.security.shipped_files import locate_files
from spark_kafka_sink.report.spark_settings import ARROW_BYTES, ARROW_COLUMNS, ARROW_RECORDS
from spark_kafka_sink.report.task_attempt import TaskAttempt
from spark_kafka_sink.spark.runtime import internals
from spark_kafka_sink.spark.runtime.spark_releases import ARROW_BATCH_BYTES

if TYPE_CHECKING:
    from spark_kafka_sink.config.sink_config import ProducerConfig

_DEFAULTS = {ARROW_BYTES: ARROW_BATCH_BYTES, ARROW_RECORDS: 10_000}
"""The default values in Spark."""
_UNLIMITED_RECORDS = 2**31 - 1
_SIZE = re.compile(r"([0-9]+)([kmgtp]?)b?", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NOT_IN_CLIENT_ID = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARS = 100
_SIZE_UNITS = ("", "k", "m", "g", "t", "p")


def current_task_attempt() -> TaskAttempt:
    """Return Spark's ids of the task attempt of this thread; zeros outside a task."""
    context = TaskContext.get()
    if context is None:
        return TaskAttempt()
    return TaskAttempt(
        partition_id=context.partitionId(),
        attempt=context.attemptNumber(),
        task_attempt_id=context.taskAttemptId(),
    )


def lacks_query() -> bool:
    """Return True in a task of foreachBatch that cannot determine its query.

    The DataFrame has the query's session, but Spark stores the id of the query per thread, and a
    Python thread does not inherit it. With Spark Connect, which runs each operation in its own
    thread, the result is False.
    """
    tags = internals.local_property(internals.TAGS) or ""
    if internals.local_property(internals.QUERY_ID) or internals.CONNECT_TAG in tags:
        return False
    return _has_query_settings()


def connect_query_session() -> str | None:
    """Return the id of the Spark Connect session whose foreachBatch function runs this task.

    Return None in any other task. Each start of a query has its own Spark session.
    """
    match = internals.CONNECT_SESSION.search(internals.local_property(internals.TAGS) or "")
    return match[1] if match and _has_query_settings() else None


def _has_query_settings() -> bool:
    if any(internals.local_property(name) != "false" for name in internals.QUERY_SETTINGS):
        return False
    marker = internals.local_property(internals.QUERY_MARKER)
    return marker is not None or pyspark.__version__.startswith(("3.5.", "4.0."))


def client_id(query_name: str = "") -> str:
    """Return the client id of a task's producer: one per application and named query.

    All runs and tasks use the same id, because quotas and metrics by client id need stable names.
    If an application has no name, Spark uses a random UUID, which is omitted.
    """
    application = internals.local_property(internals.APPLICATION) or ""
    names = ("" if _UUID.fullmatch(application) else application, query_name)
    return "-".join([DEFAULT_CLIENT_ID, *filter(None, map(_as_client_id, names))])


def _as_client_id(name: str) -> str:
    """Replace characters that metrics and quotas do not display unchanged."""
    return _NOT_IN_CLIENT_ID.sub("_", name)[:_MAX_NAME_CHARS].strip("_")


def arrow_batch_limits(columns: int) -> tuple[tuple[str, str], ...]:
    """Return what determines Spark's Arrow batches, by name; empty outside a task.

    These are its limits in bytes and rows (without a limit if the number of rows is not positive),
    and the number of columns that are written.
    """
    if TaskContext.get() is None:
        return ()
    sizes = {
        name: _parse_byte_size(internals.local_property(name), default)
        for name, default in _DEFAULTS.items()
    }
    if sizes[ARROW_RECORDS] <= 0:
        sizes[ARROW_RECORDS] = _UNLIMITED_RECORDS
    numbers = {**sizes, ARROW_COLUMNS: columns}
    return tuple((name, str(number)) for name, number in sorted(numbers.items()))


def _parse_byte_size(text: str | None, default: int) -> int:
    """Parse bytes as Spark does (``JavaUtils.byteStringAsBytes``), or a plain number."""
    if text is None:
        return default
    size = _SIZE.fullmatch(text.strip().lower())
    return -1 if size is None else int(size[1]) << 10 * _SIZE_UNITS.index(size[2])


def artifact_folder() -> str | None:
    """Return the name of the driver's folder; with Spark Connect, it is the session's folder."""
    root = internals.files_folder()
    return None if root is None else root.name


def with_shipped_files(config: ProducerConfig, session: str | None = None) -> ProducerConfig:
    """Return the config with the paths of shipped files in this process.

    Args:
        config: the sink's settings, as set by the user.
        session: in a task, the result of `artifact_folder` on the driver.
    """
    root = internals.files_folder()
    if root is None:
        return config
    folders = (root,) if session is None else (root / session, root)
    return replace(config, security=locate_files(config.security, folders))
