"""Makes `format("kafkaprod")` known where Spark does not find it by itself.

Spark looks a Python data source up in the session that is active in the calling thread
(`DataSource.lookupDataSource` asks `SparkSession.getActiveSession`). PySpark makes a session
active in the thread that created it, and in no other. Sources that are found by themselves are
those of the driver's Python (`DataSourceManager`), without what `--py-files` ships.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_kafka_sink.common.arguments import SESSION, check_argument
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.spark.datasource import KafkaProdDataSource

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

_FOUND_BY_SPARK = "DATA_SOURCE_ALREADY_EXISTS"
_lock = Lock()
_known: WeakSet[SparkSession | ConnectSession] = WeakSet()
"""Sessions that know the format; guarded by `_lock`."""


def register(spark: SparkSession | ConnectSession) -> None:
    """Make `format("kafkaprod")` known to a session, and to the thread that calls this.

    Needed where a write fails with DATA_SOURCE_NOT_FOUND: in each thread other than the one that
    made the session, and where `--py-files` shipped the package. Calling it again is harmless::

        with ThreadPoolExecutor(8, initializer=register, initargs=(spark,)) as pool:
            pool.map(write_one, topics)

    Args:
        spark: a session, classic or of Spark Connect, where threads need nothing.

    Raises:
        ConfigError: it is no session, or a stopped one; or `--py-files` has shipped the package as
            a wheel.
        PySparkException: Spark refuses the data source.
    """
    check_argument(
        "register(spark)",
        spark,
        SESSION,
        ("dataSource",),
        "Pass the session: SparkSession.builder.getOrCreate() returns it.",
    )
    refuse_wheel(__file__)
    if _is_stopped(spark):
        raise ConfigError(
            "the Spark session is stopped",
            hint="Make another with SparkSession.builder.getOrCreate(), and register that.",
        )
    if isinstance(spark, SparkSession):
        spark.createDataFrame([], "value binary")  # makes the session active in this thread
    with _lock:
        if spark in _known:
            return
        try:
            spark.dataSource.register(KafkaProdDataSource)
        except PySparkException as error:
            if error.getCondition() != _FOUND_BY_SPARK:
                raise
        _known.add(spark)


def _is_stopped(spark: SparkSession | ConnectSession) -> bool:
    """Whether `stop` was called, here or in the JVM, or the JVM has gone."""
    if not isinstance(spark, SparkSession):
        return spark.is_stopped
    from py4j.protocol import Py4JNetworkError  # a client of Spark Connect may lack it

    context = spark.sparkContext._jsc  # noqa: SLF001 SparkSession.builder asks the same
    try:
        return context is None or context.sc().isStopped()
    except (Py4JNetworkError, OSError):
        return True


def refuse_wheel(path: str) -> None:
    """Refuse a package that comes from a wheel on the Python path.

    Spark gives it to no task: of `--py-files` it puts `.zip`, `.egg` and `.jar` on their paths
    (`SparkContext.PACKAGE_EXTENSIONS`).

    Args:
        path: a file of the package.

    Raises:
        ConfigError: it is within a wheel.
    """
    wheel = next((part for part in Path(path).parts if part.endswith(".whl")), None)
    if wheel is not None:
        raise ConfigError(
            f"--py-files has shipped the package as {wheel}, which Spark gives to no executor",
            hint="Copy it to spark_kafka_sink.zip, and ship that.",
        )
