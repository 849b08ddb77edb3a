"""The options of SQL tables, which are the defaults of the writes to the table.

Spark passes the options of ``CREATE TABLE`` to a Python data source when it asks for the schema,
but not to the writer of an ``INSERT INTO``. The writer does receive the metadata of the columns, so
the options are stored in that metadata. For a table created with explicit columns, Spark does not
ask for a schema: the options must be set in each ``INSERT INTO t WITH (...)``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import types

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.known_options import SINK_NAMES, UserOptions, split_options
from spark_kafka_sink.config.option_definition import PREFIX
from spark_kafka_sink.config.topic_creation import CONFIG_PREFIX
from spark_kafka_sink.spark.displayed_secrets import plain_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.common.secret import Secret

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


def _reject_secrets(user_options: UserOptions) -> None:
    for name, spelling, value in plain_secrets(user_options):
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
