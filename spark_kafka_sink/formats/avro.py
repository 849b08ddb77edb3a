"""Avro's binary encoding.

Columns are matched to a record's fields by name; the order of fields and of union branches is the
schema's. A wider field takes a narrower column. A narrower integer takes a wider column if the
numbers fit: others are faults of their rows. A field without a column gets its default, or null.

Source: the Avro 1.12 specification, "Binary Encoding".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.formats.avro_schema import AvroSchema, default_bytes, derive
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
from spark_kafka_sink.records.varint import varint

if TYPE_CHECKING:
    from spark_kafka_sink.formats.plan import FieldPlan

__all__ = ["compile_plan", "derive"]


def compile_plan(plan: FieldPlan, type_: pa.StructType) -> RowEncoder:
    """See `plan.compile_encoder`."""
    schema = AvroSchema.parse(plan.schema or "", plan.references)
    return RowEncoder(_root(schema, type_), plan.framing.prefix)


@dataclass(frozen=True, slots=True)
class _Integer:
    """An int or long: the column's numbers times `factor`, or divided by `divisor`."""

    dtype: type[Any]
    path: str
    bits: int
    factor: int = 1
    divisor: int = 1
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        values = cells.numbers(self.dtype).astype(np.int64, copy=False)
        if self.divisor > 1:
            values = values // self.divisor
        if np.dtype(self.dtype).itemsize * 8 > self.bits or self.factor > 1:
            limit = (1 << self.bits - 1) // self.factor
            bad = (values >= limit) | (values < -limit)
            cells.fail(bad, self.path, f"has a number beyond {self.bits} bits")
        out.varints(zigzag(values * self.factor if self.factor > 1 else values))


@dataclass(frozen=True, slots=True)
class _Fixed:
    size: int
    path: str
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        column = cells.strings()
        lengths = np.asarray(pc.binary_length(column).fill_null(self.size))
        cells.fail(lengths != self.size, self.path, f"is not {self.size} bytes long")
        out.column(column)


@dataclass(frozen=True, slots=True)
class _Decimal:
    """A decimal in two's complement: `size` bytes, or None for as few as each value needs."""

    precision: int
    scale: int
    size: int | None
    path: str
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        digits = self.precision - self.scale
        decimals = DecimalCells.of(cells).fitting(self.path, digits, self.scale)
        if self.size is not None:
            out.big_endian(decimals.low, decimals.high, np.array([self.size]))
            return
        sizes = decimals.sizes()
        out.varints(zigzag(sizes))
        out.big_endian(decimals.low, decimals.high, sizes)


@dataclass(frozen=True, slots=True)
class _Enum:
    symbols: tuple[str, ...]
    path: str
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        symbols = pa.array([each.encode() for each in self.symbols], pa.binary())
        found: Any = pc.index_in(cells.strings(), value_set=symbols)
        unknown = np.asarray(found.is_null())
        cells.fail(unknown, self.path, "is not a symbol of the enum")
        out.varints(zigzag(np.asarray(found.fill_null(0)).astype(np.int64)))


@dataclass(frozen=True, slots=True)
class _Constant:
    """A field without a column."""

    value: bytes

    def write(self, _cells: Cells, out: RowWriter) -> None:
        out.constant(self.value)


@dataclass(frozen=True, slots=True)
class _Required:
    """A value that must not be null."""

    node: Node
    path: str
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        cells.fail_nulls(self.path)
        write_valid(self.node, cells, out)


@dataclass(frozen=True, slots=True)
class _Nullable:
    """A value of a union, after the number of its branch."""

    node: Node
    branch: bytes
    null: bytes
    is_nested = False

    def write(self, cells: Cells, out: RowWriter) -> None:
        valid = cells.valid()
        if valid is None:
            out.constant(self.branch)
        else:
            out.flags(valid, self.branch, self.null)
        write_valid(self.node, cells, out)


@dataclass(frozen=True, slots=True)
class _Array:
    item: Node
    is_nested = True

    def write(self, cells: Cells, out: RowWriter) -> None:
        offsets, items = cells.items()
        inner = RowWriter(len(items))
        self.item.write(items, inner)
        _write_block(out, inner, offsets)


