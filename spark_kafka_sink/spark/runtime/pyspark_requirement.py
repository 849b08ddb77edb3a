"""Errors if PySpark is missing or too old.

PySpark is not a required dependency: Spark distributions and managed platforms include their own
PySpark, which pip does not detect.
"""

from __future__ import annotations

import re

from spark_kafka_sink.common.optional_dependencies import install_command

_MIN_PYSPARK_VERSION = (3, 5)
"""The oldest supported release; it has `mapInArrow`, but no Python data sources."""


def missing_pyspark_error() -> ModuleNotFoundError:
    """Return the error to raise if PySpark is missing."""
    return ModuleNotFoundError(
        "this part of spark_kafka_sink needs PySpark, which is not installed in this Python: run "
        f"{install_command('spark')}, or start it with your Spark's spark-submit or pyspark",
        name="pyspark",
    )


def reject_older(version: str) -> None:
    """Raise an error for a PySpark release older than `_MIN_PYSPARK_VERSION`.

    Raises:
        ImportError: the release is older.
    """
    match = re.match(r"(\d+)\.(\d+)", version)
    if match and (int(match[1]), int(match[2])) < _MIN_PYSPARK_VERSION:
        oldest = ".".join(map(str, _MIN_PYSPARK_VERSION))
        raise ImportError(
            f"spark_kafka_sink needs PySpark {oldest} or newer, but this is PySpark {version}",
            name="pyspark",
        )
