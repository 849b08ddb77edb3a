"""Reject `trigger(continuous=...)`, with which Spark drops the rows of Python sinks.

Spark passes rows to a Python sink only with ``DataWriter.writeAll``. Continuous processing calls
``DataWriter.write`` for each row, which does nothing in a Python sink: tasks run no Python code,
and epochs are committed with messages that are None. An error raised in a commit does not help,
because Spark only logs it and continues the query. Options, schema and environment are the same as
for any other stream; only the threads of the driver's JVM differ.
"""

from __future__ import annotations

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.spark.runtime import internals

CONTINUOUS_HINT = (
    "With .trigger(continuous=...) Spark drops the rows of every Python data source: use "
    ".trigger(processingTime='0 seconds') for minimum latency, or Spark's own format('kafka')."
)


def reject_continuous() -> None:
    """Raise an error if this query is known to be continuous; called during planning.

    Otherwise the first commit raises the error.

    Raises:
        ConfigError: the trigger is continuous.
    """
    if internals.is_continuous():
        raise ConfigError(
            "trigger(continuous=...): Spark would count the rows as written without writing them",
            hint=CONTINUOUS_HINT,
        )
