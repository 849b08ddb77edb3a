"""Protobuf's binary encoding.

Columns are matched to a message's fields by name. A null column is absent, and so are an empty
list and an empty map. A null item of a list or value of a map is a fault of its row.

Source: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.formats.fields import (
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
from spark_kafka_sink.formats.protobuf_schema import (
    DURATION,
    TIMESTAMP,
    WRAPPERS,
    Kind,
    ProtoField,
    ProtoMessage,
    ProtoSchema,
    derive,
    message_indexes,
    tag,
)
from spark_kafka_sink.formats.text import write_decimals
from spark_kafka_sink.formats.writer import (
    BooleanNode,
    BytesNode,
    FloatNode,
    Node,
    NullNode,
    RowEncoder,
    RowWriter,
    grouped,
    write_valid,
    zigzag,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.formats.plan import FieldPlan

__all__ = ["compile_plan", "derive", "message_indexes"]


def compile_plan(plan: FieldPlan, type_: pa.StructType) -> RowEncoder:
    """See `plan.compile_encoder`."""
    schema = ProtoSchema.parse(plan.schema or "", plan.references)
    root = _Compiler(schema).message(schema.message(plan.message), type_, "")
    return RowEncoder(root, plan.framing.prefix)


_VARINT, _EIGHT, _SIZED, _FOUR = 0, 1, 2, 5
"""Wire types."""
_WIRE_TYPES: Final = {
    **dict.fromkeys((Kind.DOUBLE, Kind.FIXED64, Kind.SFIXED64), _EIGHT),
    **dict.fromkeys((Kind.FLOAT, Kind.FIXED32, Kind.SFIXED32), _FOUR),
    **dict.fromkeys((Kind.STRING, Kind.BYTES, Kind.MESSAGE), _SIZED),
}
"""Others are varints."""
_RANGES: Final = {
    Kind.INT32: (-(1 << 31), (1 << 31) - 1),
    Kind.SINT32: (-(1 << 31), (1 << 31) - 1),
    Kind.SFIXED32: (-(1 << 31), (1 << 31) - 1),
    Kind.UINT32: (0, (1 << 32) - 1),
    Kind.FIXED32: (0, (1 << 32) - 1),
    Kind.UINT64: (0, (1 << 63) - 1),
    Kind.FIXED64: (0, (1 << 63) - 1),
    Kind.INT64: (-(1 << 63), (1 << 63) - 1),
    Kind.SINT64: (-(1 << 63), (1 << 63) - 1),
    Kind.SFIXED64: (-(1 << 63), (1 << 63) - 1),
}
"""Smallest and largest number of a column that each integer takes."""
_FIXED: Final = {Kind.FIXED32: 4, Kind.SFIXED32: 4, Kind.FIXED64: 8, Kind.SFIXED64: 8}
_SIGNED: Final = (Kind.SINT32, Kind.SINT64)


@dataclass(frozen=True, slots=True)
class _Integer:
    dtype: type[Any]
    kind: Kind
    path: str
    divisor: int = 1
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        values = cells.numbers(self.dtype).astype(np.int64, copy=False)
        if self.divisor > 1:
            values = values // self.divisor
        self._check(cells, values)
        if self.kind in _FIXED:
            size = _FIXED[self.kind]
            words = values.view(np.uint64)
            out.fixed(words & np.uint64((1 << 8 * size) - 1), size)
        else:
            out.varints(zigzag(values) if self.kind in _SIGNED else values.view(np.uint64))

    def _check(self, cells: Cells, values: NDArray[np.int64]) -> None:
        low, high = _RANGES[self.kind]
        kept = np.iinfo(self.dtype)
        if kept.min < low or kept.max > high:
            bad = (values < low) | (values > high)
            cells.fail(bad, self.path, f"has a number out of the range of {self.kind.name.lower()}")


@dataclass(frozen=True, slots=True)
class _DecimalText:
    """A decimal as a string."""

    scale: int
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        decimals = DecimalCells.of(cells)
        inner = RowWriter(len(cells))
        write_decimals(inner, decimals.low, decimals.high, self.scale)
        _write_sized(inner, out)


@dataclass(frozen=True, slots=True)
class _Enum:
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    path: str
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        names = pa.array([each.encode() for each in self.names], pa.binary())
        found: Any = pc.index_in(cells.strings(), value_set=names)
        unknown = np.asarray(found.is_null())
        cells.fail(unknown, self.path, "is not a value of the enum")
        numbers = np.array(self.numbers, np.int64).take(np.asarray(found.fill_null(0)))
        out.varints(numbers.view(np.uint64))


@dataclass(frozen=True, slots=True)
class _Seconds:
    """A Timestamp or a Duration: seconds and nanoseconds, which for a Duration have one sign."""

    is_duration: bool
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        micros = cells.numbers(np.int64)
        seconds = micros // 1_000_000
        if self.is_duration:
            seconds += (micros < 0) & (micros % 1_000_000 != 0)
        nanos = (micros - seconds * 1_000_000) * 1000
        inner = RowWriter(len(cells))
        inner.constant(tag(1, _VARINT))
        inner.varints(seconds.view(np.uint64))
        inner.constant(tag(2, _VARINT))
        inner.varints(nanos.view(np.uint64))
        _write_sized(inner, out)


@dataclass(frozen=True, slots=True)
class _Embedded:
    """A message after its length."""

    body: Node
    is_nested = True

    def write(self, cells: Cells, out: RowWriter) -> None:
        inner = RowWriter(len(cells))
        self.body.write(cells, inner)
        _write_sized(inner, out)


def _write_sized(inner: RowWriter, out: RowWriter) -> None:
    """Append the length of each row of `inner`, and the row."""
    out.varints(inner.sizes().view(np.uint64))
    out.append(inner)


@dataclass(frozen=True, slots=True)
class _Single:
    """A field that is not repeated."""

    tag: bytes
    node: Node
    path: str
    is_required: bool
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        if self.is_required:
            cells.fail_nulls(self.path)
        write_valid(self.node, cells, out, self.tag)


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A list: every item after its tag, or all of them after one tag and their length."""

    tag: bytes
    item: Node
    path: str
    is_packed: bool
    is_nested = True

    def write(self, cells: Cells, out: RowWriter) -> None:
        offsets, items = cells.items()
        items.fail_nulls(self.path)
        inner = RowWriter(len(items))
        write_valid(self.item, items, inner, b"" if self.is_packed else self.tag)
        rows = grouped(inner.join(), offsets)
        if not self.is_packed:
            out.column(rows)
            return
        packed = RowWriter(len(cells))
        packed.constant(self.tag)
        packed.sized(rows)
        out.append(packed, np.diff(offsets) > 0)


