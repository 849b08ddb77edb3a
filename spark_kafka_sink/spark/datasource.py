"""`format("kafkaprod")`: the implementation of Spark's Data Source V2 API.

Everything here runs on the driver. To look up the format, Spark loads this module in a separate
process that needs only the name, so most modules are imported where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource

from spark_kafka_sink.common.error_text import without_traceback
from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_kafka_sink.spark.warm_up import WarmUpWriter
    from spark_kafka_sink.spark.writer import KafkaProdStreamWriter, KafkaProdWriter

WARM_UP = "kafkaprod.warm-up"
"""Option with which `registration.warm_up` starts workers; the value does not matter."""


class KafkaProdDataSource(DataSource):
    """A Kafka sink with its own producer, for batch and streaming writes.

    Spark finds it automatically if the package is installed; it can also be registered explicitly
    with ``spark.dataSource.register(KafkaProdDataSource)``.
    """

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
        from spark_kafka_sink.spark.plan import table_schema

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
            ColumnError: the DataFrame violates the column contract.
            ReportError: the report cannot be written to reportPath.
            KafkaProdError: see check_brokers; with exactly-once, the decision log cannot be read.
        """
        if WARM_UP in self.options:
            from spark_kafka_sink.spark.warm_up import WarmUpWriter

            return WarmUpWriter()
        if overwrite:
            raise ConfigError(
                "save mode overwrite: a Kafka topic cannot be overwritten",
                hint="use .mode('append'), .writeTo(t).append() or INSERT INTO; to start over, "
                "delete and recreate the topic. If you called saveAsTable or createOrReplace on an "
                "existing table, Spark has already dropped the table: create it again",
            )
        from spark_kafka_sink.spark.plan import batch_writer

        return batch_writer(self.options, schema)

    @without_traceback()
    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> KafkaProdStreamWriter:
        """Return the writer of a micro-batch; called for its planning, and again for its commit.

        Raises:
            ConfigError: an option is wrong or only for batch writes, the output mode is complete,
                or the trigger is continuous.
            ColumnError: the DataFrame violates the column contract.
            ReportError: the report cannot be written to reportPath.
            KafkaProdError: see check_brokers; with exactly-once, the decision log cannot be read,
                or a decision cannot be finished.
        """
        if overwrite:
            raise ConfigError(
                "output mode complete: a Kafka topic cannot be overwritten by every micro-batch",
                hint="use .outputMode('append')",
            )
        from spark_kafka_sink.spark.plan import stream_writer

        return stream_writer(self.options, schema)


def _only_writes() -> ConfigError:
    return ConfigError(
        "format('kafkaprod') only writes",
        hint="To read, use format('kafka') with .option('subscribe', ...).",
    )
