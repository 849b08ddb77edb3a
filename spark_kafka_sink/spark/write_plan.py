"""Planning of a write or a micro-batch, in a Python worker of the driver or by `write`.

A wrong option or column fails here, before any task runs.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.enums import PreflightMode
from spark_kafka_sink.config.sink_config import ProducerConfig, SinkConfig
from spark_kafka_sink.spark.displayed_secrets import warn_of_displayed_secrets
from spark_kafka_sink.spark.reports.report_folder import ReportFolder
from spark_kafka_sink.spark.reports.report_paths import (
    StreamIdentity,
    own_report_path,
    warn_of_own_path,
)
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
from spark_kafka_sink.spark.runtime.continuous_processing import reject_continuous
from spark_kafka_sink.spark.runtime.internals import latest_query_start, only_errors_are_logged
from spark_kafka_sink.spark.runtime.worker_context import with_shipped_files
from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles, warn_of_misnamed_columns
from spark_kafka_sink.spark.schema.stream_start import StreamStart
from spark_kafka_sink.spark.table_options import merge_default_options
from spark_kafka_sink.spark.writers.task_writer import TaskWriter
from spark_kafka_sink.spark.writers.write_completion import WriteCompletion, WriteJob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import types


_LOG = logging.getLogger(__name__)


def plan_batch(
    user_options: Mapping[str, str],
    schema: types.StructType,
    origin: WriteOrigin | None = None,
    start: StreamStart | None = None,
) -> WriteJob:
    """Plan a batch write; raises the errors of `KafkaProdDataSource.writer`.

    Args:
        user_options: the options, with keys in any case.
        schema: the schema of the rows.
        origin: the identity of a micro-batch; None for any other write.
        start: the start of a micro-batch's query, if known.
    """
    origin = origin or WriteOrigin.of_write()
    options = merge_default_options(schema, user_options)
    config = SinkConfig.parse(options, batch_write=True)
    roles = ColumnRoles.of(schema, config)
    config, roles = _check_write(config, roles, schema, start)
    if config.exactly_once.is_enabled:
        from spark_kafka_sink.spark.exactly_once.planning import plan_write  # rarely needed

        job = plan_write(config, roles, origin)
    else:
        job = WriteJob(TaskWriter(config, roles, origin), WriteCompletion(config, origin))
    if config.report_path is not None and job.task.must_write:
        from spark_kafka_sink.spark.reports.publication import Publication  # only for reportPath

        Publication.of(config, origin).announce()
    return job


def plan_stream(user_options: Mapping[str, str], schema: types.StructType) -> WriteJob:
    """Plan a micro-batch; see `streamWriter` for errors."""
    from spark_kafka_sink.spark.reports.publication import check_report_folder

    stream = StreamIdentity.of(user_options)
    options = merge_default_options(schema, user_options)
    config = SinkConfig.parse(options)
    origin = WriteOrigin.of_stream(stream, config.exactly_once.transactional_id_prefix)
    roles = ColumnRoles.of(schema, config)
    if config.dry_run:
        raise ConfigError(
            "dryRun=true is for batch writes: a stream would record its rows as written in its "
            "checkpoint",
            hint="Write a batch of the same rows with dryRun=true: read the source with "
            "spark.read, or use foreachBatch with a checkpoint that you delete afterwards.",
        )
    config = _with_own_reports(config, stream, is_planning=True)
    reject_continuous()
    warn_of_displayed_secrets(options)
    check_report_folder(config, ReportFolder.here())
    start = StreamStart(f"{stream.query_name}\n{stream.checkpoint}", latest_query_start())
    config, roles = _check_write(config, roles, schema, start, of_stream=True)
    if config.exactly_once.is_enabled:
        from spark_kafka_sink.spark.exactly_once import planning  # rarely needed

        planning.check_stream_options(config, options)
        return planning.plan_micro_batch(config, roles, origin)
    origin.planning_file.store(origin.planned)
    return WriteJob(TaskWriter(config, roles, origin), WriteCompletion(config, origin))


def completion_of_stream(
    user_options: Mapping[str, str], schema: types.StructType
) -> WriteCompletion:
    """Return the commit and abort of a micro-batch that another process has planned."""
    stream = StreamIdentity.of(user_options)
    config = SinkConfig.parse(merge_default_options(schema, user_options))
    prefix = config.exactly_once.transactional_id_prefix
    origin = WriteOrigin.of_stream(stream, prefix, is_planning=False)
    config = _with_own_reports(config, stream)
    if config.exactly_once.is_enabled:
        from spark_kafka_sink.spark.exactly_once import completion, planning  # rarely needed

        return completion.ExactlyOnceCompletion(config, origin, planning.stream_scope(config))
    return WriteCompletion(config, origin)


def _check_write(
    config: SinkConfig,
    roles: ColumnRoles,
    schema: types.StructType,
    start: StreamStart | None,
    *,
    of_stream: bool = False,
) -> tuple[SinkConfig, ColumnRoles]:
    """Detect problems on the driver that would fail the tasks, and warn of likely mistakes.

    Returns:
        The settings and columns for the tasks, with the schemas of key and value.
    """
    located = replace(config, producer=with_shipped_files(config.producer))
    warn_of_misnamed_columns(*schema.names)
    _check_statistics_path(config)
    _warn_of_small_buffer(config.producer.buffer_memory, config.producer.max_request_size)
    _check_security(located.producer, of_stream=of_stream)
    _check_brokers(located, roles, start if of_stream else None)
    if config.formats is None:
        return config, roles
    from spark_kafka_sink.spark.schema.spec_completion import with_schemas  # only for formats

    roles = with_schemas(roles, schema, located, config.formats, start)
    return replace(config, formats=None), roles  # Tasks never contact the registry.


def _check_security(config: ProducerConfig, *, of_stream: bool) -> None:
    """Detect problems on the driver that would fail every task: see `security_checks`.

    Args:
        config: the sink's settings, with the driver's paths of shipped files.
        of_stream: True if a micro-batch is planned, see `StreamSecurityCheck`.

    Raises:
        ConfigError: a key store cannot be opened, or a library is missing.
    """
    from spark_kafka_sink.kafka.security import security_checks  # only for planning

    check_write = (
        security_checks.stream_security_check.check_files
        if of_stream
        else security_checks.check_security
    )
    check_write(config.security)


def _check_brokers(config: SinkConfig, roles: ColumnRoles, stream: StreamStart | None) -> None:
    """Check the brokers, and create a missing topic if requested (see `diagnostics.preflight`).

    Args:
        config: the sink's settings, with the driver's paths of shipped files.
        roles: the columns of the rows.
        stream: the start of the stream whose micro-batch is planned; None for a batch write.

    Raises:
        KafkaProdError: with preflight=fail, every task would fail; or the topic cannot be created.
    """
    if config.preflight is PreflightMode.OFF and not config.topic_creation.create:
        return
    from spark_kafka_sink.diagnostics.planned_write import PlannedWrite
    from spark_kafka_sink.diagnostics.preflight import preflight_check

    write = PlannedWrite(config=config, has_key=roles.has_key)
    preflight_check.check_write(
        write,
        of_stream=stream is not None,
        start=stream and stream.latest,
        only_errors=only_errors_are_logged(),
    )


def _check_statistics_path(config: SinkConfig) -> None:
    """Raise an error if no task can write to the path.

    This is checked on the driver, because tasks only log the problem.
    """
    if config.statistics_path is not None:
        from spark_kafka_sink.report.file_storage import FileLocation  # rarely needed

        FileLocation.of(config.statistics_path, "the statistics")


@cache
def _warn_of_small_buffer(buffer: int, largest: int) -> None:
    """Warn once per process if rows within max.request.size might not fit into the buffer.

    Java's producer accepts such settings.
    """
    if buffer < largest:
        _LOG.warning(
            "kafka.buffer.memory = %s is less than kafka.max.request.size = %s: a row above "
            "kafka.buffer.memory fails the write",
            f"{buffer:,}",
            f"{largest:,}",
        )


def _with_own_reports(
    config: SinkConfig, stream: StreamIdentity, *, is_planning: bool = False
) -> SinkConfig:
    """Return a stream's settings with a report path that no other stream uses.

    If the options do not identify the stream, its path is chosen when a report is written, by the
    id of the query.
    """
    folder = ReportFolder.here()
    if config.report_path is None or folder is None or not stream.is_known:
        return config
    path = own_report_path(config.report_path, stream, folder.application)
    if path == config.report_path:
        return config
    if is_planning:
        warn_of_own_path(config.report_path, path, folder.application)
    return replace(config, report_path=path)
