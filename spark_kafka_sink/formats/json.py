"""JSON as Spark's `to_json` writes it, and JSON Schema.

Null fields are left out unless the plan says otherwise; nulls in arrays and maps are kept.
Timestamps have the zone's offset and milliseconds, decimals their scale, binary values are base64,
NaN and infinities are strings. Differences in spelling, which do not change the value: numbers have
no exponent from 1e-5 to 1e10, decimals none at all. Map keys that are dates or times are text, not
Spark's internal number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.formats import text
from spark_kafka_sink.formats.fields import (
    FLOATS,
    INTEGERS,
    Cells,
    DecimalCells,
    child_path,
    is_bytes,
    is_text,
    item_path,
    plain_type,
    refuse_variant,
    unique_fields,
    unsupported,
)
from spark_kafka_sink.formats.plan import Derived
from spark_kafka_sink.formats.writer import (
    Node,
    NullNode,
    RowEncoder,
    RowWriter,
    grouped,
    write_valid,
)

if TYPE_CHECKING:
    from spark_kafka_sink.formats.fields import Mask
    from spark_kafka_sink.formats.plan import FieldPlan

_TARGET: Final = "JSON"


def compile_plan(plan: FieldPlan, type_: pa.StructType) -> RowEncoder:
    """See `plan.compile_encoder`."""
    try:
        text.utc_offsets(np.zeros(1, np.int64), plan.zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ConfigError(
            f"the session time zone {plan.zone!r} is unknown on this host",
            hint="set spark.sql.session.timeZone to a name such as Europe/Berlin",
        ) from None
    root = _Compiler(plan.zone, plan.writes_nulls).node(type_, "")
    return RowEncoder(root, plan.framing.prefix)


@dataclass(frozen=True, slots=True)
class _Integer:
    dtype: type[Any]
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        text.write_integers(out, cells.numbers(self.dtype).astype(np.int64, copy=False))


@dataclass(frozen=True, slots=True)
class _Float:
    dtype: type[Any]
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        text.write_floats(out, cells.numbers(self.dtype))


class _Boolean:
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        out.flags(cells.numbers(np.bool_), b"true", b"false")


@dataclass(frozen=True, slots=True)
class _Decimal:
    scale: int
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        decimals = DecimalCells.of(cells)
        text.write_decimals(out, decimals.low, decimals.high, self.scale)


@dataclass(frozen=True, slots=True)
class _Text:
    path: str
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        out.constant(b'"')
        out.column(text.escaped(cells.utf8(self.path)))
        out.constant(b'"')


class _Base64:
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        out.constant(b'"')
        out.column(text.base64_column(cells.strings()))
        out.constant(b'"')


class _Date:
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        out.constant(b'"')
        text.write_dates(out, cells.numbers(np.int32).astype(np.int64))
        out.constant(b'"')


@dataclass(frozen=True, slots=True)
class _Timestamp:
    zone: str | None
    """None for a timestamp without time zone."""
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        micros = cells.numbers(np.int64)
        out.constant(b'"')
        if self.zone is None:
            text.write_timestamps(out, micros)
        else:
            offsets = text.utc_offsets(micros, self.zone)
            text.write_timestamps(out, micros + offsets * 1_000_000)
            text.write_offsets(out, offsets)
        out.constant(b'"')


class _Time:
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        out.constant(b'"')
        text.write_times(out, cells.numbers(np.int64) // 1000)
        out.constant(b'"')


class _Interval:
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        out.constant(b"\"INTERVAL '")
        text.write_interval(out, cells.numbers(np.int64))
        out.constant(b"' DAY TO SECOND\"")


@dataclass(frozen=True, slots=True)
class _List:
    item: Node
    is_nested = True

    def write(self, cells: Cells, out: RowWriter) -> None:
        offsets, items = cells.items()
        inner = RowWriter(len(items))
        _write_or_null(self.item, items, inner)
        _write_ends(inner, offsets, b"]")
        out.constant(b"[")
        out.column(grouped(inner.join(), offsets))
        _write_end_of_empty(out, offsets, b"]")


@dataclass(frozen=True, slots=True)
class _Map:
    key: Node
    value: Node
    quotes: bytes
    """Written around keys whose own text has none."""
    is_nested = True

    def write(self, cells: Cells, out: RowWriter) -> None:
        offsets, entries = cells.items()
        inner = RowWriter(len(entries))
        inner.constant(self.quotes)
        self.key.write(entries.field(0), inner)
        inner.constant(self.quotes + b":")
        _write_or_null(self.value, entries.field(1), inner)
        _write_ends(inner, offsets, b"}")
        out.constant(b"{")
        out.column(grouped(inner.join(), offsets))
        _write_end_of_empty(out, offsets, b"}")


def _write_or_null(node: Node, cells: Cells, out: RowWriter) -> None:
    write_valid(node, cells, out)
    valid = cells.valid()
    if valid is not None:
        out.flags(~valid, b"null")


def _write_ends(items: RowWriter, offsets: text.Numbers, end: bytes) -> None:
    """Append a comma to each item, and to the last one of each list the list's end instead."""
    last = np.zeros(items.rows, np.bool_)
    last[offsets[1:][np.diff(offsets) > 0] - 1] = True
    if items.rows:
        items.flags(last, end, b",")


def _write_end_of_empty(out: RowWriter, offsets: text.Numbers, end: bytes) -> None:
    empty = offsets[1:] == offsets[:-1]
    if empty.any():
        out.flags(empty, end)