@dataclass(frozen=True, slots=True)
class _Map:
    """A map: every entry as a message after its tag."""

    tag: bytes
    key: _Single
    value: _Single
    is_nested = True

    def write(self, cells: Cells, out: RowWriter) -> None:
        offsets, entries = cells.items()
        inner, entry = RowWriter(len(entries)), RowWriter(len(entries))
        self.key.write(entries.field(0), entry)
        self.value.write(entries.field(1), entry)
        inner.constant(self.tag)
        _write_sized(entry, inner)
        out.column(grouped(inner.join(), offsets))


@dataclass(frozen=True, slots=True)
class _Message:
    """The fields of a message, each with the index of its column."""

    fields: tuple[tuple[int, _Single | _Repeated | _Map], ...]
    is_nested = True

    def write(self, cells: Cells, out: RowWriter) -> None:
        for index, field in self.fields:
            column = cells.field(index)
            if isinstance(field, _Single):
                field.write(column, out)
            else:
                write_valid(field, column, out)


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """The only field of a wrapper message."""

    tag: bytes
    node: Node
    is_nested = True

    def write(self, cells: Cells, out: RowWriter) -> None:
        out.constant(self.tag)
        self.node.write(cells, out)


_FLOATS: Final[dict[tuple[pa.DataType, Kind], tuple[type[Any], type[Any]]]] = {
    (pa.float32(), Kind.FLOAT): (np.float32, np.float32),
    (pa.float32(), Kind.DOUBLE): (np.float32, np.float64),
    (pa.float64(), Kind.DOUBLE): (np.float64, np.float64),
}


