"""Parse Protobuf descriptors, and derive them from columns.

Descriptors are messages of google/protobuf/descriptor.proto. This module reads and writes the few
fields that are needed, so that workers do not need Google's runtime.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.formats.fields import Column, Names, Shape, unsupported
from spark_kafka_sink.formats.plan import Source
from spark_kafka_sink.formats.writer import unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    _Parsed: TypeAlias = dict[int, list[Any]]
    """Values by field number. Each value is an int or bytes."""


class Kind(IntEnum):
    """``FieldDescriptorProto.Type``."""

    DOUBLE = 1
    FLOAT = 2
    INT64 = 3
    UINT64 = 4
    INT32 = 5
    FIXED64 = 6
    FIXED32 = 7
    BOOL = 8
    STRING = 9
    GROUP = 10
    MESSAGE = 11
    BYTES = 12
    UINT32 = 13
    ENUM = 14
    SFIXED32 = 15
    SFIXED64 = 16
    SINT32 = 17
    SINT64 = 18


_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3
"""``FieldDescriptorProto.Label``."""
TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = {
    f"google.protobuf.{kind.name.capitalize().replace('Ui', 'UI')}Value": kind
    for kind in (Kind.DOUBLE, Kind.FLOAT, Kind.INT64, Kind.UINT64, Kind.INT32, Kind.UINT32)
    + (Kind.BOOL, Kind.STRING, Kind.BYTES)
}
"""Wrapper messages, which have one field of a plain type."""


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field of a message; `type_name` is the full name of its message or enum."""

    name: str
    number: int
    kind: Kind
    type_name: str
    is_repeated: bool
    is_required: bool
    is_packed: bool


@dataclass(frozen=True, slots=True)
class ProtoMessage:
    """A message. An entry of a map is a message with the fields `key` and `value`."""

    name: str
    fields: tuple[ProtoField, ...]
    is_map_entry: bool


@dataclass(frozen=True, slots=True)
class ProtoSchema:
    """The messages and enums of a file and of its imports, by full name.

    `main` contains the indexes of the file's own messages, as used in the registry's framing.
    """

    messages: dict[str, ProtoMessage]
    enums: dict[str, dict[str, int]]
    main: dict[str, tuple[int, ...]]

    @classmethod
    def parse(cls, text: str) -> ProtoSchema:
        """Parse a FileDescriptorProto or FileDescriptorSet in base64.

        The last file of a set is the main file, and the other files are its imports.

        Raises:
            ConfigError: the text is not a descriptor.
        """
        schema = cls({}, {}, {})
        files = [file for _, file in _files(text)]
        for file in files:
            syntax = _text(file, 12)
            package = _text(file, 2)
            for number, message in enumerate(_parts(file, 4)):
                indexes = (number,) if file is files[-1] else None
                _add(schema, message, package, indexes, packs=syntax not in ("", "proto2"))
            _add_enums(schema, file, 5, package)
        return schema

    def message(self, name: str | None) -> ProtoMessage:
        """Return the message with this full name, or the first message if the name is None.

        Raises:
            ConfigError: there is no such message.
        """
        wanted = name or next(iter(self.main), None)
        if wanted not in self.main:
            raise ConfigError(
                f"the Protobuf schema has no message {wanted!r}",
                hint=f"it has {', '.join(self.main) or 'no messages'}",
            )
        return self.messages[wanted]


def _add(
    schema: ProtoSchema,
    message: _Parsed,
    package: str,
    indexes: tuple[int, ...] | None,
    *,
    packs: bool,
) -> None:
    """Add a message and its nested messages. `indexes` is None for a message of an import."""
    name = _within(package, _text(message, 1))
    if indexes is not None:
        schema.main[name] = indexes
    fields = tuple(_field(each, packs=packs) for each in _parts(message, 2))
    options = _parts(message, 7)
    is_entry = bool(options and options[0].get(7, [0])[-1])
    schema.messages[name] = ProtoMessage(name, fields, is_entry)
    for number, nested in enumerate(_parts(message, 3)):
        below = None if indexes is None else (*indexes, number)
        _add(schema, nested, name, below, packs=packs)
    _add_enums(schema, message, 4, name)


def _add_enums(schema: ProtoSchema, owner: _Parsed, field: int, package: str) -> None:
    for enum in _parts(owner, field):
        values = _parts(enum, 2)
        numbers = {_text(each, 1): _signed(each.get(2, [0])[-1]) for each in values}
        schema.enums[_within(package, _text(enum, 1))] = numbers


def message_indexes(schema: str, message: str | None) -> tuple[int, ...]:
    """Return the position of a message in its file, followed by positions within outer messages.

    Raises:
        ConfigError: the schema is not a descriptor, or does not contain the message.
    """
    parsed = ProtoSchema.parse(schema)
    return parsed.main[parsed.message(message).name]


class ProtoFile(NamedTuple):
    """One file of a schema: its name, the files that it imports, and its descriptor in base64."""

    name: str
    imports: tuple[str, ...]
    text: str


