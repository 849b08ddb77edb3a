"""Register the data source with a Spark session.

Spark looks up a Python data source in the Spark session that is active in the calling thread
(`DataSource.lookupDataSource` uses `SparkSession.getActiveSession`). PySpark makes a Spark session
active only in the thread that created it. Spark finds sources automatically only in the driver's
Python (`DataSourceManager`), without packages shipped with `--py-files`. In all other cases
`register` is required.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_kafka_sink.spark.runtime import spark_releases
from spark_kafka_sink.spark.runtime.session_checks import check_session, reject_wheel
from spark_kafka_sink.spark.runtime.worker_setup import use_this_python

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession


_ALREADY_EXISTS = "DATA_SOURCE_ALREADY_EXISTS"
_lock = Lock()
_registered_sessions: WeakSet[SparkSession | ConnectSession] = WeakSet()
"""Sessions in which the format is registered. Guarded by `_lock`."""


def register(spark: SparkSession | ConnectSession) -> None:
    """Make `format("kafkaprod")` available in a session and in the calling thread.

    This is required in each thread that did not create the Spark session, and if the package was
    shipped with `--py-files`; otherwise, writes fail with DATA_SOURCE_NOT_FOUND. In a local session
    without PYSPARK_PYTHON, Python workers started from now on run this Python, so that
    `venv/bin/python job.py` does not need an activated environment. It can be called repeatedly::

        with ThreadPoolExecutor(8, initializer=register, initargs=(spark,)) as pool:
            pool.map(write_one, topics)

    Args:
        spark: a classic or Spark Connect session; with Spark Connect, threads need not be
            registered.

    Raises:
        ConfigError: the argument is not a running session, `--py-files` has shipped the package as
            a wheel, or PySpark is 3.5.
        PySparkException: Spark rejects the data source.
    """
    check_session("register(spark)", spark)
    if not spark_releases.HAS_DATA_SOURCES:
        raise spark_releases.without_data_sources("register(spark)")
    from spark_kafka_sink.spark.datasource import KafkaProdDataSource  # needs data sources

    reject_wheel(__file__)
    if isinstance(spark, SparkSession):
        spark.createDataFrame([], "value binary")  # This makes the session active in this thread.
        use_this_python(spark.sparkContext)
    with _lock:
        if spark in _registered_sessions:
            return
        try:
            spark.dataSource.register(KafkaProdDataSource)
        except PySparkException as error:
            if spark_releases.condition(error) != _ALREADY_EXISTS:
                raise
        _registered_sessions.add(spark)
