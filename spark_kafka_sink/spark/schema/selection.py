"""The columns that become the key and the value if a format or fields are set.

They are either a struct column named `value` (or `key`), or columns that become fields. A column
that could be a field or have a special meaning is an error, because a wrong guess would write data
that was not meant for the topic. This module is loaded only if such options are set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import types

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.common.masking import safe_repr
from spark_kafka_sink.common.similar_names import did_you_mean
from spark_kafka_sink.common.text import shortened_type
from spark_kafka_sink.config.formats import FieldsInclude, Format, FormatsConfig, PartFormat

if TYPE_CHECKING:
    from collections.abc import Sequence


_ROLES = {
    "key": "the key of the record",
    "topic": "the topic of the record",
    "partition": "the partition of the record",
    "headers": "the headers of the record",
    "timestamp": "the timestamp of the record",
}
"""Columns with a special meaning, except `value`."""
_MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class Selection:
    """The columns of the key or the value: one column, or several as fields, by their indices."""

    format: Format
    column: int | None = None
    """With format raw, a string or binary column, otherwise a struct."""
    fields: tuple[int, ...] | None = None
    is_single: bool = False
    """True if `fields` is the column `key` or `value`, which is written without a record."""

    @property
    def is_raw(self) -> bool:
        """True if the bytes of a column are written as they are."""
        return self.format is Format.RAW


@dataclass(frozen=True, slots=True)
class Selections:
    """The key and value columns."""

    value: Selection
    key: Selection | None
    """None if records have no key."""
    fields: frozenset[str]
    """Columns that options list as fields. They have no other meaning."""


def select(schema: types.StructType, formats: FormatsConfig) -> Selections:
    """Choose the columns of key and value.

    Raises:
        ColumnError: a column is missing, has the wrong type, or could be a field or have a special
            meaning.
    """
    # The value comes first: if `key` could also be a field, the error for the value says so.
    value = _select_value(schema, formats)
    key = _select_key(schema, formats)
    return Selections(value, key, frozenset(formats.key.fields + formats.value.fields))


def _select_key(schema: types.StructType, formats: FormatsConfig) -> Selection | None:
    part = formats.key
    if part.fields:
        return _of_fields(schema, part, part.fields)
    if "key" in formats.value.fields or "key" not in schema.names:
        if part.format is not Format.RAW:
            raise ColumnError(
                f"key.format is {part.format.value}, but the key is not defined: key.fields "
                "is not set, and the DataFrame has no column `key`"
                + (" that is not a field of the value" if "key" in schema.names else ""),
                hint="Set key.fields to the columns of the key.",
            )
        return None
    return _select_column(schema, formats, part)


def _select_value(schema: types.StructType, formats: FormatsConfig) -> Selection:
    part = formats.value
    except_key = formats.fields_include is FieldsInclude.EXCEPT_KEY
    if "value" in schema.names and "value" not in part.fields:
        if part.fields or except_key:
            option = "value.fields" if part.fields else "value.fields-include"
            raise ColumnError(
                f"the column `value` and option {option} both define the value",
                hint=f"Drop or rename the column, list it in value.fields, or remove {option}.",
            )
        return _select_column(schema, formats, part)
    names = part.fields or _all_columns(schema, formats)
    if except_key:
        names = tuple(name for name in names if name not in formats.key.fields)
    if not names:
        raise ColumnError(
            "the value has no fields: key.fields contains all columns",
            hint="Remove value.fields-include=EXCEPT_KEY, or shorten key.fields.",
        )
    return _of_fields(schema, part, names)


def _all_columns(schema: types.StructType, formats: FormatsConfig) -> tuple[str, ...]:
    """Return all columns of the DataFrame as fields, if none of them could mean anything else."""
    part = formats.value
    if part.format is Format.RAW:
        raise ColumnError(
            "the DataFrame has no column `value`, and value.format is raw",
            hint="Set value.format, for example to json, to write the columns as fields, or set "
            "value.fields to the one column whose bytes are the value.",
        )
    for name, meaning in _ROLES.items():
        if name in schema.names and name not in formats.key.fields:
            other_columns = [other for other in schema.names if other != name]
            if not other_columns:
                raise ColumnError(
                    f"the only column is `{name}`, which could be the value or {meaning}",
                    hint=f"To write it in the value, set value.fields={name}, or rename it.",
                )
            listed = _listed(other_columns)
            key = "; to use it as both, also set key.fields=key" if name == "key" else ""
            raise ColumnError(
                f"the column `{name}` could be a field of the value or {meaning}",
                hint=f"To use it as {meaning}, set value.fields={listed}; to use it as a field, "
                f"add {name} to that list{key}. Or rename the column.",
            )
    return tuple(schema.names)


def _select_column(schema: types.StructType, formats: FormatsConfig, part: PartFormat) -> Selection:
    """Return the column `key` or `value`, after checking that its type fits the format."""
    index = schema.names.index(part.part)
    data_type = schema[part.part].dataType
    if part.format is Format.RAW:
        _check_raw(part, part.part, data_type)
    elif not isinstance(data_type, types.StructType):
        is_avro = part.format.payload is Format.AVRO
        is_chosen = formats.chooses_version(part)
        if is_avro and (is_chosen or part.has_schema):
            return Selection(part.format, fields=(index,), is_single=True)
        raise ColumnError(
            f"the column `{part.part}` has type {shortened_type(data_type.simpleString())}, but "
            f"{part.part}.format is {part.format.value}, which writes structs",
            hint=f"List the columns of the {part.part}: {part.part}.fields=..., with "
            f"`{part.part}` if it is a field; or rename it"
            + (f"; or set {part.part}.format=raw to write its bytes" if _is_raw(data_type) else "")
            + (f"; or set {part.part}.schema to the column's Avro type" if is_avro else "")
            + ".",
        )
    return Selection(part.format, column=index)


def _of_fields(schema: types.StructType, part: PartFormat, names: Sequence[str]) -> Selection:
    """Return the listed fields. With format raw, there is one field, whose bytes are written."""
    for name in names:
        if name not in schema.names:
            raise ColumnError(
                f"{part.part}.fields lists {safe_repr(name)}, but the DataFrame has no such column",
                hint=_nested_hint(name, schema)
                or did_you_mean(name, schema.names)
                or f"The DataFrame has: {_listed(schema.names)}.",
            )
    indices = tuple(schema.names.index(name) for name in names)
    if part.format is not Format.RAW:
        return Selection(part.format, fields=indices)
    if len(names) > 1:
        raise ColumnError(
            f"{part.part}.fields lists {len(names)} columns, but {part.part}.format is raw, which "
            "writes the bytes of one",
            hint=f"Set {part.part}.format, for example to json.",
        )
    _check_raw(part, names[0], schema[names[0]].dataType)
    return Selection(part.format, column=indices[0])


def _listed(names: Sequence[str]) -> str:
    return ",".join(names[:_MAX_LISTED]) + (",..." if len(names) > _MAX_LISTED else "")


def _nested_hint(name: str, schema: types.StructType) -> str | None:
    outer = name.partition(".")[0]
    if outer == name or outer not in schema.names:
        return None
    return f"Fields are columns: add .withColumn('{name.rpartition('.')[2]}', col('{name}'))."


def _check_raw(part: PartFormat, name: str, data_type: types.DataType) -> None:
    if _is_raw(data_type):
        return
    option = f"{part.part}.format"
    raise ColumnError(
        f"the column `{name}` has type {shortened_type(data_type.simpleString())}, but {option} "
        "is raw, which writes STRING or BINARY",
        hint=f"Cast it: .withColumn('{name}', col('{name}').cast('STRING')), or set {option}, for "
        "example to json.",
    )


def _is_raw(data_type: types.DataType) -> bool:
    return isinstance(data_type, (types.StringType, types.BinaryType))
