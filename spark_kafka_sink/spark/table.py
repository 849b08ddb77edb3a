"""Tables in SQL: the schema that Spark keeps of a table carries the table's options.

Spark hands a Python data source the options of ``CREATE TABLE`` when it asks for the schema, but
none of them to the writer of an ``INSERT INTO``. What the writer does get is the metadata of the
columns, so the options travel there. A table that is created with columns of its own never asks
for a schema: its options must come with each ``INSERT INTO t WITH (...)``.
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
"""What a table of this format looks like when it is created without columns."""

_NOTE = "kafkaprod.options"


def table_schema(options: Mapping[str, str]) -> StructType:
    """The schema of a table that is created without columns, its options noted at `value`.

    Raises:
        ConfigError: a name among the options is unknown or refused, or a value is a secret, as
            those are never noted.
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
    """Whether a value is a secret itself; a login is none if it only says where its secrets are."""
    if not is_secret(name) or value.is_reference:
        return False
    if name != JAAS:
        return True
    try:
        return holds_secret(parse_jaas(value.reveal(), value.option))
    except ConfigError:  # what can't be read may be a secret too
        return True


def write_options(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a write: its own, above those of the table that it goes into.

    Raises:
        ConfigError: there are none, as with a table that was created with columns.
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
    """Spark mixes in properties of its own, and each option again as `option.<name>`."""
    return name.lower().startswith((PREFIX, CONFIG_PREFIX)) or name.lower() in SINK_NAMES
