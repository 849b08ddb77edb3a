"""Read and write Kafka messages, with a check of every length.

The message classes and the writer come from kio. This module contains the reader, because bytes
from a socket must not exhaust memory or raise any error other than ProtocolError. Every length is
compared with the remaining bytes before anything is sliced or allocated. Unknown tags are skipped
(KIP-482), and unknown error codes remain numbers. See design.md: untrusted-bytes.

Each reader takes (data, offset) and returns (value, next offset). A read past the end raises
IndexError or struct.error, which `decode` converts to ProtocolError.

Each message class is compiled once into a few closures. Adjacent fields of fixed size, which make
up most of a Metadata or Produce response, are read by one `struct` call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from io import BytesIO
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast, get_args, get_origin
from uuid import UUID

from kio.serial import entity_writer

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.error_codes import as_error_code

if TYPE_CHECKING:
    from kio.static.protocol import Entity


Reader: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]

_MAX_VARINT_BYTES = 5
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UUID_ZERO = bytes(16)
_MAX_MS = timedelta.max // timedelta(milliseconds=1)
_MIN_MS = timedelta.min // timedelta(milliseconds=1)
_ENTITY = "entity"
_VARIABLE = ("string", "bytes", "records", _ENTITY)
_ZEROS: dict[str, object] = {
    "string": "",
    "bytes": b"",
    "bool": False,
    "float64": 0.0,
    "error_code": as_error_code(0),
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": _EPOCH,
}
E = TypeVar("E", bound="Entity")
_ReadStep: TypeAlias = Callable[[memoryview, int, list[Any]], int]
"""Function that reads fields at an offset, appends their values to the list, and returns the next
offset.
"""
SizedReader: TypeAlias = tuple[Reader, int]
"""A reader, and the minimum number of bytes that it consumes."""
_compiled_readers: dict[type[Any], SizedReader] = {}
BAD_BYTES = (struct.error, IndexError, OverflowError, UnicodeDecodeError)


def read_uvarint(data: memoryview, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes and 32 bits."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for position in range(1, _MAX_VARINT_BYTES):
        byte = data[at + position]
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            if value >> 32:
                break
            return value, at + position + 1
    raise ProtocolError("a varint does not fit into 32 bits")


def write_uvarint(value: int) -> bytes:
    """Encode a number as an unsigned varint."""
    if value <= 0x7F:
        return value.to_bytes(1, "big")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def compact_length(data: memoryview, at: int) -> tuple[int, int]:
    """Read a length in the flexible format; -1 means null."""
    length, at = read_uvarint(data, at)
    return length - 1, at


def string_length(data: memoryview, at: int) -> tuple[int, int]:
    """Read a string's length in the format before KIP-482; a negative length means null."""
    return _INT16.unpack_from(data, at)[0], at + 2


def long_length(data: memoryview, at: int) -> tuple[int, int]:
    """Read the length of bytes or an array in the format before KIP-482. Negative means null."""
    return _INT32.unpack_from(data, at)[0], at + 4


def _decode_utf8(data: memoryview, start: int, end: int) -> str:
    return str(data[start:end], "utf-8")


def _slice(data: memoryview, start: int, end: int) -> memoryview:
    return data[start:end]


def sized_reader(length_of: Reader, *, text: bool, nullable: bool) -> Reader:
    """Return a reader for strings (if `text` is True) or for bytes, which are not copied."""
    convert = _decode_utf8 if text else _slice

    def read(data: memoryview, at: int) -> tuple[object, int]:
        length, start = length_of(data, at)
        if length < 0:
            if nullable:
                return None, start
            raise ProtocolError("a non-nullable field is null")
        end = start + length
        if end > len(data):
            raise ProtocolError(f"invalid length: {length}, {len(data) - start} bytes left")
        return convert(data, start, end), end

    return read


@lru_cache
def milliseconds(value: int) -> timedelta:
    """Convert milliseconds to a duration.

    Values outside the range of timedelta (2.7 million years) are clamped: Java uses Long.MAX_VALUE
    for an unlimited duration.
    """
    return timedelta(milliseconds=max(_MIN_MS, min(value, _MAX_MS)))


class FarTime(NamedTuple):
    """A time outside the years 1 to 9999, which datetime cannot represent."""

    milliseconds: int

    def timestamp(self) -> Fraction:
        """Return the exact seconds since 1970. kio's writers call it like `datetime.timestamp`."""
        return Fraction(self.milliseconds, 1000)


def timestamp(value: int) -> datetime | FarTime:
    """Convert milliseconds since 1970 to a time in UTC.

    -1 is valid even if the schema does not allow null, because Kafka writes -1 for a transaction
    that has not started.
    """
    try:
        return _EPOCH + timedelta(milliseconds=value)
    except OverflowError:
        return FarTime(value)


def optional_timestamp(value: int) -> datetime | FarTime | None:
    """Convert like `timestamp`, but return None for -1, which means null in Kafka."""
    return None if value == -1 else timestamp(value)


def uuid(value: bytes) -> UUID | None:
    """Convert 16 bytes to a UUID, or None for Kafka's zero id."""
    return None if value == _UUID_ZERO else UUID(bytes=value)


