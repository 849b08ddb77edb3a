"""Planning of a write or a micro-batch, in a Python worker of the driver or by `write`.

A wrong option or column fails here, before any task runs.

Tables in SQL: Spark passes the options of ``CREATE TABLE`` to a Python data source when it asks for
the schema, but not to the writer of an ``INSERT INTO``. The writer does receive the metadata of the
columns, so the options are stored in that metadata. For a table created with explicit columns,
Spark does not ask for a schema: the options must be set in each ``INSERT INTO t WITH (...)``.

Secrets: Spark includes the options of a SQL statement in its plans, and therefore in its UI and
event log. It redacts options whose name or value matches spark.redaction.regex. A Python data
source cannot read the Spark session's settings on the driver, so the default of
spark.redaction.regex is assumed.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import types

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret, is_redacted, is_secret
from spark_kafka_sink.config.enums import Preflight
from spark_kafka_sink.config.option_definition import PREFIX
from spark_kafka_sink.config.option_names import SINK_NAMES, UserOptions, split_options
from spark_kafka_sink.config.schema_registry import REGISTRY_SECRETS
from spark_kafka_sink.config.security.values import SecurityValues
from spark_kafka_sink.config.sink_config import ProducerConfig, SinkConfig
from spark_kafka_sink.config.topic_creation import CONFIG_PREFIX
from spark_kafka_sink.spark.reports.report_folder import (
    ReportFolder,
    StreamIdentity,
    own_report_path,
    warn_of_own_path,
)
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
from spark_kafka_sink.spark.runtime.continuous_processing import reject_continuous
from spark_kafka_sink.spark.runtime.internals import latest_query_start, only_errors_are_logged
from spark_kafka_sink.spark.runtime.worker_context import with_shipped_files
from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles, warn_of_misnamed_columns
from spark_kafka_sink.spark.writers.task_writer import TaskWriter
from spark_kafka_sink.spark.writers.write_completion import WriteCompletion, WriteJob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_LOG = logging.getLogger("spark_kafka_sink")
_HEADER = types.StructType().add("key", types.StringType()).add("value", types.BinaryType())
COLUMNS = (
    types.StructField("key", types.BinaryType()),
    types.StructField("value", types.BinaryType()),
    types.StructField("topic", types.StringType()),
    types.StructField("partition", types.IntegerType()),
    types.StructField("headers", types.ArrayType(_HEADER)),
)
"""Columns of a table that is created with this format and without columns."""
_STORED_OPTIONS = "kafkaprod.options"


def plan_batch(
    user_options: Mapping[str, str],
    schema: types.StructType,
    origin: WriteOrigin | None = None,
    run_id: str | None = None,
) -> WriteJob:
    """Plan a batch write; raises the errors of `KafkaProdDataSource.writer`.

    Args:
        user_options: the options, with keys in any case.
        schema: the schema of the rows.
        origin: the identity of a micro-batch; None for any other write.
        run_id: id of the query's run, in which the schemas stay the same; None outside of a query.
    """
    origin = origin or WriteOrigin.of_write()
    options = write_options(schema, user_options)
    config = SinkConfig.parse(options, batch_write=True)
    roles = ColumnRoles.of(schema, config)
    warn_of_misnamed_columns(*schema.names)
    _check_statistics_path(config)
    _warn_of_small_buffer(config.producer.buffer_memory, config.producer.max_request_size)
    _check_security(config.producer)
    _check_brokers(config, roles)
    roles, config = _with_schemas(roles, schema, config, run_id=run_id)
    if config.exactly_once.is_enabled:
        # Imported here because it is rarely needed.
        from spark_kafka_sink.spark.exactly_once.planning import plan_write

        job = plan_write(config, roles, origin)
    else:
        job = WriteJob(TaskWriter(config, roles, origin), WriteCompletion(config, origin))
    if config.report_path is not None and job.task.must_write:
        # Imported here because it imports the report's modules.
        from spark_kafka_sink.spark.reports.publication import Publication

        Publication.of(config, origin).announce()
    return job


def plan_stream(
    user_options: Mapping[str, str], schema: types.StructType, *, is_planning: bool
) -> tuple[TaskWriter | None, WriteCompletion]:
    """Plan or commit a micro-batch; see `streamWriter` for errors.

    There is no task writer if an exactly-once micro-batch is being committed.
    """
    stream, options = StreamIdentity.of(user_options), write_options(schema, user_options)
    config = SinkConfig.parse(options)
    prefix = config.exactly_once.transactional_id_prefix
    origin = WriteOrigin.of_stream(stream, prefix, is_planning=is_planning)
    roles = ColumnRoles.of(schema, config)
    if config.dry_run:
        raise ConfigError(
            "dryRun=true is for batch writes: a stream would record its rows as written in its "
            "checkpoint",
            hint="Write a batch of the same rows with dryRun=true: read the source with "
            "spark.read, or use foreachBatch with a checkpoint that you delete afterwards.",
        )
    config = _with_own_reports(config, stream, is_planning=is_planning)
    if is_planning:
        warn_of_misnamed_columns(*schema.names)
        _check_stream(config, roles, options)
        roles, config = _with_schemas(roles, schema, config, stream)
        if not config.exactly_once.is_enabled:
            origin.planning_file.store(origin.planned)
    config = replace(config, formats=None)
    if config.exactly_once.is_enabled:
        # Imported here because it is rarely needed.
        from spark_kafka_sink.spark.exactly_once import completion, planning

        planning.check_stream_options(config, options)
        task = planning.plan_micro_batch(config, roles, origin) if is_planning else None
        scope = planning.stream_scope(config)
        return task, completion.ExactlyOnceCompletion(config, origin, scope)
    return TaskWriter(config, roles, origin), WriteCompletion(config, origin)


def _with_schemas(
    roles: ColumnRoles,
    schema: types.StructType,
    config: SinkConfig,
    stream: StreamIdentity | None = None,
    run_id: str | None = None,
) -> tuple[ColumnRoles, SinkConfig]:
    """Return the columns' roles with the schemas of their formats, and the settings for tasks.

    Tasks never contact the registry, so the registry options are removed from their settings.

    Raises:
        KafkaProdError: see `spec_completion.with_schemas`.
    """
    if config.formats is None:
        return roles, config
    from spark_kafka_sink.spark.schema import spec_completion  # needed only for formats

    located = replace(config, producer=with_shipped_files(config.producer))
    start = spec_completion.StreamStart(run_id, spec_completion.SAME_RUN) if run_id else None
    if stream is not None:
        name = f"{stream.query_name}\n{stream.checkpoint}"
        start = spec_completion.StreamStart(name, latest_query_start())
    completed = spec_completion.with_schemas(roles, schema, located, start)
    return completed, replace(config, formats=None)


def _check_stream(config: SinkConfig, roles: ColumnRoles, options: Mapping[str, str]) -> None:
    from spark_kafka_sink.spark.reports.publication import check_report_folder

    reject_continuous()
    warn_of_displayed_secrets(options)
    _check_statistics_path(config)
    _warn_of_small_buffer(config.producer.buffer_memory, config.producer.max_request_size)
    _check_security(config.producer, of_stream=True)
    check_report_folder(config, ReportFolder.here())
    _check_brokers(config, roles, of_stream=True)


def _check_security(config: ProducerConfig, *, of_stream: bool = False) -> None:
    """Detect problems on the driver that would fail every task: see `security_checks`.

    Args:
        config: the sink's settings, as set by the user.
        of_stream: True if a micro-batch is planned, see `StreamPreflight`.

    Raises:
        ConfigError: a key store cannot be opened, or a library is missing.
    """
    from spark_kafka_sink.kafka.security import security_checks  # Not needed in tasks or commits.

    check = security_checks.STREAMS.check if of_stream else security_checks.check_security
    check(with_shipped_files(config).security)


def _check_brokers(config: SinkConfig, roles: ColumnRoles, *, of_stream: bool = False) -> None:
    """Check the brokers, and create a missing topic if requested (see `diagnostics.preflight`).

    Args:
        config: the sink's settings, as set by the user.
        roles: the columns of the rows.
        of_stream: True if a micro-batch is planned.

    Raises:
        KafkaProdError: with preflight=fail, every task would fail; or the topic cannot be created.
    """
    if config.preflight is Preflight.OFF and not config.topic_creation.create:
        return
    from spark_kafka_sink.diagnostics.broker_queries import PlannedWrite  # needed only for a check
    from spark_kafka_sink.diagnostics.preflight import PREFLIGHT

    located = replace(config, producer=with_shipped_files(config.producer))
    write = PlannedWrite(config=located, has_key=roles.has_key)
    start = latest_query_start() if of_stream else None
    PREFLIGHT.check(write, of_stream=of_stream, start=start, only_errors=only_errors_are_logged())


def _check_statistics_path(config: SinkConfig) -> None:
    """Raise an error if no task can write to the path.

    This is checked on the driver, because tasks only log the problem.
    """
    if config.statistics_path is not None:
        from spark_kafka_sink.report.report_storage import ReportLocation  # rarely needed

        ReportLocation.of(config.statistics_path, "the statistics")


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
    config: SinkConfig, stream: StreamIdentity, *, is_planning: bool
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


def table_schema(options: Mapping[str, str]) -> types.StructType:
    """Return the schema of a table created without columns.

    The metadata of its column `value` contains the options.

    Raises:
        ConfigError: the name of an option is unknown or not allowed, or a value is a secret, which
            is never stored.
    """
    stored = {name.lower(): value for name, value in options.items() if _is_sink_option(name)}
    _reject_secrets(split_options(stored))
    metadata = {_STORED_OPTIONS: json.dumps(stored)} if stored else {}
    fields = [
        types.StructField("value", field.dataType, metadata=metadata)
        if field.name == "value"
        else field
        for field in COLUMNS
    ]
    return types.StructType(fields)


def _stored_secrets(user_options: UserOptions) -> Iterator[tuple[str, str, Secret]]:
    """Yield the options whose value is a secret, not a reference to a secret.

    Each has its name, its name as the user spelled it, and its value.
    """
    security = user_options.security
    for name, value in SecurityValues.parse(security).values.items():
        if is_secret(name) and isinstance(value, Secret) and not value.is_reference:
            yield name, security.spelling(name), value
    for name, text in user_options.sink.items():
        if name in REGISTRY_SECRETS and not (value := Secret(text, name)).is_reference:
            yield name, name, value


def _reject_secrets(user_options: UserOptions) -> None:
    for name, shown, value in _stored_secrets(user_options):
        if _may_contain_secret(name, value):
            raise ConfigError(
                f"option {shown} is a secret, but Spark shows the options of a table to all users",
                hint="Set it on the write: INSERT INTO t WITH (...); or use env:NAME or file:PATH, "
                "if every executor can read the value.",
            )


def _may_contain_secret(name: str, value: Secret) -> bool:
    """Return True for a secret, and for a JAAS configuration that contains one."""
    from spark_kafka_sink.config.security.jaas import parse_jaas
    from spark_kafka_sink.config.security.sasl import JAAS, may_contain_secret

    if name != JAAS:
        return True
    try:
        return may_contain_secret(parse_jaas(value.reveal(), value.option))
    except ConfigError:  # A value that cannot be parsed might also be a secret.
        return True


def write_options(schema: types.StructType, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a write, which override the options of its table.

    Raises:
        ConfigError: no options are given, as for a table that was created with columns.
    """
    stored: dict[str, str] = {}
    for field in schema.fields:
        if _STORED_OPTIONS in (field.metadata or {}):
            stored = json.loads(field.metadata[_STORED_OPTIONS])
    merged = stored | {name.lower(): value for name, value in options.items()}
    if not merged:
        raise ConfigError(
            "the write has no options, so kafka.bootstrap.servers is missing",
            hint="Spark passes neither the OPTIONS of a table nor those of insertInto to such a "
            "write: use df.write.format('kafkaprod').options(...).mode('append').save(), "
            "df.writeTo(t).options(...).append(), or INSERT INTO t WITH "
            "('kafka.bootstrap.servers' = '...', 'topic' = '...') ...",
        )
    return merged


def _is_sink_option(name: str) -> bool:
    """Return True if the option is one of the sink's options.

    Spark adds its own properties, and a copy of each option as `option.<name>`.
    """
    return name.lower().startswith((PREFIX, CONFIG_PREFIX)) or name.lower() in SINK_NAMES


def warn_of_displayed_secrets(options: Mapping[str, str]) -> None:
    """Warn once per process about each option with a secret that Spark does not redact."""
    for name in displayed_secrets(options):
        _warn(name)


def displayed_secrets(options: Mapping[str, str]) -> list[str]:
    """Return the options, as the user spelled them, with a secret that Spark does not redact.

    Raises:
        ConfigError: see `SinkConfig.parse`, for names and security options.
    """
    return [
        shown
        for name, shown, value in _stored_secrets(split_options(options))
        if not name.endswith(".id") and not is_redacted(name, value.reveal())
    ]


@cache
def _warn(name: str) -> None:
    _LOG.warning(
        "Option %s contains a secret that Spark may show in plans, UI and event log, because "
        "spark.redaction.regex does not match it by default: use file:PATH or env:NAME, or start "
        "Spark with conf/spark-redaction.conf",
        name,
    )
