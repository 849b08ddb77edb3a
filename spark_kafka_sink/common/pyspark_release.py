"""Which PySpark the sink works with: the package does not require one of pip.

Where Spark is a distribution or a managed platform, PySpark comes from there and pip doesn't know.
"""

from __future__ import annotations

import re
from typing import Final

OLDEST: Final = (4, 1)
"""The first release whose Python data sources write Arrow batches."""


def missing() -> ModuleNotFoundError:
    """What is raised where there is none."""
    from spark_kafka_sink.common.extras import install_command  # seldom needed

    return ModuleNotFoundError(
        "this part of spark_kafka_sink needs PySpark, which this Python does not find: "
        f"{install_command('spark')}, or start it by the spark-submit or the pyspark of the Spark "
        "that you have",
        name="pyspark",
    )


def refuse_older(version: str) -> None:
    """Refuse a release before `OLDEST`.

    Raises:
        ImportError: it is older.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise ImportError(
            f"spark_kafka_sink needs PySpark {wanted} or newer, and this is {version}: its data "
            "sources in Python do not write Arrow batches yet",
            name="pyspark",
        )
