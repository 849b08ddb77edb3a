"""The columns that a DataFrame must have. The driver checks them before any task runs.

Names and types are the same as for Spark's own ``format("kafka")`` (``KafkaWriter``), so a write
can be migrated by changing the name of the format.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import types

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.common.text import listed, shortened_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.formats.encoder_spec import EncoderSpec
    from spark_kafka_sink.spark.schema.selection import Selection, Selections

_TYPES: dict[str, tuple[tuple[type[types.DataType], ...], str]] = {
    "value": ((types.StringType, types.BinaryType), "STRING or BINARY"),
    "key": ((types.StringType, types.BinaryType), "STRING or BINARY"),
    "topic": ((types.StringType,), "STRING"),
    "partition": ((types.IntegerType,), "INT"),
    "headers": ((types.ArrayType,), "ARRAY<STRUCT<key: STRING, value: BINARY>>"),
    "timestamp": ((types.TimestampType, types.TimestampNTZType), "TIMESTAMP"),
}
_HEADER = [("key", types.StringType), ("value", types.BinaryType)]
_WITHOUT = {
    "key": "records have no key",
    "headers": "records have no headers",
    "partition": "the partitioner chooses each record's partition",
}
"""Effect of a missing column, for each optional column."""
_MISSING = {
    "value": (
        "Required attribute 'value' not found:",
        "Set value.format, for example to json, to write all columns; or name one column `value`.",
    ),
    "timestamp": (
        "useTimestampColumn=true, but",
        "Add a column `timestamp` of type TIMESTAMP, or remove the option.",
    ),
}
"""Start of the error message and hint for a required column that is missing."""
_LOG = logging.getLogger(__name__)
_MAX_LISTED_NAMES = 10
"""Maximum number of columns in an error message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRoles:
    """The index of each column in the DataFrame; None if it is absent or not used."""

    value: int | None
    """Written unchanged, unless columns are encoded."""
    key: int | None
    """Written unchanged, unless columns are encoded."""
    topic: int | None
    partition: int | None
    headers: int | None
    timestamp: int | None
    fixed_topic: str | None
    """The `topic` option, which overrides the column."""
    is_tolerant: bool = False
    """True if a bad row is marked and does not fail the task (errors.tolerance=all)."""
    value_spec: EncoderSpec | None = None
    key_spec: EncoderSpec | None = None

    @property
    def used(self) -> list[int]:
        """Indices of the columns that are written."""
        indexes = (self.value, self.key, self.topic, self.partition, self.headers, self.timestamp)
        used = {index for index in indexes if index is not None}
        for spec in (self.value_spec, self.key_spec):
            used.update(() if spec is None else spec.columns)
        return sorted(used)

    @property
    def described_formats(self) -> tuple[tuple[str, str], ...]:
        """The formats, subjects and schema ids of key and value, by name, for the report."""
        facts: list[tuple[str, str]] = []
        for part, spec in (("key", self.key_spec), ("value", self.value_spec)):
            if spec is not None:
                facts.append((f"{part}.format", spec.format.value))
                facts += [(f"{part}.subject", spec.subject)] if spec.subject else []
                facts += [(f"{part}.schema.id", str(spec.schema_id))] if spec.schema_id else []
        return tuple(facts)

    @property
    def has_key(self) -> bool:
        """True if records can have a key."""
        return self.key is not None or self.key_spec is not None

    @classmethod
    def of(cls, schema: types.StructType, config: SinkConfig) -> ColumnRoles:
        """Check a DataFrame's schema.

        Raises:
            ColumnError: a column is missing, duplicate, of the wrong type, or unreadable in Python.
        """
        _reject_duplicates(schema)
        _reject_unreadable_types(schema)
        selected = _select_columns(schema, config)
        # A topic column that the option overrides may have any type.
        unused = {"key", "value", "timestamp"} | ({"topic"} if config.topic is not None else set())
        if selected is not None:
            unused |= selected.fields & {"partition", "headers"}
        indexes = {name: _index_of(schema, name) for name in _TYPES if name not in unused}
        if config.topic is None and indexes["topic"] is None:
            raise ColumnError(
                "topic option required when no 'topic' attribute is present",
                hint=_rename_hint(schema, "topic")
                or "Set .option('topic', ...), or add a column `topic`.",
            )
        return cls(
            value=_required_index(schema, "value")
            if selected is None
            else _raw_column(selected.value),
            key=_index_of(schema, "key") if selected is None else _raw_column(selected.key),
            topic=indexes.get("topic"),
            partition=indexes.get("partition"),
            headers=indexes.get("headers"),
            timestamp=_required_index(schema, "timestamp") if config.use_timestamp_column else None,
            fixed_topic=config.topic,
            is_tolerant=config.dead_letters.is_tolerant,
            value_spec=None if selected is None else _encoder_spec(selected.value, config),
            key_spec=None if selected is None else _encoder_spec(selected.key, config),
        )


