"""The options of SQL tables, and options with secrets that Spark would show.

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
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import types

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import is_redacted, is_secret
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.known_options import SINK_NAMES, UserOptions, split_options
from spark_kafka_sink.config.option_definition import PREFIX
from spark_kafka_sink.config.schema_registry import REGISTRY_SECRETS
from spark_kafka_sink.config.security.security_values import SecurityValues
from spark_kafka_sink.config.topic_creation import CONFIG_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LOG = logging.getLogger(__name__)
_HEADER = types.StructType().add("key", types.StringType()).add("value", types.BinaryType())
_COLUMNS = (
    types.StructField("key", types.BinaryType()),
    types.StructField("value", types.BinaryType()),
    types.StructField("topic", types.StringType()),
    types.StructField("partition", types.IntegerType()),
    types.StructField("headers", types.ArrayType(_HEADER)),
)
"""Columns of a table that is created with this format and without columns."""
_STORED_OPTIONS = "kafkaprod.options"


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
        for field in _COLUMNS
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
    for name, spelling, value in _stored_secrets(user_options):
        if _may_contain_secret(name, value):
            raise ConfigError(
                f"option {spelling} is a secret, but Spark shows the options of a table to all "
                "users",
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


def merge_default_options(schema: types.StructType, options: Mapping[str, str]) -> dict[str, str]:
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
            hint="Pass them with write(df, options), micro_batch_writer(options), "
            "df.write.format('kafkaprod').options(...).mode('append').save(), "
            "df.writeTo(t).options(...).append(), or INSERT INTO t WITH "
            "('kafka.bootstrap.servers' = '...', 'topic' = '...') ... Spark does not pass on the "
            "OPTIONS of a table, those of insertInto, or those of a stream to foreachBatch.",
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
        _warn_of_secret(name)


def displayed_secrets(options: Mapping[str, str]) -> list[str]:
    """Return the options, as the user spelled them, with a secret that Spark does not redact.

    Raises:
        ConfigError: see `SinkConfig.parse`, for names and security options.
    """
    return [
        spelling
        for name, spelling, value in _stored_secrets(split_options(options))
        if not name.endswith(".id") and not is_redacted(name, value.reveal())
    ]


@cache
def _warn_of_secret(name: str) -> None:
    _LOG.warning(
        "Option %s contains a secret that Spark may show in plans, UI and event log, because "
        "spark.redaction.regex does not match it by default: use file:PATH or env:NAME, or start "
        "Spark with conf/spark-redaction.conf",
        name,
    )
