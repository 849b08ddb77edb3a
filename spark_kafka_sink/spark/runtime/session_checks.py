"""Checks of the Spark session that a caller passes to a public function."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from spark_kafka_sink.common.arguments import SESSION, check_argument
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.spark.runtime.internals import is_stopped

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession as ConnectSession


def check_session(call: str, spark: SparkSession | ConnectSession) -> None:
    """Check the session that was passed to a public function.

    Raises:
        ConfigError: the argument is not a Spark session, or the session is stopped.
    """
    check_argument(
        call,
        spark,
        SESSION,
        ("createDataFrame",),
        "Pass the session: SparkSession.builder.getOrCreate() returns it.",
    )
    if is_stopped(spark) if isinstance(spark, SparkSession) else spark.is_stopped:
        raise ConfigError(
            "the Spark session is stopped",
            hint="Create a new one with SparkSession.builder.getOrCreate(), and pass it.",
        )


def require_pandas(call: str) -> None:
    """Check that pandas is installed: PySpark requires it for `mapInArrow`, but does not use it.

    Raises:
        ConfigError: pandas is not installed.
    """
    if find_spec("pandas") is None:
        raise ConfigError(
            f"{call} needs pandas, because PySpark requires it for mapInArrow",
            hint="Install it on the driver and every executor: pip install 'pandas>=2.2'.",
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
