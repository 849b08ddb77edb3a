"""`format("kafkaprod")`: where Spark's Data Source V2 API meets this package.

Everything here runs on the driver. Spark's look-up of formats loads this module in a process of its
own, which needs the name alone: most is imported where it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_kafka_sink.spark.exactly_once.writers import (
        ExactlyOnceStreamWriter,
        ExactlyOnceWriter,
    )
    from spark_kafka_sink.spark.writer import KafkaProdStreamWriter, KafkaProdWriter


class KafkaProdDataSource(DataSource):
    """A Kafka sink that owns its producer, for batch and streaming writes.

    Spark finds it by itself once the package is installed; it can also be registered by hand with
    ``spark.dataSource.register(KafkaProdDataSource)``.
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return "kafkaprod"

    def schema(self) -> StructType:
        """The columns of a SQL table that is created without any.

        Raises:
            ConfigError: a name among the table's options is wrong.
        """
        from spark_kafka_sink.spark.table import table_schema

        return table_schema(self.options)

    def reader(self, schema: StructType) -> NoReturn:
        """There is none.

        Raises:
            ConfigError: always.
        """
        del schema
        raise _only_writes()

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        """There is none.

        Raises:
            ConfigError: always.
        """
        del schema
        raise _only_writes()

    def writer(self, schema: StructType, overwrite: bool) -> KafkaProdWriter | ExactlyOnceWriter:
        """The writer of a batch.

        Raises:
            ConfigError: an option is wrong, or the save mode is overwrite.
            ColumnError: the DataFrame breaks the column contract.
            ReportError: the report can't be written where reportPath says.
            KafkaProdError: see check_brokers; with exactly-once, the decision log can't be read.
        """
        if overwrite:
            raise ConfigError(
                "save mode overwrite: a Kafka topic can't be overwritten",
                hint="use .mode('append'), .writeTo(t).append() or INSERT INTO; to start over, "
                "delete and create the topic. Spark has already dropped the table if this was "
                "saveAsTable or createOrReplace on an existing one: create it again",
            )
        from spark_kafka_sink.spark.plan import batch_writer

        return batch_writer(self.options, schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> KafkaProdStreamWriter | ExactlyOnceStreamWriter:
        """The writer of a stream, made anew for each micro-batch and again for its commit.

        Raises:
            ConfigError: an option is wrong or for batch writes alone, the output mode is complete,
                or the trigger continuous.
            ColumnError: the DataFrame breaks the column contract.
            ReportError: the report can't be written where reportPath says.
            KafkaProdError: see check_brokers; with exactly-once, the decision log can't be read,
                or a decision not be finished.
        """
        if overwrite:
            raise ConfigError(
                "output mode complete: a Kafka topic can't be overwritten by every micro-batch",
                hint="use .outputMode('append')",
            )
        from spark_kafka_sink.spark.plan import stream_writer

        return stream_writer(self.options, schema)


def _only_writes() -> ConfigError:
    return ConfigError(
        "format('kafkaprod') only writes",
        hint="To read, use format('kafka') with .option('subscribe', ...).",
    )
