"""Writers of cells in Avro's binary encoding.

Source: the Avro 1.12 specification, "Binary Encoding".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.formats.avro.avro_branches import MAX_WIDE_DIGITS
from spark_kafka_sink.formats.avro.avro_schema import DAYS, UUID_SIZE, UUID_TEXT
from spark_kafka_sink.formats.columns.cells import Cells, bytes_of
from spark_kafka_sink.formats.columns.column_type import ColumnKind, ColumnType
from spark_kafka_sink.formats.columns.decimal_cells import DecimalCells
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoding import scalar_writers
from spark_kafka_sink.formats.encoding.row_encoder import CellWriter, encode_items, write_valid
from spark_kafka_sink.kafka.records.columns import binary_array
from spark_kafka_sink.kafka.records.row_writer import RowWriter, group_items
from spark_kafka_sink.kafka.records.varint import varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.formats.avro.avro_schema import AvroSchema

_BITS = {"int": 32, "long": 64}
_MAX_DIGITS = 38
"""Maximum number of digits of 128-bit decimals."""
_WIDTHS: dict[str, type[Any]] = {"float": np.float32, "double": np.float64}
_ZERO_UUID = b"00000000-0000-0000-0000-000000000000"
_WIDE_SIZE = 32
"""Size of Arrow's 256-bit decimals in bytes."""
_TIME_FACTORS = {
    "time-millis": (1, 1_000_000),
    "time-micros": (1, 1000),
    **{
        f"{zone}timestamp-{unit}": factors
        for zone in ("", "local-")
        for unit, factors in (("millis", (1, 1000)), ("nanos", (1000, 1)))
    },
}
"""Factor and divisor that convert a column's unit, nanoseconds for times and otherwise
microseconds, to the unit of a logical type. Both are 1 for other types.
"""


def text_writer(path: str | None) -> CellWriter:
    """Return the writer of bytes with their length. With a path, they must be UTF-8."""
    return partial(scalar_writers.write_bytes, path, is_zigzag=True)


def scalar_writer(schema: AvroSchema, column: ColumnType) -> CellWriter:
    """Return the writer of a type that has no other type below it, and that the column fits."""
    if column.kind is ColumnKind.DECIMAL:
        return _decimal_writer(schema, column)
    match schema.kind:
        case "boolean":
            return scalar_writers.write_boolean
        case "float" | "double":
            return partial(scalar_writers.write_float, _WIDTHS[schema.kind], column.path)
        case "string" if schema.logical == "uuid":
            return partial(_write_uuid, column.path)
        case "string" | "bytes":
            return text_writer(column.path if schema.kind == "string" else None)
        case "enum":
            numbers = {symbol: number for number, symbol in enumerate(schema.json["symbols"])}
            return partial(scalar_writers.write_symbol, numbers, column.path, is_zigzag=True)
        case "fixed" if column.kind is ColumnKind.TEXT:
            return partial(_write_uuid_bytes, column.path)
        case "fixed":
            return partial(_write_fixed, schema.json["size"], column.path)
    return _integer_writer(schema, column)


