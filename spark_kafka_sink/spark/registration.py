"""Register the data source with a session, start its workers, write micro-batches.

Spark looks up a Python data source in the session that is active in the calling thread
(`DataSource.lookupDataSource` uses `SparkSession.getActiveSession`). PySpark makes a session active
only in the thread that created it. Spark finds sources automatically only in the driver's Python
(`DataSourceManager`), without packages shipped with `--py-files`. In all other cases `register` is
required.

`DataStreamWriter.start` rejects the output mode `update` for every Python data source. A stream in
update mode can write from `foreachBatch` instead, with `micro_batch_writer`.
"""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_kafka_sink.common.arguments import SESSION, check_argument, check_options
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.exactly_once import DeliveryGuarantee
from spark_kafka_sink.spark import report_folder as folders
from spark_kafka_sink.spark.datasource import WARM_UP, KafkaProdDataSource
from spark_kafka_sink.spark.internals import QUERY_ID, is_stopped, use_this_python

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.connect.session import SparkSession as ConnectSession


_BATCH_ID, _GUARANTEE, _REPORT = "batchid", "deliveryguarantee", "reportpath"


def micro_batch_writer(options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes each micro-batch with these options.

    With output mode update, each micro-batch contains the rows that have changed::

        counts.writeStream.outputMode("update").foreachBatch(micro_batch_writer(kafka)).start()

    `reportPath` has the same meaning as for a stream: if two queries of an application use the same
    path, the second query gets a subfolder, except with Spark Connect. With
    `deliveryGuarantee=exactly-once`, the number of the micro-batch is the `batchId`.

    Args:
        options: the options of `format("kafkaprod")`, with names in any case.

    Raises:
        ConfigError: `batchId` is set, or the options are not a dict of names and values.
    """
    check_options("micro_batch_writer(options)", options)
    given = {name.lower(): _text(value) for name, value in options.items()}
    if _BATCH_ID in given:
        raise ConfigError(
            "option batchId is not allowed: Spark provides the id of each micro-batch",
            hint="Remove it.",
        )

    def write(frame: DataFrame, batch_id: int) -> None:
        of_batch = batch_options(_with_own_reports(given, frame), batch_id)
        frame.write.format("kafkaprod").options(**of_batch).mode("append").save()

    return write


def _with_own_reports(given: dict[str, str], frame: DataFrame) -> dict[str, str]:
    """Return the options with a report path that no other query of the application uses."""
    path, folder, query = given.get(_REPORT), folders.ReportFolder.here(), _query_of(frame)
    if path is None or folder is None or not query:
        return given
    own = folders.own_report_path(path, folders.StreamIdentity("", query), folder.application)
    if own != path:
        folders.warn_of_own_path(path, own, folder.application)
    return {**given, _REPORT: own}


def _query_of(frame: DataFrame) -> str:
    """Return the query id of this micro-batch; empty with Spark Connect, which hides it."""
    session = getattr(frame, "sparkSession", None)
    if not isinstance(session, SparkSession):
        return ""
    return session.sparkContext.getLocalProperty(QUERY_ID) or ""


def _text(value: object) -> str:
    """Convert a value as Spark's `option` does."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def batch_options(given: Mapping[str, str], batch_id: int) -> dict[str, str]:
    """Return the options of one micro-batch, with lower-case names."""
    options = dict(given)
    if _REPORT in options:
        options[_REPORT] = folders.micro_batch_path(options[_REPORT], batch_id)
    if options.get(_GUARANTEE, "").strip() == DeliveryGuarantee.EXACTLY_ONCE:
        options[_BATCH_ID] = str(batch_id)
    return options


_LOG = logging.getLogger(__name__)
_ALREADY_EXISTS = "DATA_SOURCE_ALREADY_EXISTS"
_lock = Lock()
_known: WeakSet[SparkSession | ConnectSession] = WeakSet()
"""Sessions in which the format is registered. Guarded by `_lock`."""
_warming_up: WeakKeyDictionary[SparkSession | ConnectSession, Thread] = WeakKeyDictionary()
"""The latest warm-up of each session. Guarded by `_lock`."""


def register(spark: SparkSession | ConnectSession) -> None:
    """Make `format("kafkaprod")` available in a session and in the calling thread.

    This is required in each thread that did not create the session, and if the package was shipped
    with `--py-files`; otherwise, writes fail with DATA_SOURCE_NOT_FOUND. In a local session without
    PYSPARK_PYTHON, Python workers started from now on run this Python, so that `venv/bin/python
    job.py` does not need an activated environment. It can be called repeatedly::

        with ThreadPoolExecutor(8, initializer=register, initargs=(spark,)) as pool:
            pool.map(write_one, topics)

    Args:
        spark: a classic or Spark Connect session; with Spark Connect, threads need not be
            registered.

    Raises:
        ConfigError: the argument is not a running session, or `--py-files` has shipped the package
            as a wheel.
        PySparkException: Spark rejects the data source.
    """
    check_session("register(spark)", spark)
    reject_wheel(__file__)
    if isinstance(spark, SparkSession):
        spark.createDataFrame([], "value binary")  # This makes the session active in this thread.
        use_this_python(spark.sparkContext)
    with _lock:
        if spark in _known:
            return
        try:
            spark.dataSource.register(KafkaProdDataSource)
        except PySparkException as error:
            if error.getCondition() != _ALREADY_EXISTS:
                raise
        _known.add(spark)


def warm_up(spark: SparkSession | ConnectSession) -> Thread:
    """Start the Python workers of a session in the background, so that its first write is faster.

    It returns immediately; call it after creating the session, while the job prepares its rows::

        warm_up(spark)

    It can be called repeatedly: while workers are being started, it does nothing. If the session is
    stopped in the meantime or Spark cannot start a worker, only a debug message is logged. The
    Spark UI shows a job named "start Python workers of kafkaprod" with one task for each core.

    Args:
        spark: a session, classic or of Spark Connect.

    Returns:
        The thread; `join` it to wait until the workers have started.

    Raises:
        ConfigError: the argument is not a session, or the session is stopped.
    """
    check_session("warm_up(spark)", spark)
    with _lock:
        thread = _warming_up.get(spark)
        if thread is None or not thread.is_alive():
            thread = Thread(target=_warm_up, args=(spark,), name="kafkaprod-warm-up", daemon=True)
            _warming_up[spark] = thread
            thread.start()
        return thread


def _warm_up(spark: SparkSession | ConnectSession) -> None:
    try:
        _write_without_kafka(spark)
    except Exception as error:  # noqa: BLE001 - the first write starts the workers itself
        _LOG.debug("Python workers were not started in advance: %s", error)


def _write_without_kafka(spark: SparkSession | ConnectSession) -> None:
    """Write one row for each core, which `WarmUpWriter` discards."""
    cores = 1
    if isinstance(spark, SparkSession):
        cores = spark.sparkContext.defaultParallelism
        spark.sparkContext.setJobDescription("start Python workers of kafkaprod")
        spark.createDataFrame([], "value binary")  # This makes the session active in this thread.
    rows = spark.range(0, cores, 1, cores)
    rows.write.format(KafkaProdDataSource.name()).option(WARM_UP, "").mode("append").save()


def check_session(call: str, spark: SparkSession | ConnectSession) -> None:
    """Check the session that was passed to a public function.

    Raises:
        ConfigError: the argument is not a session, or the session is stopped.
    """
    check_argument(
        call,
        spark,
        SESSION,
        ("dataSource",),
        "Pass the session: SparkSession.builder.getOrCreate() returns it.",
    )
    if is_stopped(spark) if isinstance(spark, SparkSession) else spark.is_stopped:
        raise ConfigError(
            "the Spark session is stopped",
            hint="Create a new one with SparkSession.builder.getOrCreate(), and pass it.",
        )


def reject_wheel(path: str) -> None:
    """Raise an error if the package comes from a wheel on the Python path.

    Spark does not make wheels available to tasks: of the files shipped with `--py-files`, it adds
    only `.zip`, `.egg` and `.jar` to their Python path (`SparkContext.PACKAGE_EXTENSIONS`).

    Args:
        path: the path of a file of the package.

    Raises:
        ConfigError: the path is within a wheel.
    """
    wheel = next((part for part in Path(path).parts if part.endswith(".whl")), None)
    if wheel is not None:
        raise ConfigError(
            f"--py-files shipped the package as {wheel}, which Spark does not add to the Python "
            "path of executors",
            hint="Copy it to spark_kafka_sink.zip, and ship that file.",
        )