def files_of(text: str) -> list[ProtoFile]:
    """Return the files of a FileDescriptorProto or FileDescriptorSet in base64, main file last.

    Raises:
        ConfigError: the text is not a descriptor.
    """
    return [
        ProtoFile(
            name=_text(parsed, 1),
            imports=tuple(bytes(each).decode() for each in parsed.get(3, [])),
            text=base64.b64encode(data).decode(),
        )
        for data, parsed in _files(text)
    ]


def set_of(texts: Sequence[str]) -> str:
    """Return a FileDescriptorSet of files in base64. The main file comes last."""
    return base64.b64encode(b"".join(_bytes(1, base64.b64decode(each)) for each in texts)).decode()


def framed_indexes(schema: str, message: str | None) -> bytes:
    """Return the message indexes in the registry's framing: a single byte for the first message.

    Raises:
        ConfigError: see `message_indexes`.
    """
    indexes = message_indexes(schema, message)
    if indexes == (0,):
        return b"\0"
    return b"".join(unsigned_varint(2 * number) for number in (len(indexes), *indexes))


def read_indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the message indexes at the start of `data`, and the remaining bytes."""
    count, position = _varint(data, 0)
    indexes: list[int] = []
    for _ in range(count >> 1):
        index, position = _varint(data, position)
        indexes.append(index >> 1)
    return tuple(indexes) or (0,), data[position:]


def _within(package: str, name: str) -> str:
    return f"{package}.{name}" if package else name


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _field(parsed: _Parsed, *, packs: bool) -> ProtoField:
    options = _parts(parsed, 8)
    chosen = options[0].get(2) if options else None
    label = parsed.get(4, [_OPTIONAL])[-1]
    return ProtoField(
        name=_text(parsed, 1),
        number=parsed[3][-1],
        kind=Kind(parsed[5][-1]),
        type_name=_text(parsed, 6).removeprefix("."),
        is_repeated=label == _REPEATED,
        is_required=label == _REQUIRED,
        is_packed=bool(chosen[-1]) if chosen else packs,
    )


def _files(text: str) -> list[tuple[bytes, _Parsed]]:
    """Return the descriptor of each file, and its parsed fields."""
    try:
        data = base64.b64decode(text, validate=True)
        parsed = _parse(data)
        if parsed.keys() == {1}:  # A file contains more than its name.
            return [(each, _parse(each)) for each in parsed[1]]
        _text(parsed, 1)
    except (binascii.Error, ValueError, IndexError, AttributeError):
        raise ConfigError(
            "the Protobuf schema is not a descriptor in base64",
            hint="create one with `protoc --include_imports --descriptor_set_out=FILE`",
        ) from None
    return [(data, parsed)]


def _text(parsed: _Parsed, field: int) -> str:
    return bytes(parsed[field][-1]).decode() if field in parsed else ""


def _parts(parsed: _Parsed, field: int) -> list[_Parsed]:
    return [_parse(each) for each in parsed.get(field, [])]


def _parse(data: bytes) -> _Parsed:
    """Return the values of a message by field number."""
    parsed: _Parsed = {}
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        if tag & 7 == 0:
            value, position = _varint(data, position)
            parsed.setdefault(tag >> 3, []).append(value)
            continue
        fixed = {1: 8, 5: 4}.get(tag & 7)
        size, position = (fixed, position) if fixed else _varint(data, position)
        if tag & 7 not in (1, 2, 5) or position + size > len(data):
            raise ValueError
        parsed.setdefault(tag >> 3, []).append(data[position : position + size])
        position += size
    return parsed


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while data[position] & 0x80:
        value |= (data[position] & 0x7F) << shift
        shift, position = shift + 7, position + 1
    return value | data[position] << shift, position + 1


def tag(number: int, wire_type: int) -> bytes:
    """Return the bytes that precede a field's value."""
    return unsigned_varint(number << 3 | wire_type)


_NAMES: Final = Names(
    "Protobuf", re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII), "a letter at the start"
)
_FILES: Final = {
    TIMESTAMP: "google/protobuf/timestamp.proto",
    DURATION: "google/protobuf/duration.proto",
}
_KINDS: Final = {
    Shape.BOOLEAN: Kind.BOOL,
    Shape.DECIMAL: Kind.STRING,
    Shape.TEXT: Kind.STRING,
    Shape.BYTES: Kind.BYTES,
    Shape.DATE: Kind.INT32,
    Shape.TIME: Kind.INT64,
    Shape.LOCAL_TIMESTAMP: Kind.INT64,
}
"""Dates are encoded as days; timestamps without time zone and times of day as microseconds."""
_SIZED_KINDS: Final = {
    Shape.INTEGER: (Kind.INT32, Kind.INT64),
    Shape.FLOAT: (Kind.FLOAT, Kind.DOUBLE),
}
_WELL_KNOWN: Final = {Shape.TIMESTAMP: TIMESTAMP, Shape.INTERVAL: DURATION}
_KEYS: Final = (
    Shape.INTEGER,
    Shape.BOOLEAN,
    Shape.TEXT,
    Shape.DATE,
    Shape.TIME,
    Shape.LOCAL_TIMESTAMP,
)


