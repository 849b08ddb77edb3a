"""Derive a Protobuf message from columns."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.formats.columns.column_type import ColumnKind, ColumnType, unsupported_error
from spark_kafka_sink.formats.columns.name_rules import NameRules
from spark_kafka_sink.formats.encoder_spec import UnregisteredSchema
from spark_kafka_sink.formats.protobuf import protobuf_descriptor as descriptor
from spark_kafka_sink.formats.protobuf.protobuf_numbers import (
    FieldType,
    Versions,
    assign_field_numbers,
)
from spark_kafka_sink.formats.protobuf.protobuf_schema import DURATION, TIMESTAMP
from spark_kafka_sink.formats.protobuf.protobuf_types import ProtoLabel, ProtoType
from spark_kafka_sink.formats.protobuf.protobuf_wire import sized_field, varint_field

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

_NAME_RULES = NameRules(
    "Protobuf", re.compile(r"_*[A-Za-z][A-Za-z0-9_]*", re.ASCII), "a letter before digits"
)
_FILES = {
    TIMESTAMP: "google/protobuf/timestamp.proto",
    DURATION: "google/protobuf/duration.proto",
}
_PROTO_TYPES = {
    ColumnKind.BOOLEAN: ProtoType.BOOL,
    ColumnKind.DECIMAL: ProtoType.STRING,
    ColumnKind.TEXT: ProtoType.STRING,
    ColumnKind.BYTES: ProtoType.BYTES,
    ColumnKind.DATE: ProtoType.INT32,
    ColumnKind.TIME: ProtoType.INT64,
    ColumnKind.LOCAL_TIMESTAMP: ProtoType.INT64,
}
"""Dates are encoded as days; timestamps without time zone and times of day as microseconds."""
_SIZED_PROTO_TYPES = {
    ColumnKind.INTEGER: (ProtoType.INT32, ProtoType.INT64),
    ColumnKind.FLOAT: (ProtoType.FLOAT, ProtoType.DOUBLE),
}
_WELL_KNOWN = {ColumnKind.TIMESTAMP: TIMESTAMP, ColumnKind.INTERVAL: DURATION}
_KEYS = (
    ColumnKind.INTEGER,
    ColumnKind.BOOLEAN,
    ColumnKind.TEXT,
    ColumnKind.DATE,
    ColumnKind.TIME,
    ColumnKind.LOCAL_TIMESTAMP,
)


def derive(
    type_: pa.StructType, name: str, namespace: str, versions: Iterable[str] = ()
) -> UnregisteredSchema:
    """Derive the descriptor of a file with one message; see `encoder_spec.derive_schema`.

    Fields are numbered in column order, except those that `versions` have. These are earlier
    versions of the schema, newest first. A nullable column is `optional`.
    """
    full_name = _NAME_RULES.check_record(name, namespace)
    message = _encode_message(
        ColumnType.of(type_), name, full_name, Versions.of(full_name, versions)
    )
    imports = [file for known, file in _FILES.items() if b"." + known.encode() in message]
    is_package = "google.protobuf.".startswith(f"{full_name}.")
    if imports and (is_package or full_name in _FILES):
        raise ConfigError(
            f"the message's name {full_name} is also used by {imports[0]}",
            hint="Set schema.name or schema.namespace to another name.",
        )
    path = f"{full_name.replace('.', '/')}.proto"
    file = sized_field(descriptor.FILE_NAME, path.encode())
    file += sized_field(descriptor.FILE_PACKAGE, namespace.encode()) if namespace else b""
    file += b"".join(sized_field(descriptor.FILE_IMPORT, name.encode()) for name in imports)
    file += sized_field(descriptor.FILE_MESSAGE, message)
    file += sized_field(descriptor.FILE_SYNTAX, b"proto3")
    return UnregisteredSchema(base64.b64encode(file).decode(), full_name, full_name)


def _encode_message(column: ColumnType, name: str, full_name: str, versions: Versions) -> bytes:
    fields, nested = b"", b""
    choices: list[bytes] = []
    """The oneof that Protobuf requires for each optional field."""
    used = _field_names(column)
    """Names in the message's scope."""
    numbered = assign_field_numbers(
        {child.name: _field_type(child) for child in column.children}, versions
    )
    for child in sorted(column.children, key=lambda child: numbered.numbers[child.name]):
        _NAME_RULES.check_column(child)
        inner = versions.of_field(child.name) if child.name in numbered.kept_fields else Versions()
        type_, below = _declare_field(
            child, full_name, _unused_message_name(child.name, used), inner
        )
        field = _named_field(child.name, numbered.numbers[child.name], type_)
        if child.is_nullable and child.kind in (*_PROTO_TYPES, *_SIZED_PROTO_TYPES):
            field += varint_field(descriptor.FIELD_ONEOF_INDEX, len(choices))
            field += varint_field(descriptor.FIELD_PROTO3_OPTIONAL, 1)
            oneof = sized_field(descriptor.ONEOF_NAME, _oneof_name(child.name, used).encode())
            choices.append(sized_field(descriptor.MESSAGE_ONEOF, oneof))
        fields += sized_field(descriptor.MESSAGE_FIELD, field)
        nested += below
    ranges = (
        varint_field(descriptor.RANGE_START, start) + varint_field(descriptor.RANGE_END, end)
        for start, end in numbered.reserved
    )
    reserved = [sized_field(descriptor.MESSAGE_RESERVED_RANGE, range_) for range_ in ranges]
    reserved += [
        sized_field(descriptor.MESSAGE_RESERVED_NAME, name.encode())
        for name in numbered.reserved_names
    ]
    start = sized_field(descriptor.MESSAGE_NAME, name.encode())
    return b"".join((start, fields, nested, *choices, *reserved))