_FIXED: dict[str, tuple[str, Callable[[Any], Any] | None]] = {
    "int8": ("b", None),
    "int16": ("h", None),
    "int32": ("i", None),
    "int64": ("q", None),
    "uint8": ("B", None),
    "uint16": ("H", None),
    "uint32": ("I", None),
    "uint64": ("Q", None),
    "float64": ("d", None),
    "bool": ("?", None),
    "uuid": ("16s", uuid),
    "error_code": ("h", as_error_code),
    "timedelta_i32": ("i", milliseconds),
    "timedelta_i64": ("q", milliseconds),
    "datetime_i64": ("q", timestamp),
    "datetime_i64?": ("q", optional_timestamp),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WireField:
    """The wire type of a field, and whether the field is an array, nullable or tagged."""

    name: str
    kind: str
    """The kafka_type of kio, "datetime_i64?" if -1 means None, or "entity"."""
    entity: type[Any] | None
    is_array: bool
    nullable: bool
    """Refers to the array if the field is one."""
    flexible: bool
    tag: int | None
    default: Any
    """The value of a tagged field that was not sent, and of a field for which no value was given.
    """

    @property
    def is_fixed(self) -> bool:
        """True if the field always has the same number of bytes."""
        return not self.is_array and self.kind not in _VARIABLE


def wire_field_of(entity_type: type[Any], field: Field[Any]) -> WireField:
    """Return the wire type of a field, based on its annotation and metadata."""
    inner, nullable = _without_none(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(get_args(inner)[0])
    entity = inner if is_dataclass(inner) and isinstance(inner, type) else None
    kind = _ENTITY if entity else field.metadata["kafka_type"]
    tag = field.metadata.get("tag")
    nullable = nullable and (is_array or tag is None or entity is None)
    default = field.default
    if default is MISSING and nullable:
        default = None
    elif default is MISSING:
        default = () if is_array else _default(kind, entity)
    return WireField(
        name=field.name,
        kind="datetime_i64?" if kind == "datetime_i64" and nullable else kind,
        entity=entity,
        is_array=is_array,
        nullable=nullable,
        flexible=entity_type.__flexible__ and not _is_client_id(entity_type, field),
        tag=tag,
        default=default,
    )


def _is_client_id(entity_type: type[Any], field: Field[Any]) -> bool:
    """Return True for the client id in a header, which is never compact."""
    return entity_type.__name__ == "RequestHeader" and field.name == "client_id"


def _without_none(annotation: Any) -> tuple[Any, bool]:
    members = get_args(annotation)
    if NoneType not in members:
        return annotation, False
    return next(member for member in members if member is not NoneType), True


def _default(kind: str, entity: type[Any] | None) -> Any:
    """Return the schema's default of a type. A struct is built from its fields' defaults."""
    if entity is None:
        return None if kind == "uuid" else _ZEROS.get(kind, 0)
    return entity(**{field.name: wire_field_of(entity, field).default for field in fields(entity)})


def encode(entity: Entity) -> bytes:
    """Encode a message, without header and length."""
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def decode(entity_type: type[E], data: memoryview | bytes, offset: int = 0) -> tuple[E, int]:
    """Read one message of `entity_type` at `offset`. Return the message and the offset after it.

    Fields that contain records or bytes are slices of `data`, not copies. Error codes that are
    missing from ErrorCode are returned as `error_codes.UnknownErrorCode`.

    Raises:
        ProtocolError: the bytes are not a message of this type.
    """
    view = data if isinstance(data, memoryview) else memoryview(data)
    try:
        entity, end = _entity_reader(entity_type)[0](view, offset)
    except BAD_BYTES as error:
        raise ProtocolError(f"invalid {entity_type.__name__}: {error}") from error
    except ProtocolError as error:
        error.add_note(f"while reading a {entity_type.__name__} v{entity_type.__version__}")
        raise
    return cast("E", entity), end


def _entity_reader(entity_type: type[Any]) -> SizedReader:
    if entity_type not in _compiled_readers:
        _compiled_readers[entity_type] = _compile(entity_type)
    return _compiled_readers[entity_type]


def _compile(entity_type: type[Any]) -> SizedReader:
    wire_fields = [wire_field_of(entity_type, field) for field in fields(entity_type)]
    plain = [field for field in wire_fields if field.tag is None]
    steps, min_size = _steps(plain)
    names = tuple(field.name for field in plain)
    tagged = [field for field in wire_fields if field.tag is not None]
    is_flexible = entity_type.__flexible__
    readers = {field.tag: (field.name, _field_reader(field)[0]) for field in tagged}
    absent = {field.name: field.default for field in tagged}

    def read(data: memoryview, at: int) -> tuple[object, int]:
        values: list[Any] = []
        for step in steps:
            at = step(data, at, values)
        kwargs = dict(zip(names, values, strict=True), **absent)
        if is_flexible:
            count, at = read_uvarint(data, at)
            for _ in range(count):
                at = _read_tag(data, at, readers, kwargs)
        return entity_type(**kwargs), at

    return read, min_size + is_flexible


def _read_tag(
    data: memoryview, at: int, readers: dict[int | None, tuple[str, Reader]], kwargs: dict[str, Any]
) -> int:
    tag, at = read_uvarint(data, at)
    size, at = read_uvarint(data, at)
    end = at + size
    if end > len(data):
        raise ProtocolError(
            f"tagged field {tag} has size {size}, but {len(data) - at} bytes are left"
        )
    if tag in readers:
        name, read = readers[tag]
        kwargs[name], field_end = read(data, at)
        if field_end != end:
            raise ProtocolError(f"tagged field {tag} has {field_end - at} bytes instead of {size}")
    return end


def _steps(wire_fields: list[WireField]) -> tuple[list[_ReadStep], int]:
    """Compile fields in wire order. Adjacent fields of fixed size become one step."""
    steps: list[_ReadStep] = []
    run: list[WireField] = []
    min_size = 0
    for field in wire_fields:
        if field.is_fixed:
            run.append(field)
            continue
        if run:
            steps.append(_fixed_step(run))
        run = []
        read, size = _field_reader(field)
        steps.append(_variable_step(read))
        min_size += size
    if run:
        steps.append(_fixed_step(run))
    fixed = sum(
        struct.calcsize(">" + _FIXED[field.kind][0]) for field in wire_fields if field.is_fixed
    )
    return steps, min_size + fixed


def _variable_step(read: Reader) -> _ReadStep:
    def step(data: memoryview, at: int, values: list[Any]) -> int:
        value, at = read(data, at)
        values.append(value)
        return at

    return step


def _fixed_step(run: list[WireField]) -> _ReadStep:
    layout = struct.Struct(">" + "".join(_FIXED[field.kind][0] for field in run))
    unpack, size = layout.unpack_from, layout.size
    converts = [
        (index, convert) for index, field in enumerate(run) if (convert := _FIXED[field.kind][1])
    ]

    def step(data: memoryview, at: int, values: list[Any]) -> int:
        raw = unpack(data, at)
        start = len(values)
        values += raw
        for index, convert in converts:
            values[start + index] = convert(raw[index])
        return at + size

    return step


def _field_reader(field: WireField) -> SizedReader:
    if field.is_array:
        return _array_reader(field)
    if field.entity is None:
        return _scalar_reader(field, nullable=field.nullable)
    reader, min_size = _entity_reader(field.entity)
    return (_nullable_struct(reader), 1) if field.nullable else (reader, min_size)


def _scalar_reader(field: WireField, *, nullable: bool) -> SizedReader:
    if field.kind in _FIXED:
        return _fixed_reader(field)
    text = field.kind == "string"
    if field.flexible:
        return sized_reader(compact_length, text=text, nullable=nullable), 1
    length_of, min_size = (string_length, 2) if text else (long_length, 4)
    return sized_reader(length_of, text=text, nullable=nullable), min_size


def _fixed_reader(field: WireField) -> SizedReader:
    step = _fixed_step([field])

    def read(data: memoryview, at: int) -> tuple[object, int]:
        values: list[Any] = []
        at = step(data, at, values)
        return values[0], at

    return read, struct.calcsize(">" + _FIXED[field.kind][0])


def _nullable_struct(read: Reader) -> Reader:
    """Return a reader for a struct that follows a null marker byte (KIP-893)."""

    def read_nullable(data: memoryview, at: int) -> tuple[object, int]:
        if data[at] >= 0x80:
            return None, at + 1
        return read(data, at + 1)

    return read_nullable


def _array_reader(field: WireField) -> SizedReader:
    length_of = compact_length if field.flexible else long_length
    if field.entity is None:
        element, min_item_size = _scalar_reader(field, nullable=False)
    else:
        element, min_item_size = _entity_reader(field.entity)
    items = _packed_items(field.kind) or _each_item(element)
    min_item_size = max(min_item_size, 1)  # needed for zero-length elements
    nullable = field.nullable

    def read(data: memoryview, at: int) -> tuple[object, int]:
        length, at = length_of(data, at)
        if length < 0:
            if nullable:
                return None, at
            raise ProtocolError("a non-nullable array is null")
        if length * min_item_size > len(data) - at:
            raise ProtocolError(f"invalid array length: {length}, {len(data) - at} bytes left")
        return items(data, at, length)

    return read, 1 if field.flexible else 4


def _each_item(read: Reader) -> Callable[[memoryview, int, int], tuple[object, int]]:
    def read_items(data: memoryview, at: int, length: int) -> tuple[object, int]:
        items = []
        for _ in range(length):
            item, at = read(data, at)
            items.append(item)
        return tuple(items), at

    return read_items


def _packed_items(kind: str) -> Callable[[memoryview, int, int], tuple[object, int]] | None:
    letter, convert = _FIXED.get(kind, ("", None))
    if not letter or convert:
        return None
    size = struct.calcsize(">" + letter)

    def read_items(data: memoryview, at: int, length: int) -> tuple[object, int]:
        return struct.unpack_from(f">{length}{letter}", data, at), at + length * size

    return read_items
