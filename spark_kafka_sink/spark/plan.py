"""Planning of a write or a micro-batch, in a Python worker on the driver.

A wrong option or column fails here, before any task runs.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.model import SinkConfig
from spark_kafka_sink.spark.contract import Contract, warn_of_misnamed_columns
from spark_kafka_sink.spark.reports.error_file import Planned, WriteOrigin
from spark_kafka_sink.spark.reports.report_folder import (
    ReportFolder,
    StreamIdentity,
    own_report_path,
    warn_of_own_path,
)
from spark_kafka_sink.spark.shipped_files import check_brokers, check_security
from spark_kafka_sink.spark.shown_secrets import warn_of_shown_secrets
from spark_kafka_sink.spark.table import write_options
from spark_kafka_sink.spark.writer import KafkaProdStreamWriter, KafkaProdWriter, TaskWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from spark_kafka_sink.spark.exactly_once.writers import (
        ExactlyOnceStreamWriter,
        ExactlyOnceWriter,
    )


_LOG = logging.getLogger("spark_kafka_sink")
_PLANNER = "pyspark.sql.worker.write_into_data_source"


def batch_writer(
    given: Mapping[str, str], schema: StructType
) -> KafkaProdWriter | ExactlyOnceWriter:
    """Return the writer of a batch; raises as `KafkaProdDataSource.writer`.

    Args:
        given: the options as Spark passes them, keys in any case.
        schema: of the rows.
    """
    origin, options = WriteOrigin.of_write(), write_options(schema, given)
    config = SinkConfig.parse(options, batch_write=True)
    contract = Contract.of(schema, config)
    warn_of_misnamed_columns(*schema.names)
    warn_of_shown_secrets(options)
    _check_statistics_path(config)
    _warn_of_small_buffer(config.producer.buffer_memory, config.producer.max_request_size)
    check_security(config.producer)
    check_brokers(config, contract)
    planned = None
    if config.exactly_once.exactly_once:
        from spark_kafka_sink.spark.exactly_once.planning import plan_write  # seldom needed

        planned = plan_write(config, contract, origin)
    if config.report_path is not None:
        from spark_kafka_sink.spark.reports.publication import (
            Publication,  # imports all modules of the reports
        )

        Publication.of_write(config, origin).announce()
    return planned or KafkaProdWriter(TaskWriter(config, contract, origin))


def stream_writer(
    given: Mapping[str, str], schema: StructType
) -> KafkaProdStreamWriter | ExactlyOnceStreamWriter:
    """Return the writer that plans or commits a micro-batch; raises as `streamWriter`."""
    stream, options = StreamIdentity.of(given), write_options(schema, given)
    config = SinkConfig.parse(options)
    origin = WriteOrigin.of_stream(stream, config.exactly_once.transactional_id_prefix)
    contract = Contract.of(schema, config)
    if config.dry_run:
        raise ConfigError(
            "dryRun=true is for batch writes: a stream would take its rows for written, and "
            "its checkpoint would go on",
            hint="Write a batch of the same rows with dryRun=true: read the source with "
            "spark.read, or use foreachBatch and a checkpoint that you delete afterwards.",
        )
    config = _with_own_reports(config, stream)
    if _planning():
        warn_of_misnamed_columns(*schema.names)
        _check_stream(config, contract, options)
        origin.plan_file.keep(Planned(at=origin.started_at))
    if config.exactly_once.exactly_once:
        return _exactly_once(config, contract, origin, options)
    return KafkaProdStreamWriter(TaskWriter(config, contract, origin))


def _check_stream(config: SinkConfig, contract: Contract, options: Mapping[str, str]) -> None:
    from spark_kafka_sink.spark.continuous_processing import refuse_continuous  # only for streams
    from spark_kafka_sink.spark.reports.publication import check_report_folder

    refuse_continuous()
    warn_of_shown_secrets(options)
    _check_statistics_path(config)
    _warn_of_small_buffer(config.producer.buffer_memory, config.producer.max_request_size)
    check_security(config.producer, of_stream=True)
    check_report_folder(config)
    check_brokers(config, contract, of_stream=True)


def _check_statistics_path(config: SinkConfig) -> None:
    """Fail on the driver for a path that no task could write to: tasks would only log that."""
    if config.statistics_path is not None:
        from spark_kafka_sink.report.storage import ReportLocation  # seldom needed

        ReportLocation.of(config.statistics_path, "the statistics")


@cache
def _warn_of_small_buffer(buffer: int, largest: int) -> None:
    """Warn once per process if rows that max.request.size allows fail; Java accepts it."""
    if buffer < largest:
        _LOG.warning(
            "kafka.buffer.memory = %s is less than kafka.max.request.size = %s: a row above "
            "kafka.buffer.memory fails the write",
            f"{buffer:,}",
            f"{largest:,}",
        )


def _exactly_once(
    config: SinkConfig, contract: Contract, origin: WriteOrigin, options: Mapping[str, str]
) -> ExactlyOnceStreamWriter:
    from spark_kafka_sink.spark.exactly_once import planning, writers  # seldom needed

    planning.check_stream_options(config, options)
    if _planning():
        return planning.plan_micro_batch(config, contract, origin)
    return writers.ExactlyOnceStreamWriter(config, None, origin)


def _with_own_reports(config: SinkConfig, stream: StreamIdentity) -> SinkConfig:
    """Return the settings of a stream with a report path that no other stream uses."""
    folder = ReportFolder.here()
    if config.report_path is None or folder is None:
        return config
    path = own_report_path(config.report_path, stream, folder.application)
    if path == config.report_path:
        return config
    if _planning():
        warn_of_own_path(config.report_path, path, folder.application)
    return replace(config, report_path=path)


def _planning() -> bool:
    """Return True if Spark plans a micro-batch here, False if it commits one.

    It creates a stream's writer for both, each in its own kind of worker process.
    """
    script = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PLANNER in sys.modules or getattr(script, "name", None) == _PLANNER