def _reject_unreadable_types(schema: types.StructType) -> None:
    """Reject columns that tasks cannot read: the tasks fail, even if they are not written."""
    for field in schema.fields:
        reason = _unreadable_because(field.dataType)
        if reason is not None:
            type_name = shortened_type(field.dataType.simpleString())
            raise ColumnError(
                f"column `{field.name}` has type {type_name}, {reason}",
                hint=f"Drop it, or cast it to STRING: .drop('{field.name}').",
            )


def _unreadable_because(data_type: types.DataType) -> str | None:
    """Return why tasks cannot read a type, or None if they can."""
    if isinstance(data_type, types.YearMonthIntervalType):
        return "which PyArrow cannot read"
    parts: list[types.DataType] = []
    if isinstance(data_type, types.StructType):
        if len(set(data_type.names)) < len(data_type.names):
            return "which Spark does not pass to Python: two fields have the same name"
        parts = [field.dataType for field in data_type.fields]
    elif isinstance(data_type, types.ArrayType):
        parts = [data_type.elementType]
    elif isinstance(data_type, types.MapType):
        parts = [data_type.keyType, data_type.valueType]
    return next(filter(None, map(_unreadable_because, parts)), None)


def _select_columns(schema: types.StructType, config: SinkConfig) -> Selections | None:
    """Return the columns that the format options select, or None without such options."""
    if config.formats is None:
        return None
    from spark_kafka_sink.spark.schema.selection import select  # only for formats

    return select(schema, config.formats)


def _raw_column(selection: Selection | None) -> int | None:
    """Return the index of the column that is written unchanged, or None if there is none."""
    return selection.column if selection is not None and selection.is_raw else None


def _encoder_spec(selection: Selection | None, config: SinkConfig) -> EncoderSpec | None:
    """Return the encoder spec, still without a schema, or None if nothing is serialized."""
    if selection is None or selection.is_raw or config.formats is None:
        return None
    from spark_kafka_sink.formats.encoder_spec import EncoderSpec  # only for formats

    return EncoderSpec(
        format=selection.format,
        fields=selection.fields,
        column=selection.column,
        is_single=selection.is_single,
        writes_nulls=config.formats.writes_nulls,
    )


def _required_index(schema: types.StructType, name: str) -> int:
    """Check a column's type and return its index; raise an error if the column is missing."""
    index = _index_of(schema, name)
    if index is None:
        problem, hint = _MISSING[name]
        raise ColumnError(
            f"{problem} the DataFrame has no column `{name}`, only {_listed_names(schema)}",
            hint=_rename_hint(schema, name) or hint,
        )
    return index


def _reject_duplicates(schema: types.StructType) -> None:
    """Raise an error for duplicate columns; Spark also rejects them, but only when the job runs."""
    duplicates = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if duplicates:
        raise ColumnError(
            f"the DataFrame has the column `{duplicates[0]}` twice",
            hint="Drop or rename one of them.",
        )


