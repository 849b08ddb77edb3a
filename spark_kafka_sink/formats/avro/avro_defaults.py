"""Encode the defaults of Avro fields that have no column.

Source: the Avro 1.12 specification, "Complex Types, Records".
"""

from __future__ import annotations

import json
import re
import struct
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.formats.avro.avro_schema import DAYS, RECORDS, UUID_TEXT, invalid_schema_error
from spark_kafka_sink.kafka.records.varint import varint

if TYPE_CHECKING:
    from spark_kafka_sink.formats.avro.avro_schema import AvroSchema

_MISFITS = (KeyError, TypeError, ValueError, OverflowError, struct.error, AttributeError)
"""Exceptions that encoding raises for a default that does not fit its type."""
_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "array": (list,),
    "map": (dict,),
    **dict.fromkeys(RECORDS, (dict,)),
}
"""Types of defaults in JSON, by the type's name; for other types, a string."""
_NON_FINITE = ("NaN", "Infinity", "-Infinity")
"""Defaults of floating-point types as Java prints them, because JSON has no such numbers."""
_STRUCTS = {"boolean": "<?", "float": "<f", "double": "<d"}


def default_bytes(schema: AvroSchema, field: dict[str, Any]) -> bytes:
    """Return the encoding of the default of a field with this type.

    Raises:
        ConfigError: the default does not fit its type.
    """
    try:
        return _encode_default(schema, field["default"])
    except (*_MISFITS, RecursionError):  # Defaults of a recursive record can be infinite.
        default = f"the default {json.dumps(field['default'])} of `{field['name']}`"
        raise invalid_schema_error(f"{default} does not fit the type {schema.label}") from None


def _encode_default(schema: AvroSchema, value: Any) -> bytes:
    if schema.kind == "union":
        return _encode_union(schema, value)
    if schema.kind in ("float", "double") and value in _NON_FINITE:
        value = float(value)
    if type(value) not in _JSON_TYPES.get(schema.kind, (str,)):
        raise TypeError
    if schema.kind in RECORDS:
        return b"".join(
            _encode_default(type_, value[name] if name in value else field["default"])
            for name, type_, field in schema.fields
        )
    if schema.kind in ("array", "map"):
        type_ = schema.element
        if schema.kind == "array":
            items = [_encode_default(type_, item) for item in value]
        else:
            items = [
                _encode_string(name.encode()) + _encode_default(type_, item)
                for name, item in value.items()
            ]
        return b"".join([varint(len(items)), *items, b"\0"] if items else [b"\0"])
    return _encode_scalar(schema, value)


def _encode_union(schema: AvroSchema, value: Any) -> bytes:
    """Return the encoding of a value with the first union branch that fits."""
    for index, branch in enumerate(schema.branches):
        try:
            return varint(index) + _encode_default(branch, value)
        except _MISFITS:
            continue
    raise ValueError


def _encode_string(value: bytes) -> bytes:
    return varint(len(value)) + value


def _encode_scalar(schema: AvroSchema, value: Any) -> bytes:
    kind = schema.kind
    if not _has_meaning(schema, value):
        raise ValueError
    if kind in _STRUCTS:
        return struct.pack(_STRUCTS[kind], value)
    if kind in ("int", "long"):
        struct.pack("<i" if kind == "int" else "<q", value)  # This checks the range.
        return varint(value)
    if kind == "enum":
        return varint(schema.json["symbols"].index(value))
    if kind == "fixed" and len(value) != schema.json["size"]:
        raise ValueError
    if kind == "fixed":
        return bytes(value.encode("latin-1"))
    if kind == "bytes":
        return _encode_string(value.encode("latin-1"))
    return _encode_string(value.encode()) if kind == "string" else b""


def _has_meaning(schema: AvroSchema, value: Any) -> bool:
    """Return True if readers can convert a value to its logical type."""
    logical = schema.logical or ""
    if logical == "uuid" and schema.kind == "string":
        return re.fullmatch(UUID_TEXT, value) is not None
    if logical in DAYS:
        return bool(0 <= value < DAYS[logical])
    return not logical.endswith("decimal") or bool(value)
