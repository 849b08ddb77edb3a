"""Start Spark's Python workers before a session's first write.

Spark starts four kinds of Python workers for a first write, one after another: to look up the
format, to plan, to write and to commit. `warm_up` starts them with a write of a few rows that are
discarded, in a data source of its own, while the calling thread continues. Each worker imports the
modules that a write needs, and connects to nothing.

Spark keeps idle workers for a minute. The daemons that it forks workers from, which have imported
PySpark, stay.
"""

from __future__ import annotations

import logging
from importlib import import_module
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from spark_kafka_sink.spark.registration import check_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.connect.session import SparkSession as ConnectSession
    from pyspark.sql.types import StructType

_PACKAGE: Final = "spark_kafka_sink."
PLANNING: Final = ("spark.plan", "config.builder", "diagnostics.preflight")
TASK: Final = ("spark.writer", "spark.columns", "spark.commit_messages", "producer.session")
COMMIT: Final = ("spark.writer", "spark.commit_messages", "spark.publication", "config.model")
"""Modules of this package that import everything that a worker needs to plan, write or commit."""
_LOG = logging.getLogger(__name__)
_lock = Lock()
_threads: WeakKeyDictionary[SparkSession | ConnectSession, Thread] = WeakKeyDictionary()
"""The latest warm-up of each session; guarded by `_lock`."""


def warm_up(spark: SparkSession | ConnectSession) -> Thread:
    """Start the Python workers of a session in the background, so that its first write is faster.

    It returns immediately; call it after creating the session, while the job prepares its rows::

        warm_up(spark)

    It can be called repeatedly: while workers are being started, it does nothing. If the session is
    stopped meanwhile or Spark cannot start a worker, only a debug message is logged. The Spark UI
    shows a job named "start Python workers of kafkaprod" with one task for each core.

    Args:
        spark: a session, classic or of Spark Connect.

    Returns:
        The thread; `join` it to wait until the workers have started.

    Raises:
        ConfigError: the argument is not a session, or a stopped one.
    """
    check_session("warm_up(spark)", spark)
    with _lock:
        thread = _threads.get(spark)
        if thread is None or not thread.is_alive():
            thread = Thread(target=_start, args=(spark,), name="kafkaprod-warm-up", daemon=True)
            _threads[spark] = thread
            thread.start()
        return thread


def _start(spark: SparkSession | ConnectSession) -> None:
    try:
        _write(spark)
    except Exception as error:  # noqa: BLE001 - the first write starts the workers itself
        _LOG.debug("Python workers were not started in advance: %s", error)


def _write(spark: SparkSession | ConnectSession) -> None:
    """Write one row for each core to a data source that discards it."""
    cores = 1
    if isinstance(spark, SparkSession):
        cores = spark.sparkContext.defaultParallelism
        spark.sparkContext.setJobDescription("start Python workers of kafkaprod")
        spark.createDataFrame([], "value binary")  # makes the session active in this thread
    spark.dataSource.register(WarmUpDataSource)
    rows = spark.range(0, cores, 1, cores)
    rows.write.format(WarmUpDataSource.name()).mode("append").save()


class WarmUpDataSource(DataSource):
    """A data source that imports what `format("kafkaprod")` needs, and discards all rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "kafkaprod-warm-up"

    def writer(self, schema: StructType, overwrite: bool) -> WarmUpWriter:  # noqa: ARG002
        """Import the modules of planning."""
        _load(PLANNING)
        return WarmUpWriter()


class WarmUpWriter(DataSourceArrowWriter):
    """The writer of `WarmUpDataSource`."""

    def write(  # type: ignore[override]  # declared for rows, called with Arrow batches
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """Discard the rows, and import the modules of a task."""
        for _ in iterator:
            pass
        _load(TASK)
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Import the modules of a commit."""
        del messages
        _load(COMMIT)


def _load(modules: Iterable[str]) -> None:
    for module in modules:
        import_module(_PACKAGE + module)
