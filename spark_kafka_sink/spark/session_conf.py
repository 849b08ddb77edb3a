"""The Spark session's SQL settings as a task sees them: those that were set, and defaults.

Spark hands the settings of the session to its tasks as local properties (``SQLExecution``).
"""

from __future__ import annotations

import re

from pyspark import TaskContext

from spark_kafka_sink.report.pipeline import ARROW_BYTES, ARROW_RECORDS

_DEFAULTS = {ARROW_BYTES: 64 * 1024 * 1024, ARROW_RECORDS: 10_000}
"""Spark's own, in 4.1 and 4.3."""
_UNLIMITED = 2**31 - 1
BATCH_ID = "streaming.sql.batchId"
QUERY_ID = "sql.streaming.queryId"
"""The micro-batch and the query of a task, in a stream and within foreachBatch.

Source: ``MicroBatchExecution.BATCH_ID_KEY``, ``StreamExecution.QUERY_ID_KEY``."""
JOB_GROUP = "spark.jobGroup.id"
"""The id of a query's run, in a stream and within foreachBatch, unless the user has set another.

Source: ``StreamExecution.runStream``, ``SparkContext.SPARK_JOB_GROUP_ID``."""
_SIZE = re.compile(r"([0-9]+)([kmgtp]?)b?", re.ASCII)
_UNITS = ("", "k", "m", "g", "t", "p")


def setting(name: str) -> str | None:
    """A setting of the session, None where it is not set, or outside of a task."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def arrow_batch_limits() -> tuple[tuple[str, str], ...]:
    """How Spark cuts its Arrow batches: bytes and rows at most, by name; empty outside of a task.

    A number of rows that is not positive is no limit.
    """
    if TaskContext.get() is None:
        return ()
    sizes = {name: _number(setting(name), default) for name, default in _DEFAULTS.items()}
    if sizes[ARROW_RECORDS] <= 0:
        sizes[ARROW_RECORDS] = _UNLIMITED
    return tuple((name, str(size)) for name, size in sorted(sizes.items()))


def _number(text: str | None, default: int) -> int:
    """Bytes as Spark reads them (``JavaUtils.byteStringAsBytes``), or a plain number."""
    if text is None:
        return default
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        return -1
    return int(found[1]) << 10 * _UNITS.index(found[2])
