"""Tables in SQL: the schema that Spark keeps of a table carries the table's options.

Spark passes the options of ``CREATE TABLE`` to a Python data source when it asks for the schema,
but not to the writer of an ``INSERT INTO``. The writer does receive the metadata of the columns, so
the options are stored there. For a table created with explicit columns Spark does not ask for a
schema: its options must be given with each ``INSERT INTO t WITH (...)``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret, is_secret
from spark_kafka_sink.config.names import SINK_NAMES, split_options
from spark_kafka_sink.config.option import PREFIX
from spark_kafka_sink.config.security.jaas import parse_jaas
from spark_kafka_sink.config.security.sasl import JAAS, holds_secret
from spark_kafka_sink.config.security.values import SecurityValues
from spark_kafka_sink.config.topic_creation import CONFIG_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.config.names import GivenOptions

COLUMNS = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField(
        "headers",
        ArrayType(
            StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        ),
    ),
)
"""Columns of a table of this format that is created without columns."""

_NOTE = "kafkaprod.options"


def table_schema(options: Mapping[str, str]) -> StructType:
    """Return the schema of a table created without columns, with its options stored at `value`.

    Raises:
        ConfigError: the name of an option is unknown or not allowed, or a value is a secret, which
            is never stored.
    """
    noted = {name.lower(): value for name, value in options.items() if _is_ours(name)}
    _refuse_secrets(split_options(noted))
    note = {_NOTE: json.dumps(noted)} if noted else {}
    fields = [
        StructField("value", field.dataType, metadata=note) if field.name == "value" else field
        for field in COLUMNS
    ]
    return StructType(fields)


def _refuse_secrets(given: GivenOptions) -> None:
    for name, value in SecurityValues.parse(given.security).values.items():
        if isinstance(value, Secret) and _keeps_secret(name, value):
            raise ConfigError(
                f"option {given.security.given_name(name)} is a secret, and Spark shows to "
                "everybody what it keeps with a table",
                hint="Give it with the write: INSERT INTO t WITH (...); or write env:NAME or "
                "file:PATH, where every executor finds the value.",
            )


def _keeps_secret(name: str, value: Secret) -> bool:
    """Return True if a value is a secret itself, and not only a reference to one."""
    if not is_secret(name) or value.is_reference:
        return False
    if name != JAAS:
        return True
    try:
        return holds_secret(parse_jaas(value.reveal(), value.option))
    except ConfigError:  # an unparsable value may be a secret as well
        return True


def write_options(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a write, which override those of the table it writes to.

    Raises:
        ConfigError: there are none, as for a table that was created with columns.
    """
    noted: dict[str, str] = {}
    for field in schema.fields:
        if _NOTE in (field.metadata or {}):
            noted = json.loads(field.metadata[_NOTE])
    found = noted | {name.lower(): value for name, value in options.items()}
    if not found:
        raise ConfigError(
            "the write has no options, so kafka.bootstrap.servers is missing",
            hint="Spark passes on neither the OPTIONS of a table to such a write, nor those of "
            "insertInto: use df.write.format('kafkaprod').options(...).mode('append').save(), "
            "df.writeTo(t).options(...).append(), or INSERT INTO t WITH "
            "('kafka.bootstrap.servers' = '...', 'topic' = '...') ...",
        )
    return found


def _is_ours(name: str) -> bool:
    """Return True for the sink's options.

    Spark adds properties of its own, and a copy of each option as `option.<name>`.
    """
    return name.lower().startswith((PREFIX, CONFIG_PREFIX)) or name.lower() in SINK_NAMES
