"""Derive Avro schemas from columns."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.formats.avro.avro_schema import check_full_name, qualified_name
from spark_kafka_sink.formats.columns.column_type import ColumnKind, ColumnType, unsupported_error
from spark_kafka_sink.formats.columns.name_rules import NameRules
from spark_kafka_sink.formats.encoder_spec import UnregisteredSchema

if TYPE_CHECKING:
    import pyarrow as pa

_NAME_RULES = NameRules(
    "Avro", re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII), "no digit at the start"
)
_DERIVED: dict[ColumnKind, Any] = {
    ColumnKind.NULL: "null",
    ColumnKind.BOOLEAN: "boolean",
    ColumnKind.INTEGER: ("int", "long"),
    ColumnKind.FLOAT: ("float", "double"),
    ColumnKind.TEXT: "string",
    ColumnKind.BYTES: "bytes",
    ColumnKind.DATE: {"type": "int", "logicalType": "date"},
    ColumnKind.TIME: {"type": "long", "logicalType": "time-micros"},
    ColumnKind.TIMESTAMP: {"type": "long", "logicalType": "timestamp-micros"},
    ColumnKind.LOCAL_TIMESTAMP: {"type": "long", "logicalType": "local-timestamp-micros"},
    ColumnKind.INTERVAL: {"type": "long", "spark.sql.catalyst.type": "interval day to second"},
}
"""Avro types by column kind. A pair contains the types for at most 32 bits and for 64 bits."""


def derive(type_: pa.StructType, name: str, namespace: str) -> UnregisteredSchema:
    """Derive the schema of a record; see `encoder_spec.derive_schema`.

    A nullable column becomes a union of null and its type, with null as default, so that a registry
    accepts added, dropped and reordered columns as backward compatible. The namespace of a nested
    record is derived from its path, as in Spark's `to_avro`.
    """
    full_name = _NAME_RULES.check_record(name, namespace)
    check_full_name(full_name)
    schema = _record_schema(ColumnType.of(type_, name=name), namespace)
    return UnregisteredSchema(
        json.dumps(schema, separators=(",", ":"), ensure_ascii=False), full_name
    )


def _record_schema(column: ColumnType, namespace: str) -> dict[str, Any]:
    spaced = {"namespace": namespace} if namespace else {}
    fields = [
        _field_schema(child, qualified_name(column.name, namespace)) for child in column.children
    ]
    return {"type": "record", "name": column.name, **spaced, "fields": fields}


def _field_schema(column: ColumnType, namespace: str) -> dict[str, Any]:
    _NAME_RULES.check_column(column)
    derived = {"name": column.name, "type": _nullable_type(column, namespace)}
    is_optional = isinstance(derived["type"], list) or derived["type"] == "null"
    return {**derived, "default": None} if is_optional else derived


def _nullable_type(column: ColumnType, namespace: str) -> Any:
    schema = _avro_type(column, namespace)
    return ["null", schema] if column.is_nullable and schema != "null" else schema


def _avro_type(column: ColumnType, namespace: str) -> Any:
    if column.kind is ColumnKind.STRUCT:
        return _record_schema(column, namespace)
    if column.kind is ColumnKind.LIST:
        return {"type": "array", "items": _nullable_type(column.children[0], namespace)}
    if column.kind is ColumnKind.MAP:
        key, value = column.children
        if key.kind is not ColumnKind.TEXT:
            raise unsupported_error(key, "the key of an Avro map")
        return {"type": "map", "values": _nullable_type(value, namespace)}
    if column.kind is ColumnKind.DECIMAL:
        return _decimal_type(column.type, f"{namespace}.{column.name}")
    if column.kind is ColumnKind.OTHER:
        raise unsupported_error(column, "Avro")
    types = _DERIVED[column.kind]
    return types[column.type.bit_width == 64] if isinstance(types, tuple) else types


def _decimal_type(type_: pa.Decimal128Type[Any, Any], namespace: str) -> dict[str, Any]:
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": namespace,
        "size": ((10**type_.precision).bit_length() + 8) // 8,
        "logicalType": "decimal",
        "precision": type_.precision,
        "scale": type_.scale,
    }
