"""Differences between the supported PySpark releases, 3.5 and newer.

Spark has Python data sources since 4.0, and `arrow_udf` and `repartitionById` since 4.1. A stream's
writer gets Arrow batches since 4.1 if its class is `DataSourceStreamArrowWriter`, and in 4.0 if its
class is `DataSourceArrowWriter`, which Spark checks for batches and streams alike.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, cast

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

HAS_DATA_SOURCES: Final = find_spec("pyspark.sql.datasource") is not None


def without_data_sources(call: str) -> ConfigError:
    """Return the error for a call that needs `format("kafkaprod")`, on PySpark 3.5."""
    return ConfigError(
        f"{call}: PySpark 3.5 has no Python data sources",
        hint="Use write(df, options), in a stream with foreachBatch(micro_batch_writer(options)).",
    )


def condition(error: PySparkException) -> str | None:
    """Return the name of an error condition, such as DATA_SOURCE_NOT_FOUND."""
    read = getattr(error, "getCondition", None) or error.getErrorClass  # 3.5 has only the second
    return cast("str | None", read())
