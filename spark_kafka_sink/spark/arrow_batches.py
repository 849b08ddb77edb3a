"""Limit of the Arrow batches that Spark sends to the tasks of `write`.

Since 4.0, Spark measures a batch after every row, one column at a time, to keep it below
`maxBytesPerBatch`. If no row can exceed a fixed size, the limit in rows suffices. Executors read
both limits from the job's local properties, which a Spark session's own settings replace
(`SQLExecution.withSQLConfPropagated`).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession, types

from spark_kafka_sink.report.spark_settings import (
    ARROW_BYTES,
    ARROW_RECORDS,
    SAFE_ARROW_BYTES,
    UNMEASURED,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


_VALIDITY = 1
"""Bytes of a row for the bit that says whether a value is null, rounded up."""
_WIDTHS: dict[type[types.DataType], int] = {
    types.NullType: 0,
    types.BooleanType: 1,
    types.ByteType: 1,
    types.ShortType: 2,
    types.IntegerType: 4,
    types.LongType: 8,
    types.FloatType: 4,
    types.DoubleType: 8,
    types.DecimalType: 16,
    types.DateType: 4,
    types.TimestampType: 8,
    types.TimestampNTZType: 8,
    types.DayTimeIntervalType: 8,
    types.YearMonthIntervalType: 4,
}


@contextmanager
def without_measuring(df: DataFrame) -> Iterator[None]:
    """Within this context, jobs of this thread do not measure the batches of such a DataFrame.

    Has no effect if a row's size is not limited, on a Spark session's setting, and with Spark
    Connect.
    """
    spark = df.sparkSession
    if not isinstance(spark, SparkSession) or not _is_bounded(spark, df.schema):
        yield
        return
    context = spark.sparkContext
    earlier = context.getLocalProperty(ARROW_BYTES)
    context.setLocalProperty(ARROW_BYTES, str(UNMEASURED))
    try:
        yield
    finally:
        context.setLocalProperty(ARROW_BYTES, earlier)  # type: ignore[arg-type]  # None removes it.


def _is_bounded(spark: SparkSession, schema: types.StructType) -> bool:
    """Return True if the limit in rows keeps every batch below Spark's own limit in bytes."""
    width = row_width(schema)
    if width is None:
        return False
    rows = int(spark.conf.get(ARROW_RECORDS, "10000") or 0)
    return rows > 0 and rows * width <= SAFE_ARROW_BYTES


def row_width(data_type: types.DataType) -> int | None:
    """Return the bytes of a value in Arrow's columns; None if they are not limited."""
    if not isinstance(data_type, types.StructType):
        width = _WIDTHS.get(type(data_type))
        return None if width is None else width + _VALIDITY
    widths = [row_width(field.dataType) for field in data_type.fields]
    known = [width for width in widths if width is not None]
    return sum(known, _VALIDITY) if len(known) == len(widths) else None
