"""Derive JSON Schemas from columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.formats.columns.column_type import ColumnKind, ColumnType
from spark_kafka_sink.formats.encoder_spec import UnregisteredSchema
from spark_kafka_sink.formats.json.json_encoder import check_column

if TYPE_CHECKING:
    import pyarrow as pa

_SCHEMA_VERSION = "http://json-schema.org/draft-07/schema#"
_SCHEMAS: dict[ColumnKind, dict[str, Any]] = {
    ColumnKind.NULL: {"type": "null"},
    ColumnKind.BOOLEAN: {"type": "boolean"},
    ColumnKind.INTEGER: {"type": "integer"},
    ColumnKind.FLOAT: {"oneOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]},
    ColumnKind.DECIMAL: {"type": "number"},
    ColumnKind.BYTES: {"type": "string", "contentEncoding": "base64"},
    ColumnKind.DATE: {"type": "string", "format": "date"},
    ColumnKind.TIMESTAMP: {"type": "string", "format": "date-time"},
}
"""JSON Schemas of plain values. All other plain values are strings."""


def derive(type_: pa.StructType, name: str, namespace: str) -> UnregisteredSchema:
    """Derive a JSON Schema; see `encoder_spec.derive_schema`.

    Objects are closed (`additionalProperties` is false), so that a registry accepts a new optional
    field as backward compatible.
    """
    column = ColumnType.of(type_)
    check_column(column)
    full_name = f"{namespace}.{name}" if namespace else name
    schema = {"$schema": _SCHEMA_VERSION, "title": full_name, **_schema_of(column)}
    return UnregisteredSchema(json.dumps(schema, separators=(",", ":")), full_name)


def _schema_of(column: ColumnType) -> dict[str, Any]:
    if column.kind is ColumnKind.LIST:
        return {"type": "array", "items": _field_schema(column.children[0])}
    if column.kind is ColumnKind.MAP:
        return {"type": "object", "additionalProperties": _field_schema(column.children[1])}
    if column.kind is not ColumnKind.STRUCT:
        return _SCHEMAS.get(column.kind, {"type": "string"})
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {child.name: _field_schema(child) for child in column.children},
        "additionalProperties": False,
    }
    required = [child.name for child in column.children if not child.is_nullable]
    return {**schema, "required": required} if required else schema


def _field_schema(column: ColumnType) -> dict[str, Any]:
    schema = _schema_of(column)
    if not column.is_nullable or column.kind is ColumnKind.NULL:
        return schema
    return {"oneOf": [{"type": "null"}, *schema.get("oneOf", [schema])]}