def _named_field(name: str, number: int, type_: bytes) -> bytes:
    """Return a field's declaration; `type_` is the part that `_declare_field` returns."""
    name_bytes = sized_field(descriptor.FIELD_NAME, name.encode())
    return name_bytes + varint_field(descriptor.FIELD_NUMBER, number) + type_


def _field_type(column: ColumnType) -> FieldType:
    """Return the type of a column's field."""
    if column.kind is ColumnKind.LIST:
        return _field_type(column.children[0])._replace(is_repeated=True)
    if column.kind is ColumnKind.MAP:
        return FieldType(ProtoType.MESSAGE, True, "", tuple(map(_field_type, column.children)))
    return FieldType(_proto_type(column), False, _WELL_KNOWN.get(column.kind, ""))


def _proto_type(column: ColumnType) -> ProtoType:
    if column.kind in _SIZED_PROTO_TYPES:
        return _SIZED_PROTO_TYPES[column.kind][column.type.bit_width == 64]
    return _PROTO_TYPES.get(column.kind, ProtoType.MESSAGE)


def _field_names(column: ColumnType) -> set[str]:
    """Return the names of a struct's fields and of the messages of map entries.

    Raises:
        ColumnError: two of them are equal, or the names of two fields in JSON, as protoc forbids.
    """
    names: dict[str, ColumnType] = {child.name: child for child in column.children}
    json_names: dict[str, ColumnType] = {}
    for child in column.children:
        camel_case = _camel_case(child.name)
        first = child.name[:1]
        json_name = camel_case if first == "_" else first + camel_case[1:]
        same_named = [json_names.setdefault(json_name, child)]
        if child.kind is ColumnKind.MAP:
            same_named.append(names.setdefault(f"{camel_case}Entry", child))
        for other in same_named:
            if other is not child:
                raise ColumnError(
                    f"columns `{other.path}` and `{child.path}` have the same name in Protobuf",
                    hint="Rename one of them: protoc adds Entry to the name of a map, and ignores "
                    "underscores.",
                )
    return {*names}


def _camel_case(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _oneof_name(field: str, used: set[str]) -> str:
    """Return the name that protoc gives the oneof of an optional field."""
    name = f"_{field}"
    while name in used:
        name = f"X{name}"
    return name


def _unused_message_name(column: str, used: set[str]) -> str:
    """Return an unused name for a nested message."""
    name = _camel_case(column)
    chosen, number = name, 2
    while chosen in used:
        chosen, number = f"{name}{number}", number + 1
    used.add(chosen)
    return chosen


def _declare_field(
    column: ColumnType, owner: str, name: str, versions: Versions
) -> tuple[bytes, bytes]:
    """Return a field's declaration without its name and number, and its nested messages."""
    if column.kind is ColumnKind.MAP:
        return _declare_map(column, owner, name, versions)
    is_list = column.kind is ColumnKind.LIST
    return _declare_single(
        column.children[0] if is_list else column,
        owner,
        name,
        versions,
        ProtoLabel.REPEATED if is_list else ProtoLabel.OPTIONAL,
    )


def _declare_single(
    column: ColumnType, owner: str, name: str, versions: Versions, label: int = ProtoLabel.OPTIONAL
) -> tuple[bytes, bytes]:
    """Return the same as `_declare_field` for a column that is neither a list nor a map."""
    if column.kind is ColumnKind.STRUCT:
        full_name = f"{owner}.{name}"
        message = _encode_message(column, name, full_name, versions)
        nested = sized_field(descriptor.MESSAGE_NESTED, message)
        return _encode_type(label, ProtoType.MESSAGE, full_name), nested
    if column.kind in (ColumnKind.LIST, ColumnKind.MAP):
        hint = "Put it into a struct with one field."
        raise unsupported_error(column, "an item or value in Protobuf", hint)
    if column.kind in _WELL_KNOWN:
        return _encode_type(label, ProtoType.MESSAGE, _WELL_KNOWN[column.kind]), b""
    if column.kind not in (*_PROTO_TYPES, *_SIZED_PROTO_TYPES):
        raise unsupported_error(column, "Protobuf")
    return _encode_type(label, _proto_type(column)), b""


def _encode_type(label: int, kind: ProtoType, name: str = "") -> bytes:
    type_name = sized_field(descriptor.FIELD_TYPE_NAME, f".{name}".encode()) if name else b""
    labelled = varint_field(descriptor.FIELD_LABEL, label)
    return labelled + varint_field(descriptor.FIELD_TYPE, kind) + type_name


def _declare_map(
    column: ColumnType, owner: str, name: str, versions: Versions
) -> tuple[bytes, bytes]:
    """Return the declaration of a map, whose entries are nested messages."""
    key, value = column.children
    if key.kind not in _KEYS:
        raise unsupported_error(key, "the key of a Protobuf map")
    value_type, nested = _declare_single(value, owner, name, versions)
    entry_name = f"{_camel_case(column.name)}Entry"
    entry = sized_field(descriptor.MESSAGE_NAME, entry_name.encode())
    types = (("key", _encode_type(ProtoLabel.OPTIONAL, _proto_type(key))), ("value", value_type))
    for number, (part, type_) in enumerate(types, 1):
        entry += sized_field(descriptor.MESSAGE_FIELD, _named_field(part, number, type_))
    options = varint_field(descriptor.MESSAGE_OPTIONS_MAP_ENTRY, 1)
    entry += sized_field(descriptor.MESSAGE_OPTIONS, options)
    declared = _encode_type(ProtoLabel.REPEATED, ProtoType.MESSAGE, f"{owner}.{entry_name}")
    return declared, sized_field(descriptor.MESSAGE_NESTED, entry) + nested
