"""Start the Python workers of a Spark session before its first write."""

from __future__ import annotations

import logging
import time
from threading import Lock, Thread
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from spark_kafka_sink.spark.runtime.preloading import COMMIT, PLANNING, load
from spark_kafka_sink.spark.runtime.session_checks import check_session
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES
from spark_kafka_sink.spark.runtime.worker_setup import use_this_python
from spark_kafka_sink.spark.writers.map_task import SCHEMA, load_task_modules

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

_LOG = logging.getLogger(__name__)
_IDLE_S = 30.0
"""Seconds after which idle workers are used again; Spark stops them after a minute."""
_lock = Lock()
_warming_up: WeakKeyDictionary[SparkSession | ConnectSession, Thread] = WeakKeyDictionary()
"""The latest warm-up of each Spark session. Guarded by `_lock`."""


def warm_up(spark: SparkSession | ConnectSession) -> Thread:
    """Start the Python workers of a session in the background, so that its first write is faster.

    It returns immediately; call it after creating the Spark session, while the job prepares its
    rows::

        warm_up(spark)

    The workers serve `write` and the format. The modules that plan and commit a write are imported
    into this process.

    It can be called repeatedly: while workers are being started, it does nothing. If the session is
    stopped in the meantime or Spark cannot start a worker, only a debug message is logged. The
    Spark UI shows a job named "start Python workers of kafkaprod" with one task for each core.

    Args:
        spark: a Spark session, classic or of Spark Connect.

    Returns:
        The thread; `join` it to wait until the workers have started.

    Raises:
        ConfigError: the argument is not a Spark session, or the session is stopped.
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
    """Run one task of both kinds of write for each core; both discard their rows."""
    load((*PLANNING, *COMMIT))
    cores = 1
    if isinstance(spark, SparkSession):
        cores = spark.sparkContext.defaultParallelism
        spark.sparkContext.setJobDescription("start Python workers of kafkaprod")
        spark.createDataFrame([], "value binary")  # This makes the session active in this thread.
        use_this_python(spark.sparkContext)
    rows = spark.range(0, cores, 1, cores)
    rows.mapInArrow(load_task_modules, SCHEMA).collect()
    if not HAS_DATA_SOURCES:
        return
    idle_since = time.monotonic()
    from spark_kafka_sink.spark.datasource import WARM_UP, KafkaProdDataSource

    rows.write.format(KafkaProdDataSource.name()).option(WARM_UP, "").mode("append").save()
    if time.monotonic() - idle_since > _IDLE_S:
        rows.mapInArrow(load_task_modules, SCHEMA).collect()