@dataclass(frozen=True, slots=True)
class _Compiler:
    schema: ProtoSchema

    def message(self, message: ProtoMessage, type_: pa.StructType, path: str) -> _Message:
        """Return the writer of a struct.

        Raises:
            ColumnError: a column is not a field, or has another type, or a required field is
                missing.
        """
        refuse_variant(type_, path)
        known = {field.name: field for field in message.fields}
        fields = []
        for index, column in enumerate(unique_fields(type_, path)):
            column_path = child_path(path, column.name)
            field = known.pop(column.name, None)
            if field is None:
                raise ColumnError(
                    f"column `{column_path}` is not a field of {message.name}",
                    hint="drop the column, or add the field to the schema",
                )
            fields.append((field.number, index, self._field(field, column.type, column_path)))
        for field in known.values():
            if field.is_required:
                raise ColumnError(
                    f"the required field `{child_path(path, field.name)}` of {message.name} has "
                    "no column",
                    hint="add the column, or make the field optional",
                )
        return _Message(tuple((index, field) for _, index, field in sorted(fields, key=_first)))

    def _field(
        self, field: ProtoField, type_: pa.DataType, path: str
    ) -> _Single | _Repeated | _Map:
        type_ = plain_type(type_)
        entry = self.schema.messages.get(field.type_name)
        if pa.types.is_null(type_):
            return _Single(b"", NullNode(), path, field.is_required)
        if isinstance(type_, pa.MapType) and field.is_repeated and entry and entry.is_map_entry:
            return self._map(field, entry, type_, path)
        if isinstance(type_, pa.ListType | pa.LargeListType) and field.is_repeated:
            item = self._value(field, type_.value_type, item_path(path))
            wire_type = _WIRE_TYPES.get(field.kind, _VARINT)
            is_packed = field.is_packed and wire_type != _SIZED
            start = tag(field.number, _SIZED if is_packed else wire_type)
            return _Repeated(start, item, item_path(path), is_packed)
        if field.is_repeated:
            raise unsupported(path, type_, f"the repeated Protobuf field {field.name}")
        return self._single(field, type_, path, is_required=field.is_required)

    def _single(
        self, field: ProtoField, type_: pa.DataType, path: str, *, is_required: bool
    ) -> _Single:
        start = tag(field.number, _WIRE_TYPES.get(field.kind, _VARINT))
        return _Single(start, self._value(field, type_, path), path, is_required)

    def _map(
        self, field: ProtoField, entry: ProtoMessage, type_: pa.MapType[Any, Any, Any], path: str
    ) -> _Map:
        key, value = sorted(entry.fields, key=lambda each: each.number)
        return _Map(
            tag(field.number, _SIZED),
            self._single(key, type_.key_type, child_path(path, "key"), is_required=True),
            self._single(value, type_.item_type, child_path(path, "value"), is_required=True),
        )

    def _value(self, field: ProtoField, type_: pa.DataType, path: str) -> Node:
        """Return the writer of a value without its tag."""
        type_ = plain_type(type_)
        node: Node | None
        if field.kind is Kind.MESSAGE:
            node = self._embedded(field, type_, path)
        elif field.kind is Kind.ENUM and is_text(type_):
            values = self.schema.enums.get(field.type_name, {})
            node = _Enum(tuple(values), tuple(values.values()), path)
        else:
            node = _scalar(field.kind, type_, path)
        if node is None:
            target = field.type_name or field.kind.name.lower()
            raise unsupported(path, type_, f"Protobuf {target}")
        return node

    def _embedded(self, field: ProtoField, type_: pa.DataType, path: str) -> Node | None:
        name = field.type_name
        if isinstance(type_, pa.StructType) and name in self.schema.messages:
            return _Embedded(self.message(self.schema.messages[name], type_, path))
        if name == TIMESTAMP and isinstance(type_, pa.TimestampType) and type_.tz is not None:
            return _Seconds(is_duration=False) if type_.unit == "us" else None
        if name == DURATION and type_ == pa.duration("us"):
            return _Seconds(is_duration=True)
        if name in WRAPPERS:
            kind = WRAPPERS[name]
            node = _scalar(kind, type_, path)
            start = tag(1, _WIRE_TYPES.get(kind, _VARINT))
            return node and _Embedded(_Wrapper(start, node))
        return None


def _first(field: tuple[int, Any, Any]) -> int:
    return field[0]


def _scalar(kind: Kind, type_: pa.DataType, path: str) -> Node | None:
    """Return the writer of a plain value, None if the column has another type."""
    if kind in _RANGES:
        return _integer(kind, type_, path)
    if kind is Kind.ENUM and type_ in INTEGERS:
        return _Integer(INTEGERS[type_], Kind.INT32, path)
    if (type_, kind) in _FLOATS:
        return FloatNode(*_FLOATS[type_, kind])
    if kind is Kind.BOOL and pa.types.is_boolean(type_):
        return BooleanNode()
    if kind is Kind.STRING and isinstance(type_, pa.Decimal128Type):
        return _DecimalText(type_.scale)
    if kind in (Kind.STRING, Kind.BYTES) and (is_text(type_) or is_bytes(type_)):
        return BytesNode(path if kind is Kind.STRING else None)
    return None


def _integer(kind: Kind, type_: pa.DataType, path: str) -> Node | None:
    if type_ in INTEGERS:
        return _Integer(INTEGERS[type_], kind, path)
    if type_ == pa.date32() and kind is Kind.INT32:
        return _Integer(np.int32, kind, path)
    if type_ == pa.timestamp("us") and kind is Kind.INT64:
        return _Integer(np.int64, kind, path)
    if type_ == pa.time64("ns") and kind is Kind.INT64:
        return _Integer(np.int64, kind, path, divisor=1000)
    return None
