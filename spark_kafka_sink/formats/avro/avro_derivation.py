"""Derive Avro schemas from columns."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from spark_kafka_sink.formats.avro.avro_schema import check_full_name, full_name
from spark_kafka_sink.formats.columns.column import Column, unsupported
from spark_kafka_sink.formats.columns.name_rules import NameRules
from spark_kafka_sink.formats.columns.shape import Shape
from spark_kafka_sink.formats.encoder_spec import SchemaSource

if TYPE_CHECKING:
    import pyarrow as pa

_NAMES: Final = NameRules(
    "Avro", re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII), "no digit at the start"
)
_DERIVED: Final[dict[Shape, Any]] = {
    Shape.NULL: "null",
    Shape.BOOLEAN: "boolean",
    Shape.INTEGER: ("int", "long"),
    Shape.FLOAT: ("float", "double"),
    Shape.TEXT: "string",
    Shape.BYTES: "bytes",
    Shape.DATE: {"type": "int", "logicalType": "date"},
    Shape.TIME: {"type": "long", "logicalType": "time-micros"},
    Shape.TIMESTAMP: {"type": "long", "logicalType": "timestamp-micros"},
    Shape.LOCAL_TIMESTAMP: {"type": "long", "logicalType": "local-timestamp-micros"},
    Shape.INTERVAL: {"type": "long", "spark.sql.catalyst.type": "interval day to second"},
}
"""Avro types by shape. A pair contains the types for at most 32 bits and for 64 bits."""


def derive(type_: pa.StructType, name: str, namespace: str) -> SchemaSource:
    """Derive the schema of a record; see `encoder_spec.derive_schema`.

    A nullable column becomes a union of null and its type, with null as default, so that a registry
    accepts added, dropped and reordered columns as backward compatible. The namespace of a nested
    record is derived from its path, as in Spark's `to_avro`.
    """
    full_name = _NAMES.check_record(name, namespace)
    check_full_name(full_name)
    schema = _record(Column.of(type_, name=name), namespace)
    return SchemaSource(json.dumps(schema, separators=(",", ":"), ensure_ascii=False), full_name)


def _record(column: Column, namespace: str) -> dict[str, Any]:
    spaced = {"namespace": namespace} if namespace else {}
    fields = [_field(part, full_name(column.name, namespace)) for part in column.parts]
    return {"type": "record", "name": column.name, **spaced, "fields": fields}


def _field(column: Column, namespace: str) -> dict[str, Any]:
    _NAMES.check(column)
    derived = {"name": column.name, "type": _nullable(column, namespace)}
    is_optional = isinstance(derived["type"], list) or derived["type"] == "null"
    return {**derived, "default": None} if is_optional else derived


def _nullable(column: Column, namespace: str) -> Any:
    schema = _type(column, namespace)
    return ["null", schema] if column.is_nullable and schema != "null" else schema


def _type(column: Column, namespace: str) -> Any:
    if column.shape is Shape.STRUCT:
        return _record(column, namespace)
    if column.shape is Shape.LIST:
        return {"type": "array", "items": _nullable(column.parts[0], namespace)}
    if column.shape is Shape.MAP:
        key, value = column.parts
        if key.shape is not Shape.TEXT:
            raise unsupported(key, "the key of an Avro map")
        return {"type": "map", "values": _nullable(value, namespace)}
    if column.shape is Shape.DECIMAL:
        return _decimal(column.type, f"{namespace}.{column.name}")
    if column.shape is Shape.OTHER:
        raise unsupported(column, "Avro")
    types = _DERIVED[column.shape]
    return types[column.type.bit_width == 64] if isinstance(types, tuple) else types


def _decimal(type_: pa.Decimal128Type[Any, Any], namespace: str) -> dict[str, Any]:
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": namespace,
        "size": ((10**type_.precision).bit_length() + 8) // 8,
        "logicalType": "decimal",
        "precision": type_.precision,
        "scale": type_.scale,
    }