def _index_of(schema: types.StructType, name: str) -> int | None:
    """Check a column's type and return its index, or None if the column is missing."""
    if name not in schema.names:
        return None
    kinds, allowed = _TYPES[name]
    data_type = schema[name].dataType
    fits = _is_headers(data_type) if name == "headers" else isinstance(data_type, kinds)
    if not fits:
        raise ColumnError(
            f"{name} attribute unsupported type {shortened_type(data_type.simpleString())}: "
            f"column `{name}` must be {allowed}",
            hint=_hint_for_type(name, data_type, allowed),
        )
    return schema.names.index(name)


@cache
def warn_of_misnamed_columns(*names: str) -> None:
    """Log optional columns that are ignored due to different case or spaces, once per process."""
    for meant, effect in _WITHOUT.items():
        similar = _similar_column(names, meant)
        if similar is not None:
            _LOG.warning(
                "column `%s` is ignored (as in format('kafka')), and %s: the sink reads `%s`. To "
                "write it, use .withColumnRenamed('%s', '%s')",
                *(similar, effect, meant, similar, meant),
            )


def _similar_column(names: Sequence[str], meant: str) -> str | None:
    """Return a column that differs from `meant` only in case or spaces.

    Return None if there is no such column, or if there is a column `meant`.
    """
    if meant in names:
        return None
    return next((name for name in names if name.strip().lower() == meant), None)


def _rename_hint(schema: types.StructType, meant: str) -> str | None:
    name = _similar_column(schema.names, meant)
    return name and f"Rename `{name}` to `{meant}`: .withColumnRenamed('{name}', '{meant}')."


def _hint_for_type(name: str, data_type: types.DataType, allowed: str) -> str:
    text = name in ("key", "value")
    if text and isinstance(data_type, (types.StructType, types.ArrayType, types.MapType)):
        if isinstance(data_type, types.StructType):
            return f"Set {name}.format, for example to json, avro or protobuf."
        return f"Write it as JSON: .withColumn('{name}', to_json('{name}'))."
    if name == "headers":
        convert = f"Convert it: .withColumn('headers', expr({_headers_of(data_type)!r}))"
        return f"{convert}, or rename it if it is not meant for Kafka."
    cast = "STRING" if text else allowed
    return (
        f"Cast it: .withColumn('{name}', col('{name}').cast('{cast}')), or rename it if it is not "
        "meant for Kafka."
    )


def _headers_of(data_type: types.DataType) -> str:
    """Return a SQL expression for the column `headers` that converts this type, or an example."""
    text = (types.StringType, types.BinaryType)
    source, kinds, names = "", [], ["key", "value"]
    if isinstance(data_type, types.MapType):
        source, kinds = "map_entries(headers)", [data_type.keyType, data_type.valueType]
    elif isinstance(data_type, types.ArrayType):
        element = data_type.elementType
        fields = element.fields if isinstance(element, types.StructType) else []
        source, kinds = "headers", [field.dataType for field in fields]
        if {field.name for field in fields} != set(names):
            names = [field.name for field in fields]
    if len(kinds) != len(_HEADER) or not all(isinstance(kind, text) for kind in kinds):
        return "array(struct('k' as key, cast('v' as binary) as value))"
    key, value = (f"e.`{name}`" for name in names)
    entry = f"struct(cast({key} as string) as key, cast({value} as binary) as value)"
    return f"transform({source}, e -> {entry})"


def _is_headers(data_type: types.DataType) -> bool:
    """Return True for an array of structs that consist of a string `key` and a binary `value`.

    As in `format("kafka")`, which compares types with ``DataTypeUtils.sameType``, the names may be
    in any case.
    """
    if not isinstance(data_type, types.ArrayType) or not isinstance(
        data_type.elementType, types.StructType
    ):
        return False
    fields = data_type.elementType.fields
    return [(field.name.lower(), type(field.dataType)) for field in fields] == _HEADER


def _listed_names(schema: types.StructType) -> str:
    return listed([f"`{name}`" for name in schema.names], _MAX_LISTED_NAMES) or "no columns"