@dataclass(frozen=True, slots=True)
class _Object:
    names: tuple[bytes, ...]
    """Each field's name, quoted, with a colon."""
    nodes: tuple[Node, ...]
    writes_nulls: bool
    is_nested = True

    def write(self, cells: Cells, out: RowWriter) -> None:
        out.constant(b"{")
        before: Mask | None = np.zeros(len(cells), np.bool_)
        """The rows in which a field precedes; None for all rows."""
        for number, (name, node) in enumerate(zip(self.names, self.nodes, strict=True)):
            field = cells.field(number)
            if self.writes_nulls:
                out.constant(b"," + name if number else name)
                _write_or_null(node, field, out)
            else:
                before = _write_field(name, node, field, out, before)
        out.constant(b"}")


def _write_field(
    name: bytes, node: Node, field: Cells, out: RowWriter, before: Mask | None
) -> Mask | None:
    """Append a field where it is not null; return the rows in which a field precedes the next."""
    valid = field.valid()
    if before is None:
        write_valid(node, field, out, b"," + name)
        return None
    comma = before if valid is None else before & valid
    if comma.any():
        out.flags(comma, b",")
    write_valid(node, field, out, name)
    return None if valid is None else before | valid


_QUOTED: Final = (_Text, _Base64, _Date, _Timestamp, _Time, _Interval)


@dataclass(frozen=True, slots=True)
class _Compiler:
    zone: str
    writes_nulls: bool

    def node(self, type_: pa.DataType, path: str) -> Node:
        """Return the writer of a column of this type.

        Raises:
            ColumnError: the type cannot be written as JSON.
        """
        type_ = plain_type(type_)
        if isinstance(type_, pa.StructType):
            return self._object(type_, path)
        if isinstance(type_, pa.MapType):
            return self._map(type_, path)
        if isinstance(type_, (pa.ListType, pa.LargeListType)):
            return _List(self.node(type_.value_type, item_path(path)))
        leaf = self._number(type_) or self._string(type_, path)
        if leaf is None:
            raise unsupported(path, type_, _TARGET)
        return leaf

    def _number(self, type_: pa.DataType) -> Node | None:
        if type_ in INTEGERS:
            return _Integer(INTEGERS[type_])
        if type_ in FLOATS:
            return _Float(FLOATS[type_])
        if pa.types.is_decimal128(type_):
            return _Decimal(type_.scale)
        if pa.types.is_boolean(type_):
            return _Boolean()
        return NullNode() if pa.types.is_null(type_) else None

    def _string(self, type_: pa.DataType, path: str) -> Node | None:
        if is_text(type_):
            return _Text(path)
        if is_bytes(type_):
            return _Base64()
        if pa.types.is_date32(type_):
            return _Date()
        if pa.types.is_timestamp(type_) and type_.unit == "us":
            return _Timestamp(None if type_.tz is None else self.zone)
        if type_ == pa.time64("ns"):
            return _Time()
        return _Interval() if type_ == pa.duration("us") else None

    def _object(self, type_: pa.StructType, path: str) -> Node:
        refuse_variant(type_, path)
        fields = unique_fields(type_, path)
        return _Object(
            tuple(f"{json.dumps(field.name, ensure_ascii=False)}:".encode() for field in fields),
            tuple(self.node(field.type, child_path(path, field.name)) for field in fields),
            self.writes_nulls,
        )

    def _map(self, type_: pa.MapType[Any, Any, Any], path: str) -> Node:
        key_path = child_path(path, "key")
        key = self.node(type_.key_type, key_path)
        if key.is_nested:
            raise unsupported(key_path, type_.key_type, "the name of a JSON field")
        value = self.node(type_.item_type, child_path(path, "value"))
        return _Map(key, value, b"" if isinstance(key, _QUOTED) else b'"')


_SCHEMA_VERSION: Final = "http://json-schema.org/draft-07/schema#"


def derive(type_: pa.StructType, name: str, namespace: str) -> Derived:
    """Return a JSON Schema; see `plan.derive_schema`.

    Objects are closed (`additionalProperties` is false): a registry then accepts a new optional
    field as backward compatible.
    """
    _Compiler("UTC", writes_nulls=False).node(type_, "")
    full_name = f"{namespace}.{name}" if namespace else name
    schema = {"$schema": _SCHEMA_VERSION, "title": full_name, **_schema_of(type_)}
    return Derived(json.dumps(schema, separators=(",", ":")), full_name)


def _schema_of(type_: pa.DataType) -> dict[str, Any]:
    type_ = plain_type(type_)
    if isinstance(type_, pa.StructType):
        return _object_schema(type_)
    if isinstance(type_, pa.MapType):
        return {"type": "object", "additionalProperties": _field_schema(type_.item_field)}
    if isinstance(type_, (pa.ListType, pa.LargeListType)):
        return {"type": "array", "items": _field_schema(type_.value_field)}
    if pa.types.is_integer(type_):
        return {"type": "integer"}
    if pa.types.is_decimal(type_):
        return {"type": "number"}
    if pa.types.is_floating(type_):
        return {"oneOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
    if pa.types.is_boolean(type_):
        return {"type": "boolean"}
    return {"type": "null"} if pa.types.is_null(type_) else _string_schema(type_)


def _object_schema(type_: pa.StructType) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: _field_schema(field) for field in type_},
        "additionalProperties": False,
    }
    required = [field.name for field in type_ if not field.nullable]
    return {**schema, "required": required} if required else schema


def _field_schema(field: pa.Field[Any]) -> dict[str, Any]:
    schema = _schema_of(field.type)
    if not field.nullable or schema == {"type": "null"}:
        return schema
    return {"oneOf": [{"type": "null"}, *schema.get("oneOf", [schema])]}


def _string_schema(type_: pa.DataType) -> dict[str, Any]:
    if is_bytes(type_):
        return {"type": "string", "contentEncoding": "base64"}
    if pa.types.is_date(type_):
        return {"type": "string", "format": "date"}
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return {"type": "string", "format": "date-time"}
    return {"type": "string"}