def derive(type_: pa.StructType, name: str, namespace: str) -> Source:
    """Derive the descriptor of a file with one message; see `plan.derive_schema`.

    Fields are numbered in column order. A nullable column is `optional`.
    """
    full_name = _NAMES.check_record(name, namespace)
    message = _message(Column.of(type_), name, full_name)
    imports = [file for known, file in _FILES.items() if b"." + known.encode() in message]
    file = _bytes(1, f"{full_name.replace('.', '/')}.proto".encode())
    file += _bytes(2, namespace.encode()) if namespace else b""
    file += b"".join(_bytes(3, each.encode()) for each in imports)
    file += _bytes(4, message) + _bytes(12, b"proto3")
    return Source(base64.b64encode(file).decode(), full_name, full_name)


def _bytes(field: int, value: bytes) -> bytes:
    return tag(field, 2) + unsigned_varint(len(value)) + value


def _number(field: int, value: int) -> bytes:
    return tag(field, 0) + unsigned_varint(value)


def _message(column: Column, name: str, full_name: str) -> bytes:
    fields, nested = b"", b""
    choices: list[bytes] = []
    """The oneof that Protobuf requires for each optional field."""
    used: set[str] = set()
    for number, part in enumerate(column.parts, 1):
        _NAMES.check(part)
        type_, below = _declared(part, full_name, _unused(part.name, used))
        field = _bytes(1, part.name.encode()) + _number(3, number) + type_
        if part.is_nullable and part.shape in (*_KINDS, *_SIZED_KINDS):
            field += _number(9, len(choices)) + _number(17, 1)
            choices.append(_bytes(8, _bytes(1, f"_{part.name}".encode())))
        fields += _bytes(2, field)
        nested += below
    return _bytes(1, name.encode()) + fields + nested + b"".join(choices)


def _unused(column: str, used: set[str]) -> str:
    """Return an unused name for a nested message; the name of its map entry is also unused."""
    name = "".join(part[:1].upper() + part[1:] for part in column.split("_"))
    chosen, number = name, 2
    while {chosen, f"{chosen}Entry"} & used:
        chosen, number = f"{name}{number}", number + 1
    used |= {chosen, f"{chosen}Entry"}
    return chosen


def _declared(column: Column, owner: str, name: str) -> tuple[bytes, bytes]:
    """Return a field's declaration without its name and number, and its nested messages."""
    if column.shape is Shape.MAP:
        return _map(column, owner, name)
    is_list = column.shape is Shape.LIST
    return _single(
        column.parts[0] if is_list else column, owner, name, _REPEATED if is_list else _OPTIONAL
    )


def _single(column: Column, owner: str, name: str, label: int = _OPTIONAL) -> tuple[bytes, bytes]:
    """Return the same as `_declared` for a column that is neither a list nor a map."""
    if column.shape is Shape.STRUCT:
        full_name = f"{owner}.{name}"
        nested = _bytes(3, _message(column, name, full_name))
        return _type(label, Kind.MESSAGE, full_name), nested
    if column.shape in (Shape.LIST, Shape.MAP):
        hint = "put it into a struct with one field"
        raise unsupported(column, "an item or value in Protobuf", hint)
    if column.shape in _WELL_KNOWN:
        return _type(label, Kind.MESSAGE, _WELL_KNOWN[column.shape]), b""
    if column.shape in _SIZED_KINDS:
        return _type(label, _SIZED_KINDS[column.shape][column.type.bit_width == 64]), b""
    if column.shape not in _KINDS:
        raise unsupported(column, "Protobuf")
    return _type(label, _KINDS[column.shape]), b""


def _type(label: int, kind: Kind, name: str = "") -> bytes:
    named = _bytes(6, f".{name}".encode()) if name else b""
    return _number(4, label) + _number(5, kind) + named


def _map(column: Column, owner: str, name: str) -> tuple[bytes, bytes]:
    """Return the declaration of a map, whose entries are nested messages."""
    key, value = column.parts
    if key.shape not in _KEYS:
        raise unsupported(key, "the key of a Protobuf map")
    value_type, nested = _single(value, owner, name)
    entry = _bytes(1, f"{name}Entry".encode())
    types = (("key", _single(key, owner, name)[0]), ("value", value_type))
    for number, (part, type_) in enumerate(types, 1):
        entry += _bytes(2, _bytes(1, part.encode()) + _number(3, number) + type_)
    entry += _bytes(7, _number(7, 1))
    declared = _type(_REPEATED, Kind.MESSAGE, f"{owner}.{name}Entry")
    return declared, _bytes(3, entry) + nested