@dataclass(frozen=True, slots=True)
class _Map:
    key_path: str
    value: Node
    is_nested = True

    def write(self, cells: Cells, out: RowWriter) -> None:
        offsets, entries = cells.items()
        inner = RowWriter(len(entries))
        BytesNode(self.key_path, is_zigzag=True).write(entries.field(0), inner)
        self.value.write(entries.field(1), inner)
        _write_block(out, inner, offsets)


def _write_block(out: RowWriter, items: RowWriter, offsets: Any) -> None:
    """Append one block: the number of items, the items, and 0; only 0 if there are none."""
    counts = np.diff(offsets)
    out.varints(zigzag(counts))
    out.column(grouped(items.join(), offsets))
    out.flags(counts > 0, b"\0")


@dataclass(frozen=True, slots=True)
class _Record:
    fields: tuple[tuple[int, _Required | _Nullable] | _Constant, ...]
    """In the schema's order: index of the column and its writer, or a constant."""
    is_nested = True

    def write(self, cells: Cells, out: RowWriter) -> None:
        for field in self.fields:
            if isinstance(field, _Constant):
                out.constant(field.value)
            else:
                index, node = field
                node.write(cells.field(index), out)


def _root(schema: AvroSchema, type_: pa.StructType) -> Node:
    node = _value(schema, type_, "")
    return node.node if isinstance(node, _Required) else _Root(node)


@dataclass(frozen=True, slots=True)
class _Root:
    """A record that is a branch of a union."""

    node: Node
    is_nested = True

    def write(self, cells: Cells, out: RowWriter) -> None:
        self.node.write(cells, out)


def _value(schema: AvroSchema, type_: pa.DataType, path: str) -> _Required | _Nullable:
    """Return the writer of a field, item or value; it accepts null only in a union with null.

    Raises:
        ColumnError: no branch of the schema takes the column's type.
    """
    if schema.kind == "null" and pa.types.is_null(type_):
        return _Nullable(NullNode(), b"", b"")
    if schema.kind != "union":
        return _Required(_node(schema, type_, path), path)
    kinds = [branch.kind for branch in schema.branches]
    null = varint(kinds.index("null")) if "null" in kinds else None
    index, node = _branch(schema, type_, path)
    if null is None:
        return _Required(_Prefixed(node, varint(index)), path)
    return _Nullable(node, varint(index), null)


@dataclass(frozen=True, slots=True)
class _Prefixed:
    node: Node
    branch: bytes

    @property
    def is_nested(self) -> bool:
        return self.node.is_nested

    def write(self, cells: Cells, out: RowWriter) -> None:
        out.constant(self.branch)
        self.node.write(cells, out)


def _branch(schema: AvroSchema, type_: pa.DataType, path: str) -> tuple[int, Node]:
    """Return the first branch that takes the type without loss, or the first that takes it."""
    first: tuple[int, Node] | None = None
    error: ColumnError | None = None
    for index, branch in enumerate(schema.branches):
        try:
            node = _node(branch, type_, path)
        except ColumnError as refused:
            error = refused if branch.kind != "null" else error
            continue
        if not _narrows(node):
            return index, node
        first = first or (index, node)
    if first is None:
        raise error or unsupported(path, type_, "Avro null")
    return first


def _narrows(node: Node) -> bool:
    return isinstance(node, _Integer) and np.dtype(node.dtype).itemsize * 8 > node.bits


def _node(schema: AvroSchema, type_: pa.DataType, path: str) -> Node:
    """Return the writer of a type other than a union."""
    type_ = plain_type(type_)
    node: Node | None = None
    if isinstance(type_, pa.StructType) and schema.kind in ("record", "error"):
        return _record(schema, type_, path)
    if (
        isinstance(type_, pa.MapType)
        and schema.kind == "map"
        and is_text(plain_type(type_.key_type))
    ):
        value = _value(
            schema.part(schema.json["values"]), type_.item_type, child_path(path, "value")
        )
        return _Map(child_path(path, "key"), value)
    if isinstance(type_, pa.ListType | pa.LargeListType) and schema.kind == "array":
        item = _value(schema.part(schema.json["items"]), type_.value_type, item_path(path))
        return _Array(item)
    if isinstance(type_, pa.Decimal128Type):
        node = _decimal(schema, type_, path)
    elif is_text(type_) or is_bytes(type_):
        node = _bytes(schema, type_, path)
    else:
        node = _number(schema, type_, path) or _time(schema, type_, path)
    if node is None:
        logical = f" ({schema.logical})" if schema.logical else ""
        raise unsupported(path, type_, f"Avro {schema.full_name}{logical}")
    return node


