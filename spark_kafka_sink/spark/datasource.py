"""`format("kafkaprod")`: the implementation of Spark's Data Source V2 API.

Everything here runs on the driver. To look up the format, Spark loads this module in a separate
process that needs only the name, so most modules are imported where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.spark.runtime.spark_errors import without_traceback
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES, without_data_sources

if not HAS_DATA_SOURCES:
    raise without_data_sources("KafkaProdDataSource")
from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_kafka_sink.spark.writers.data_source_writers import (
        KafkaProdStreamWriter,
        KafkaProdWriter,
    )
    from spark_kafka_sink.spark.writers.warm_up_writer import WarmUpWriter

WARM_UP = "kafkaprod.warm-up"
"""Option with which `warm_up` starts workers; the value does not matter."""


class KafkaProdDataSource(DataSource):
    """A Kafka sink with its own producer, for batch and streaming writes.

    Spark finds it automatically if the package is installed; it can also be registered explicitly
    with ``spark.dataSource.register(KafkaProdDataSource)``.
    """

    _is_planning = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a data source that Spark has pickled, which it does only to commit or abort."""
        self.__dict__.update(state)
        self._is_planning = False

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "kafkaprod"

    @without_traceback()
    def schema(self) -> StructType:
        """Return the columns of a SQL table that is created without columns.

        Raises:
            ConfigError: a table option has a wrong name.
        """
        from spark_kafka_sink.spark.table_options import table_schema

        return table_schema(self.options)

    @without_traceback()
    def reader(self, schema: StructType) -> NoReturn:
        """Raise an error, because the format cannot be read.

        Raises:
            ConfigError: always.
        """
        del schema
        raise _only_writes()

    @without_traceback()
    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        """Raise an error, because the format cannot be read.

        Raises:
            ConfigError: always.
        """
        del schema
        raise _only_writes()

    @without_traceback()
    def writer(self, schema: StructType, overwrite: bool) -> KafkaProdWriter | WarmUpWriter:
        """Return the writer of a batch write.

        Raises:
            ConfigError: an option is wrong, or the save mode is overwrite.
            ColumnError: the DataFrame violates the column roles.
            ReportError: the report cannot be written to reportPath.
            KafkaProdError: see `write_plan`; with exactly-once, the decision log cannot be read.
        """
        if WARM_UP in self.options:
            from spark_kafka_sink.spark.writers.warm_up_writer import WarmUpWriter

            return WarmUpWriter()
        if overwrite:
            raise ConfigError(
                "save mode overwrite: a Kafka topic cannot be overwritten",
                hint="Use .mode('append'), .writeTo(t).append() or INSERT INTO; to start over, "
                "delete and recreate the topic. If you called saveAsTable or createOrReplace on an "
                "existing table, Spark has already dropped the table: create it again.",
            )
        from spark_kafka_sink.spark.displayed_secrets import warn_of_displayed_secrets
        from spark_kafka_sink.spark.table_options import merge_default_options
        from spark_kafka_sink.spark.write_plan import plan_batch
        from spark_kafka_sink.spark.writers.data_source_writers import KafkaProdWriter

        warn_of_displayed_secrets(merge_default_options(schema, self.options))
        job = plan_batch(self.options, schema)
        return KafkaProdWriter(job.task, job.completion)

    @without_traceback()
    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> KafkaProdStreamWriter:
        """Return the writer of a micro-batch; called for its planning, and again for its commit.

        Raises:
            ConfigError: an option is wrong or only for batch writes, the output mode is complete,
                or the trigger is continuous.
            ColumnError: the DataFrame violates the column roles.
            ReportError: the report cannot be written to reportPath.
            KafkaProdError: see `write_plan`; with exactly-once, the decision log cannot be read,
                or a decision cannot be finished.
        """
        if overwrite:
            raise ConfigError(
                "output mode complete: a Kafka topic cannot be overwritten by every micro-batch",
                hint="Use .foreachBatch(micro_batch_writer(options)), which appends the rows of "
                "each micro-batch: all rows of the result with .outputMode('complete'), as "
                "format('kafka') does, and those that changed with .outputMode('update').",
            )
        from spark_kafka_sink.spark.write_plan import completion_of_stream, plan_stream
        from spark_kafka_sink.spark.writers.data_source_writers import KafkaProdStreamWriter

        if not self._is_planning:
            return KafkaProdStreamWriter(None, completion_of_stream(self.options, schema))
        job = plan_stream(self.options, schema)
        return KafkaProdStreamWriter(job.task, job.completion)


def _only_writes() -> ConfigError:
    return ConfigError(
        "format('kafkaprod') only writes",
        hint="To read, use format('kafka') with .option('subscribe', ...).",
    )
