"""Append a frame with the format, or with `write` on PySpark 3.5, which has no data sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink import write
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame


def append(frame: DataFrame, options: Mapping[str, str]) -> None:
    """Append the frame with these options."""
    if HAS_DATA_SOURCES:
        frame.write.format("kafkaprod").options(**options).mode("append").save()
    else:
        write(frame, options)