_BITS: Final = {"int": 32, "long": 64}
_WIDTHS: Final[dict[str, type[Any]]] = {"float": np.float32, "double": np.float64}
_UNITS: Final = {"millis": (1, 1000), "micros": (1, 1), "nanos": (1000, 1)}
"""Factor and divisor of microseconds, by the end of the logical type."""


def _number(schema: AvroSchema, type_: pa.DataType, path: str) -> Node | None:
    if type_ in INTEGERS and schema.kind in _BITS:
        return _Integer(INTEGERS[type_], path, _BITS[schema.kind])
    source = FLOATS.get(type_) or INTEGERS.get(type_)
    if source is not None and schema.kind in _WIDTHS and type_ != pa.float64():
        return FloatNode(source, _WIDTHS[schema.kind])
    if type_ == pa.float64() and schema.kind == "double":
        return FloatNode(np.float64, np.float64)
    if pa.types.is_boolean(type_) and schema.kind == "boolean":
        return BooleanNode()
    return NullNode() if pa.types.is_null(type_) else None


def _time(schema: AvroSchema, type_: pa.DataType, path: str) -> Node | None:
    logical, bits = schema.logical or "", _BITS.get(schema.kind, 0)
    if type_ == pa.date32() and logical == "date" and bits == 32:
        return _Integer(np.int32, path, bits)
    if isinstance(type_, pa.TimestampType) and type_.unit == "us":
        start, _, unit = logical.rpartition("-")
        if bits == 64 and start == ("timestamp" if type_.tz is not None else "local-timestamp"):
            return _Integer(np.int64, path, bits, *_UNITS.get(unit, (1, 1)))
    if type_ == pa.time64("ns") and (logical, bits) in (("time-micros", 64), ("time-millis", 32)):
        return _Integer(np.int64, path, bits, 1, 1000 if bits == 64 else 1_000_000)
    if type_ == pa.duration("us") and schema.kind == "long" and not logical:
        return _Integer(np.int64, path, bits)
    return None


def _bytes(schema: AvroSchema, type_: pa.DataType, path: str) -> Node | None:
    if schema.logical == "decimal":
        return None
    if schema.kind in ("string", "bytes"):
        return BytesNode(path if schema.kind == "string" else None, is_zigzag=True)
    if schema.kind == "enum" and is_text(type_):
        return _Enum(tuple(schema.json["symbols"]), path)
    return _Fixed(schema.json["size"], path) if schema.kind == "fixed" and is_bytes(type_) else None


def _decimal(schema: AvroSchema, type_: pa.Decimal128Type[Any, Any], path: str) -> Node | None:
    if schema.logical != "decimal" or schema.kind not in ("bytes", "fixed"):
        return None
    precision, scale = int(schema.json["precision"]), int(schema.json.get("scale", 0))
    if scale < type_.scale:
        return None
    size = int(schema.json["size"]) if schema.kind == "fixed" else None
    return _Decimal(precision, scale, size, path)


def _record(schema: AvroSchema, type_: pa.StructType, path: str) -> _Record:
    refuse_variant(type_, path)
    columns = {field.name: index for index, field in enumerate(unique_fields(type_, path))}
    fields: list[tuple[int, _Required | _Nullable] | _Constant] = []
    for name, part, declared in schema.fields:
        index = columns.pop(name, None)
        if index is None:
            fields.append(_missing(part, declared, schema.full_name, child_path(path, name)))
        else:
            fields.append((index, _value(part, type_.field(index).type, child_path(path, name))))
    for name in columns:
        raise ColumnError(
            f"column `{child_path(path, name)}` is not a field of {schema.full_name}",
            hint="drop the column, or add the field to the schema",
        )
    return _Record(tuple(fields))


def _missing(part: AvroSchema, declared: dict[str, Any], record: str, path: str) -> _Constant:
    """Return the default of a field without a column, null if it has none but may be null."""
    if "default" in declared:
        return _Constant(default_bytes(part, declared["default"]))
    kinds = [branch.kind for branch in part.branches]
    if "null" in kinds:
        return _Constant(varint(kinds.index("null")) if part.kind == "union" else b"")
    raise ColumnError(
        f"the field `{path}` of {record} has no column and no default",
        hint="add the column, or a default to the schema",
    )
