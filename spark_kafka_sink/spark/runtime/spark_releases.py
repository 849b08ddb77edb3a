"""Differences between the supported PySpark releases, 3.5 and newer.

Spark has Python data sources since 4.0, and `arrow_udf` and `repartitionById` since 4.1. A stream's
writer gets Arrow batches since 4.1 if its class is `DataSourceStreamArrowWriter`, and in 4.0 if its
class is `DataSourceArrowWriter`, which Spark checks for batches and streams alike. The size of
Arrow batches has a limit since 4.0. `DataFrame.toArrow` came with 4.0.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

import pyspark

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

HAS_DATA_SOURCES = find_spec("pyspark.sql.datasource") is not None
_MIB = 1024 * 1024
_ARROW_BATCH_BYTES = {"3.5": 2**31 - 1, "4.0": 256 * _MIB}
ARROW_BATCH_BYTES = _ARROW_BATCH_BYTES.get(pyspark.__version__[:3], 64 * _MIB)
"""Default of Spark's `maxBytesPerBatch`; 3.5 does not measure its batches.

The report's constants are not imported: the worker that looks up the format loads this module.
"""


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
