"""Avro's binary encoding.

Columns are matched to a record's fields by name. Fields and union branches are in the order of the
schema. A narrower column can be written to a wider field. A wider integer column can be written to
a narrower field: a number that does not fit is a fault of its row. A field without a column gets
its default, or null.

Source: the Avro 1.12 specification, "Binary Encoding".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.formats.avro_schema import AvroSchema, default_bytes, derive
from spark_kafka_sink.formats.fields import (
    Cells,
    Column,
    DecimalCells,
    Shape,
    field_path,
    not_declared,
    unsupported,
)
from spark_kafka_sink.formats.writer import (
    Node,
    RowEncoder,
    RowWriter,
    grouped,
    write_boolean,
    write_bytes,
    write_float,
    write_nothing,
    write_required,
    write_symbol,
    write_valid,
    zigzag,
)
from spark_kafka_sink.kafka.records.varint import varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.formats.plan import FieldPlan

__all__ = ["compile_plan", "derive"]


def compile_plan(plan: FieldPlan, type_: pa.StructType) -> RowEncoder:
    """See `plan.compile_encoder`."""
    schema = AvroSchema.parse(plan.schema or "")
    return RowEncoder(_value(schema, Column.of(type_)), plan.framing.prefix)


def _value(schema: AvroSchema, column: Column) -> Node:
    """Return the writer of a field, item or value. It accepts null only in a union with null.

    Raises:
        ColumnError: no branch of the schema accepts the column's type.
    """
    if schema.kind == "null" and column.shape is Shape.NULL:
        return write_nothing
    if schema.kind != "union":
        return partial(write_required, _node(schema, column), column.path)
    kinds = [branch.kind for branch in schema.branches]
    index, node = _branch(schema, column)
    if "null" not in kinds:
        return partial(write_required, node, column.path, before=varint(index))
    return partial(_write_nullable, node, varint(index), varint(kinds.index("null")))


def _branch(schema: AvroSchema, column: Column) -> tuple[int, Node]:
    """Return the first branch that accepts the type without loss, otherwise the first that fits."""
    first: tuple[int, Node] | None = None
    error: ColumnError | None = None
    for index, branch in enumerate(schema.branches):
        try:
            node = _node(branch, column)
        except ColumnError as refused:
            error = refused if branch.kind != "null" else error
            continue
        if branch.kind not in _BITS or column.type.bit_width <= _BITS[branch.kind]:
            return index, node
        first = first or (index, node)
    if first is None:
        raise error or unsupported(column, "Avro null")
    return first


def _node(schema: AvroSchema, column: Column) -> Node:
    """Return the writer of a type other than a union."""
    compile_ = _COMPILERS.get(column.shape)
    node = None if compile_ is None else compile_(schema, column)
    if node is None:
        logical = f" ({schema.logical})" if schema.logical else ""
        raise unsupported(column, f"Avro {schema.full_name}{logical}")
    return node


def _record(schema: AvroSchema, column: Column) -> Node | None:
    if schema.kind not in ("record", "error"):
        return None
    columns = {part.name: (index, part) for index, part in enumerate(column.parts)}
    fields: list[tuple[int, Node] | bytes] = []
    for name, part, declared in schema.fields:
        if name in columns:
            index, found = columns.pop(name)
            fields.append((index, _value(part, found)))
        else:
            fields.append(_missing(part, declared, schema, column))
    for _, unknown in columns.values():
        raise not_declared(unknown, schema.full_name)
    return partial(_write_record, fields)


def _missing(
    part: AvroSchema, declared: dict[str, Any], record: AvroSchema, column: Column
) -> bytes:
    """Return the encoded default of a field without a column, or null if it is only nullable."""
    if "default" in declared:
        return default_bytes(part, declared["default"])
    kinds = [branch.kind for branch in part.branches]
    if "null" in kinds:
        return varint(kinds.index("null")) if part.kind == "union" else b""
    raise ColumnError(
        f"the field `{field_path(column.path, declared['name'])}` of {record.full_name} has no "
        "column and no default",
        hint="add the column, or a default to the schema",
    )


def _array(schema: AvroSchema, column: Column) -> Node | None:
    if schema.kind != "array":
        return None
    return partial(_write_array, _value(schema.part(schema.json["items"]), *column.parts))


def _map(schema: AvroSchema, column: Column) -> Node | None:
    key, value = column.parts
    if schema.kind != "map" or key.shape is not Shape.TEXT:
        return None
    return partial(_write_map, key.path, _value(schema.part(schema.json["values"]), value))


_BITS: Final = {"int": 32, "long": 64}
_WIDTHS: Final[dict[str, type[Any]]] = {"float": np.float32, "double": np.float64}
_UNITS: Final = {"millis": (1, 1000), "micros": (1, 1), "nanos": (1000, 1)}
"""Factor and divisor that convert microseconds, by the suffix of the logical type."""


def _number(schema: AvroSchema, column: Column) -> Node | None:
    if column.shape is Shape.INTEGER and schema.kind in _BITS:
        return _integer(schema, column)
    if schema.kind == "double" or (schema.kind == "float" and column.type != pa.float64()):
        return partial(write_float, _WIDTHS[schema.kind])
    return None


def _integer(schema: AvroSchema, column: Column, factor: int = 1, divisor: int = 1) -> Node:
    bits = _BITS[schema.kind]
    is_checked = column.type.bit_width > bits or factor > 1
    limit = (1 << bits - 1) // factor if is_checked else None

    def write(cells: Cells, out: RowWriter) -> None:
        values = cells.integers()
        if divisor > 1:
            values = values // divisor
        if limit is not None:
            bad = (values >= limit) | (values < -limit)
            cells.fail(bad, column.path, f"has a number beyond {bits} bits")
        out.varints(zigzag(values * factor if factor > 1 else values))

    return write


def _time(schema: AvroSchema, column: Column) -> Node | None:
    logical, bits = schema.logical or "", _BITS.get(schema.kind, 0)
    start, _, unit = logical.rpartition("-")
    match column.shape, start, logical, bits:
        case (Shape.DATE, _, "date", 32) | (Shape.INTERVAL, _, "", 64):
            return _integer(schema, column)
        case (Shape.TIMESTAMP, "timestamp", _, 64) | (
            Shape.LOCAL_TIMESTAMP,
            "local-timestamp",
            _,
            64,
        ):
            return _integer(schema, column, *_UNITS.get(unit, (1, 1)))
        case (Shape.TIME, _, "time-micros", 64):
            return _integer(schema, column, divisor=1000)
        case (Shape.TIME, _, "time-millis", 32):
            return _integer(schema, column, divisor=1_000_000)
    return None


def _bytes(schema: AvroSchema, column: Column) -> Node | None:
    if schema.logical == "decimal":
        return None
    if schema.kind in ("string", "bytes"):
        path = column.path if schema.kind == "string" else None
        return partial(write_bytes, path, is_zigzag=True)
    if schema.kind == "enum" and column.shape is Shape.TEXT:
        numbers = {symbol: number for number, symbol in enumerate(schema.json["symbols"])}
        return partial(write_symbol, numbers, column.path, is_zigzag=True)
    if schema.kind == "fixed" and column.shape is Shape.BYTES:
        return partial(_write_fixed, schema.json["size"], column.path)
    return None


def _decimal(schema: AvroSchema, column: Column) -> Node | None:
    if schema.logical != "decimal" or schema.kind not in ("bytes", "fixed"):
        return None
    precision, scale = int(schema.json["precision"]), int(schema.json.get("scale", 0))
    if scale < column.type.scale:
        return None
    size = int(schema.json["size"]) if schema.kind == "fixed" else None
    return partial(_write_decimal, precision - scale, scale, size, column.path)


_COMPILERS: Final[dict[Shape, Callable[[AvroSchema, Column], Node | None]]] = {
    Shape.STRUCT: _record,
    Shape.LIST: _array,
    Shape.MAP: _map,
    Shape.NULL: lambda _schema, _column: write_nothing,
    Shape.BOOLEAN: lambda schema, _: write_boolean if schema.kind == "boolean" else None,
    Shape.INTEGER: _number,
    Shape.FLOAT: _number,
    Shape.DECIMAL: _decimal,
    Shape.TEXT: _bytes,
    Shape.BYTES: _bytes,
    Shape.DATE: _time,
    Shape.TIME: _time,
    Shape.TIMESTAMP: _time,
    Shape.LOCAL_TIMESTAMP: _time,
    Shape.INTERVAL: _time,
}


def _write_nullable(node: Node, branch: bytes, null: bytes, cells: Cells, out: RowWriter) -> None:
    """Append a union value: the number of its branch, then the value."""
    valid = cells.valid()
    if valid is None:
        out.constant(branch)
    else:
        out.flags(valid, branch, null)
    write_valid(node, cells, out)


def _write_fixed(size: int, path: str, cells: Cells, out: RowWriter) -> None:
    column = cells.strings()
    lengths = np.asarray(pc.binary_length(column).fill_null(size))
    cells.fail(lengths != size, path, f"is not {size} bytes long")
    out.column(column)


def _write_decimal(
    digits: int, scale: int, size: int | None, path: str, cells: Cells, out: RowWriter
) -> None:
    """Append decimals in two's complement.

    If `size` is None, each value is encoded in as few bytes as possible.
    """
    decimals = DecimalCells.of(cells).fitting(path, digits, scale)
    sizes = np.array([size]) if size is not None else decimals.sizes()
    if size is None:
        out.varints(zigzag(sizes))
    out.big_endian(decimals.low, decimals.high, sizes)


def _write_array(item: Node, cells: Cells, out: RowWriter) -> None:
    offsets, items = cells.items()
    inner = RowWriter(len(items))
    item(items, inner)
    _write_block(out, inner, offsets)


def _write_map(key_path: str, value: Node, cells: Cells, out: RowWriter) -> None:
    offsets, entries = cells.items()
    inner = RowWriter(len(entries))
    write_bytes(key_path, entries.field(0), inner, is_zigzag=True)
    value(entries.field(1), inner)
    _write_block(out, inner, offsets)


def _write_block(out: RowWriter, items: RowWriter, offsets: Any) -> None:
    """Append one block: the item count, the items, and 0. Append only 0 if there are no items."""
    counts = np.diff(offsets)
    out.varints(zigzag(counts))
    out.column(grouped(items.join(), offsets))
    out.flags(counts > 0, b"\0")


def _write_record(fields: list[tuple[int, Node] | bytes], cells: Cells, out: RowWriter) -> None:
    """Append the fields in the order of the schema.

    Each field is the index of a column and its writer, or a constant.
    """
    for field in fields:
        if isinstance(field, bytes):
            out.constant(field)
        else:
            index, node = field
            node(cells.field(index), out)
