"""`format("kafkaprod")`: where Spark's Data Source V2 API meets this package.

Everything here runs on the driver. A wrong option or column fails here, before any task runs.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.model import SinkConfig
from spark_kafka_sink.spark.continuous_processing import refuse_continuous
from spark_kafka_sink.spark.contract import Contract
from spark_kafka_sink.spark.publication import Publication, check_report_folder
from spark_kafka_sink.spark.reports.report_folder import ReportFolder
from spark_kafka_sink.spark.reports.stream_reports import (
    StreamIdentity,
    own_report_path,
    warn_of_own_path,
)
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
from spark_kafka_sink.spark.shipped_files import check_brokers, check_security
from spark_kafka_sink.spark.shown_secrets import warn_of_shown_secrets
from spark_kafka_sink.spark.table import table_schema, write_options
from spark_kafka_sink.spark.writer import KafkaProdStreamWriter, KafkaProdWriter, TaskWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_kafka_sink.spark.exactly_once.writers import (
        ExactlyOnceStreamWriter,
        ExactlyOnceWriter,
    )

_PLANNER = "pyspark.sql.worker.write_into_data_source"


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
                "delete and create the topic",
            )
        origin = WriteOrigin.of_write()
        config, contract = self._settle(schema, batch_write=True)
        warn_of_shown_secrets(write_options(schema, self.options))
        check_security(config.producer)
        check_brokers(config, contract)
        planned = None
        if config.exactly_once.exactly_once:
            from spark_kafka_sink.spark.exactly_once.planning import plan_write  # seldom needed

            planned = plan_write(config, contract, origin)
        Publication.of_write(config, origin).announce()
        return planned or KafkaProdWriter(TaskWriter(config, contract, origin))

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
        origin = WriteOrigin.of_stream(StreamIdentity.of(self.options))
        config, contract = self._settle(schema)
        if config.dry_run:
            raise ConfigError(
                "dryRun=true is for batch writes: a stream would take its rows for written, and "
                "its checkpoint would go on",
                hint="Write a batch of the same rows with dryRun=true: read the source with "
                "spark.read, or use foreachBatch and a checkpoint that you delete afterwards.",
            )
        config = self._with_own_reports(config)
        if _planning():
            refuse_continuous()
            warn_of_shown_secrets(write_options(schema, self.options))
            check_security(config.producer, of_stream=True)
            check_report_folder(config)
            check_brokers(config, contract, of_stream=True)
            origin.plan_file.keep(origin.started_at)
        if config.exactly_once.exactly_once:
            return self._exactly_once(config, schema, contract, origin)
        return KafkaProdStreamWriter(TaskWriter(config, contract, origin))

    def _exactly_once(
        self, config: SinkConfig, schema: StructType, contract: Contract, origin: WriteOrigin
    ) -> ExactlyOnceStreamWriter:
        from spark_kafka_sink.spark.exactly_once import planning, writers  # seldom needed

        planning.check_stream_options(config, write_options(schema, self.options))
        if _planning():
            return planning.plan_micro_batch(config, contract, origin)
        return writers.ExactlyOnceStreamWriter(config, None, origin)

    def _settle(
        self, schema: StructType, *, batch_write: bool = False
    ) -> tuple[SinkConfig, Contract]:
        options = write_options(schema, self.options)
        config = SinkConfig.parse(options, batch_write=batch_write)
        return config, Contract.of(schema, config)

    def _with_own_reports(self, config: SinkConfig) -> SinkConfig:
        """The settings of a stream, with a place for reports that no other stream has."""
        folder = ReportFolder.here()
        if config.report_path is None or folder is None:
            return config
        stream = StreamIdentity.of(self.options)
        path = own_report_path(config.report_path, stream, folder.application)
        if path == config.report_path:
            return config
        if _planning():
            warn_of_own_path(config.report_path, path)
        return replace(config, report_path=path)


def _only_writes() -> ConfigError:
    return ConfigError(
        "format('kafkaprod') only writes",
        hint="To read, use format('kafka') with .option('subscribe', ...).",
    )


def _planning() -> bool:
    """Whether Spark plans a micro-batch here, and does not commit one that is in Kafka already.

    It makes a stream's writer for both, each in a kind of worker process of its own.
    """
    script = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PLANNER in sys.modules or getattr(script, "name", None) == _PLANNER