def _integer_writer(schema: AvroSchema, column: ColumnType) -> CellWriter:
    """Return the writer of an integer, date, time or interval, with a check of its range."""
    is_number = column.kind is ColumnKind.INTEGER
    factor, divisor = (1, 1) if is_number else _TIME_FACTORS.get(schema.logical or "", (1, 1))
    bits = _BITS[schema.kind]
    day = DAYS.get(schema.logical or "") if is_number else None
    is_checked = day is not None or (is_number and column.type.bit_width > bits) or factor > 1
    low, high = -((1 << bits - 1) // factor), ((1 << bits - 1) - 1) // factor
    limit = f"has a number beyond {bits} bits"
    if day is not None:
        low, high, limit = 0, day - 1, "has a number that is no time of day"

    def write(cells: Cells, out: RowWriter) -> None:
        values = cells.integers()
        if divisor > 1:
            if schema.is_exact:
                cells.fail(values % divisor != 0, column.path, "has more digits than its type")
            values = values // divisor
        if is_checked:
            bad = (values < low) | (values > high)
            cells.fail(bad, column.path, limit)
        out.append_zigzag(values * factor if factor > 1 else values)

    return write


def _decimal_writer(schema: AvroSchema, column: ColumnType) -> CellWriter:
    if schema.logical == "big-decimal":
        return partial(_write_big_decimal, varint(column.type.scale))
    digits, scale = schema.decimal_digits
    size = schema.json["size"] if schema.kind == "fixed" else None
    is_wide = min(digits, column.type.precision - column.type.scale) + scale > _MAX_DIGITS
    write = _write_wide_decimal if is_wide else _write_decimal
    return partial(write, digits, scale, size, column.path)


def write_first_fitting(
    branches: Sequence[tuple[bytes, CellWriter]],
    null: bytes | None,
    path: str,
    cells: Cells,
    out: RowWriter,
) -> None:
    """Append each value with the first branch that it fits, after the number of the branch.

    A value that fits no branch is an error of its row.
    """
    remaining = cells.full_valid_mask()
    if null is None:
        cells.fail_nulls(path)
    else:
        out.append_either(remaining, b"", null)
    for number, write_cells in branches:
        if not remaining.any():
            return
        errors = EncodingErrors(len(cells))
        inner = RowWriter(len(cells))
        inner.append_constant(number)
        # All values are encoded, as a selection would copy them; `append` drops those that fail.
        write_cells(Cells(cells.array, errors), inner)
        fits = remaining.copy()
        fits[errors.rows] = False
        out.append_rows(inner, fits)
        remaining = remaining & ~fits
    cells.fail(remaining, path, "fits no branch of the union")


def write_member(
    branches: Sequence[tuple[bytes, CellWriter]],
    null: bytes | None,
    path: str,
    cells: Cells,
    out: RowWriter,
) -> None:
    """Append the field of each struct that is not null, after the number of its branch."""
    is_null = np.ones(len(cells), np.bool_)
    for number, (branch, write_cells) in enumerate(branches):
        member = cells.field(number)
        is_member = member.full_valid_mask()
        cells.fail(is_member & ~is_null, path, "has several members of the union")
        write_valid(write_cells, member, out, branch)
        is_null &= ~is_member
    if null is None:
        cells.fail(is_null, path, "has no member of the union")
    else:
        out.append_either(is_null, null)


def write_nullable(
    write_cells: CellWriter, branch: bytes, null: bytes, cells: Cells, out: RowWriter
) -> None:
    """Append a union value: the number of its branch, then the value."""
    valid = cells.valid_mask()
    if valid is None:
        out.append_constant(branch)
    else:
        out.append_either(valid, branch, null)
    write_valid(write_cells, cells, out)


def _write_uuid(path: str, cells: Cells, out: RowWriter) -> None:
    is_uuid: Any = pc.match_substring_regex(cells.binary_values(), UUID_TEXT)
    cells.fail(~np.asarray(is_uuid.fill_null(True)), path, "is not a UUID")
    scalar_writers.write_bytes(path, cells, out, is_zigzag=True)


def _write_uuid_bytes(path: str, cells: Cells, out: RowWriter) -> None:
    """Append the 16 bytes of UUIDs that are texts."""
    texts: Any = cells.binary_values()
    is_uuid: Any = pc.match_substring_regex(texts, UUID_TEXT).fill_null(False)
    cells.fail(~np.asarray(is_uuid), path, "is not a UUID")
    digits = bytes_of(pc.if_else(is_uuid, texts, _ZERO_UUID)).tobytes().decode()
    offsets = np.arange(len(cells) + 1, dtype=np.int32) * np.int32(UUID_SIZE)
    out.append_column(binary_array(offsets, pa.py_buffer(bytes.fromhex(digits.replace("-", "")))))


def _write_fixed(size: int, path: str, cells: Cells, out: RowWriter) -> None:
    column = cells.binary_values()
    lengths = np.asarray(pc.binary_length(column).fill_null(size))
    cells.fail(lengths != size, path, f"is not {size} bytes long")
    out.append_column(column)


def _write_decimal(
    digits: int, scale: int, size: int | None, path: str, cells: Cells, out: RowWriter
) -> None:
    """Append decimals in two's complement.

    If `size` is None, each value is encoded in as few bytes as possible.
    """
    decimals = DecimalCells.of(cells).fit_to(path, digits, scale)
    sizes = np.array([size]) if size is not None else decimals.sizes()
    if size is None:
        out.append_zigzag(sizes)
    out.append_big_endian(decimals.low, decimals.high, sizes)


def _write_big_decimal(scale: bytes, cells: Cells, out: RowWriter) -> None:
    """Append decimals with their scale, as Java's `Conversions.BigDecimalConversion` does."""
    decimals = DecimalCells.of(cells)
    sizes = decimals.sizes()
    out.append_zigzag(sizes + 1 + len(scale))
    out.append_zigzag(sizes)
    out.append_big_endian(decimals.low, decimals.high, sizes)
    out.append_constant(scale)


def _write_wide_decimal(
    digits: int, scale: int, size: int | None, path: str, cells: Cells, out: RowWriter
) -> None:
    """Do the same as `_write_decimal` for decimals that can exceed 128 bits with this scale."""
    DecimalCells.of(cells).fit_to(path, digits, cells.array.type.scale)
    wide: Any = cells.array.cast(pa.decimal256(MAX_WIDE_DIGITS, scale))
    numbers = Cells(wide, cells.errors, cells.rows).raw_bytes(_WIDE_SIZE)[:, ::-1]
    sign = (numbers[:, 0] >> 7) * np.uint8(255)
    differs = numbers != sign[:, None]
    first = np.where(differs.any(1), differs.argmax(1), _WIDE_SIZE - 1)
    needed = numbers[np.arange(len(numbers)), first] >> 7 != sign >> 7
    sizes = _WIDE_SIZE - first + needed if size is None else np.full(len(numbers), size)
    if size is None:
        out.append_zigzag(sizes)
    for _ in range(_WIDE_SIZE, size or 0):
        out.append_either(sign > 0, b"\xff", b"\0")
    sizes = np.minimum(sizes, _WIDE_SIZE)
    kept = numbers[np.arange(_WIDE_SIZE) >= _WIDE_SIZE - sizes[:, None]]
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    out.append_column(binary_array(offsets, pa.py_buffer(kept.tobytes())))


def write_block(write_item: CellWriter, cells: Cells, out: RowWriter) -> None:
    """Append one block: the item count, the items, and 0. Append only 0 if there are no items."""
    offsets, items = encode_items(write_item, cells)
    counts = np.diff(offsets)
    out.append_zigzag(counts)
    out.append_column(group_items(items.join(), offsets))
    out.append_either(counts > 0, b"\0")


def write_record(
    fields: list[tuple[int, CellWriter] | bytes], cells: Cells, out: RowWriter
) -> None:
    """Append the fields in the order of the schema.

    Each field is the index of a column and its writer, or a constant.
    """
    for field_ in fields:
        if isinstance(field_, bytes):
            out.append_constant(field_)
        else:
            index, write_cells = field_
            write_cells(cells.field(index), out)
