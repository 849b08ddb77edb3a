"""Protobuf's binary encoding.

Columns are matched to a message's fields by name. Nulls, empty lists and empty maps are not
encoded. A null item of a list, a null value of a map, and a second member of a oneof are errors.

Source: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.formats.columns.column_type import (
    ColumnKind,
    ColumnType,
    field_path,
    not_declared_error,
    unsupported_error,
)
from spark_kafka_sink.formats.columns.decimal_cells import DecimalCells
from spark_kafka_sink.formats.encoding import scalar_writers
from spark_kafka_sink.formats.encoding.number_text import write_decimals
from spark_kafka_sink.formats.encoding.row_encoder import (
    CellWriter,
    RowEncoder,
    encode_items,
    write_entry,
    write_required,
    write_valid,
)
from spark_kafka_sink.formats.protobuf import protobuf_schema
from spark_kafka_sink.formats.protobuf.protobuf_types import ProtoType
from spark_kafka_sink.formats.protobuf.protobuf_wire import tag
from spark_kafka_sink.kafka.records.row_writer import RowWriter, group_items
from spark_kafka_sink.kafka.records.varint import zigzag

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.formats.columns.cells import Cells
    from spark_kafka_sink.formats.encoder_spec import EncoderSpec
    from spark_kafka_sink.kafka.records.varint import Words

_VARINT, _EIGHT, _SIZED, _START, _END, _FOUR = range(6)
"""Wire types."""
_WIRE_TYPES = {
    **dict.fromkeys((ProtoType.DOUBLE, ProtoType.FIXED64, ProtoType.SFIXED64), _EIGHT),
    **dict.fromkeys((ProtoType.FLOAT, ProtoType.FIXED32, ProtoType.SFIXED32), _FOUR),
    **dict.fromkeys((ProtoType.STRING, ProtoType.BYTES, ProtoType.MESSAGE), _SIZED),
    ProtoType.GROUP: _START,
}
"""Wire types by kind. All other kinds are varints."""
_RANGES = {
    **dict.fromkeys(
        (ProtoType.INT32, ProtoType.SINT32, ProtoType.SFIXED32), (-(1 << 31), (1 << 31) - 1)
    ),
    **dict.fromkeys((ProtoType.UINT32, ProtoType.FIXED32), (0, (1 << 32) - 1)),
    **dict.fromkeys((ProtoType.UINT64, ProtoType.FIXED64), (0, (1 << 63) - 1)),
    **dict.fromkeys(
        (ProtoType.INT64, ProtoType.SINT64, ProtoType.SFIXED64), (-(1 << 63), (1 << 63) - 1)
    ),
}
"""Minimum and maximum column value that each integer kind accepts."""
_MICROS = {
    protobuf_schema.TIMESTAMP: (-62_135_596_800_000_000, 253_402_300_799_999_999),
    protobuf_schema.DURATION: (-315_576_000_000_999_999, 315_576_000_000_999_999),
}
"""Minimum and maximum in microseconds, which readers check: years 1 to 9999, and 10,000 years."""
_FIXED = {
    ProtoType.FIXED32: 4,
    ProtoType.SFIXED32: 4,
    ProtoType.FIXED64: 8,
    ProtoType.SFIXED64: 8,
}
_SIGNED = (ProtoType.SINT32, ProtoType.SINT64)


def compile_spec(spec: EncoderSpec, type_: pa.StructType) -> RowEncoder:
    """See `encoder_spec.compile_encoder`."""
    schema = protobuf_schema.ProtoSchema.parse(spec.schema or "")
    root = _Compiler(schema).message_writer(schema.message(spec.message), ColumnType.of(type_))
    return RowEncoder(root, spec.framing.prefix)


def _field_tag(field: protobuf_schema.ProtoField) -> bytes:
    return tag(field.number, _WIRE_TYPES.get(field.kind, _VARINT))


@dataclass(frozen=True, slots=True)
class _Compiler:
    schema: protobuf_schema.ProtoSchema

    def message_writer(
        self, message: protobuf_schema.ProtoMessage, column: ColumnType
    ) -> CellWriter:
        """Return the writer of a struct.

        Raises:
            ColumnError: a column is not a field or has a different type, or a required field is
                missing.
        """
        known = {field.name: field for field in message.fields}
        fields: list[tuple[int, int, CellWriter]] = []
        oneofs: dict[str, list[tuple[int, str]]] = {}
        for index, child in enumerate(column.children):
            field = known.pop(child.name, None)
            if field is None:
                raise not_declared_error(child, message.name)
            write_cells = (
                self._value_or_null_writer(field, child, is_required=True)
                if message.is_map_entry
                else self._field_writer(field, child)
            )
            fields.append((field.number, index, write_cells))
            if field.oneof:
                oneofs.setdefault(field.oneof, []).append((index, child.path))
        for field in known.values():
            if field.is_required:
                raise ColumnError(
                    f"the required field `{field_path(column.path, field.name)}` of {message.name} "
                    "has no column",
                    hint="Add the column, or make the field optional.",
                )
        fields.sort(key=lambda field: field[0])
        body: CellWriter = partial(
            _write_message, [(index, write_cells) for _, index, write_cells in fields]
        )
        for name, members in oneofs.items():
            body = partial(_write_oneof, name, members, body) if len(members) > 1 else body
        return body

    def _field_writer(self, field: protobuf_schema.ProtoField, column: ColumnType) -> CellWriter:
        """Return the function that writes a field with its tag. It writes nothing for null."""
        if column.kind is ColumnKind.NULL:
            nothing: CellWriter = partial(write_required, scalar_writers.write_nothing, column.path)
            return nothing if field.is_required else scalar_writers.write_nothing
        if not field.is_repeated:
            return self._value_or_null_writer(field, column, is_required=field.is_required)
        entry = self.schema.messages.get(field.type_name)
        if column.kind is ColumnKind.MAP and entry and entry.is_map_entry:
            ends = sorted(entry.fields, key=lambda end: end.number)
            key, value = (
                self._value_or_null_writer(end, child, is_required=True)
                for end, child in zip(ends, column.children, strict=True)
            )
            message = partial(_write_embedded, partial(write_entry, key, value))
            write_item: CellWriter = partial(_write_tagged, _field_tag(field), message)
            return partial(write_valid, partial(_write_repeated, write_item))
        if column.kind is not ColumnKind.LIST:
            raise unsupported_error(column, f"the repeated Protobuf field {field.name}")
        (items,) = column.children
        if field.is_packed and _WIRE_TYPES.get(field.kind) not in (_SIZED, _START):
            write_item = partial(write_required, self._value_writer(field, items), items.path)
            write_cells = partial(_write_packed, tag(field.number, _SIZED), write_item)
        else:
            write_item = self._value_or_null_writer(field, items, is_required=True)
            write_cells = partial(_write_repeated, write_item)
        return partial(write_valid, write_cells)

    def _value_or_null_writer(
        self, field: protobuf_schema.ProtoField, column: ColumnType, *, is_required: bool
    ) -> CellWriter:
        write_cells = self._value_writer(field, column)
        if is_required:
            return partial(write_required, write_cells, column.path, before=_field_tag(field))
        return partial(write_valid, write_cells, before=_field_tag(field))

    def _value_writer(self, field: protobuf_schema.ProtoField, column: ColumnType) -> CellWriter:
        """Return the writer of a value without its tag."""
        write_cells: CellWriter | None
        if column.kind is ColumnKind.NULL:
            write_cells = scalar_writers.write_nothing
        elif field.kind is ProtoType.ENUM:
            write_cells = self._enum_writer(field.type_name, column)
        elif field.kind is ProtoType.GROUP:
            body = self._body_writer(field.type_name, column)
            write_cells = body and partial(_write_group, body, tag(field.number, _END))
        elif field.kind is ProtoType.MESSAGE:
            body = self._body_writer(field.type_name, column)
            write_cells = body and partial(_write_embedded, body)
        else:
            write_cells = _scalar_writer(field.kind, column)
        if write_cells is None:
            type_name = field.type_name or field.kind.name.lower()
            raise unsupported_error(column, f"Protobuf {type_name}")
        return write_cells

    def _enum_writer(self, name: str, column: ColumnType) -> CellWriter | None:
        if name not in self.schema.enums:
            raise _missing_type_error(name)
        enum = self.schema.enums[name]
        if column.kind is ColumnKind.TEXT:
            return partial(scalar_writers.write_symbol, enum.numbers, column.path, is_zigzag=False)
        if column.kind is not ColumnKind.INTEGER:
            return None
        write_cells = _integer_writer(ProtoType.INT32, column)
        if not enum.is_closed:
            return write_cells
        numbers = np.array([*enum.numbers.values()])
        return write_cells and partial(_write_closed, numbers, column.path, write_cells)

    def _body_writer(self, name: str, column: ColumnType) -> CellWriter | None:
        """Return the writer of a message without its length."""
        if (name, column.kind) in (
            (protobuf_schema.TIMESTAMP, ColumnKind.TIMESTAMP),
            (protobuf_schema.DURATION, ColumnKind.INTERVAL),
        ):
            return partial(_write_seconds, name, column.path)
        if name in protobuf_schema.WRAPPERS and column.kind is not ColumnKind.STRUCT:
            kind = protobuf_schema.WRAPPERS[name]
            write_cells = _scalar_writer(kind, column)
            return write_cells and partial(
                _write_tagged, tag(1, _WIRE_TYPES.get(kind, _VARINT)), write_cells
            )
        if name not in self.schema.messages:
            raise _missing_type_error(name)
        if column.kind is ColumnKind.STRUCT:
            return self.message_writer(self.schema.messages[name], column)
        return None


def _missing_type_error(name: str) -> ConfigError:
    return ConfigError(
        f"the Protobuf schema does not contain {name}, which a field needs",
        hint="Create the descriptor set with `protoc --include_imports`.",
    )


def _scalar_writer(kind: ProtoType, column: ColumnType) -> CellWriter | None:
    """Return the writer of a plain value, or None if the column has a different type."""
    if (
        column.kind is ColumnKind.DECIMAL
        and not column.type.scale
        and kind in (ProtoType.UINT64, ProtoType.FIXED64)
    ):
        return partial(_write_unsigned, kind, column.path)
    if kind in _RANGES:
        return _integer_writer(kind, column)
    if column.kind is ColumnKind.FLOAT and kind in (ProtoType.FLOAT, ProtoType.DOUBLE):
        is_double = kind is ProtoType.DOUBLE
        fits = is_double or column.type == pa.float32()
        return (
            partial(
                scalar_writers.write_float, np.float64 if is_double else np.float32, column.path
            )
            if fits
            else None
        )
    if kind is ProtoType.BOOL and column.kind is ColumnKind.BOOLEAN:
        return scalar_writers.write_boolean
    if kind is ProtoType.STRING and column.kind is ColumnKind.DECIMAL:
        return partial(_write_embedded, partial(write_decimals, column.type.scale))
    if kind in (ProtoType.STRING, ProtoType.BYTES) and column.kind in (
        ColumnKind.TEXT,
        ColumnKind.BYTES,
    ):
        return partial(
            scalar_writers.write_bytes, column.path if kind is ProtoType.STRING else None
        )
    return None


def _integer_writer(kind: ProtoType, column: ColumnType) -> CellWriter | None:
    is_other = (column.kind, kind) in (
        (ColumnKind.DATE, ProtoType.INT32),
        (ColumnKind.LOCAL_TIMESTAMP, ProtoType.INT64),
        (ColumnKind.TIME, ProtoType.INT64),
    )
    if column.kind is not ColumnKind.INTEGER and not is_other:
        return None
    (low, high), half = _RANGES[kind], 1 << column.type.bit_width - 1
    is_checked = -half < low or half - 1 > high
    divisor = 1000 if column.kind is ColumnKind.TIME else 1

    def write(cells: Cells, out: RowWriter) -> None:
        values = cells.integers()
        if divisor > 1:
            values = values // divisor
        if is_checked:
            bad = (values < low) | (values > high)
            problem = f"has a number out of the range of {kind.name.lower()}"
            cells.fail(bad, column.path, problem)
        _append_integers(kind, zigzag(values) if kind in _SIGNED else values.view(np.uint64), out)

    return write


def _append_integers(kind: ProtoType, words: Words, out: RowWriter) -> None:
    if kind in _FIXED:
        size = _FIXED[kind]
        out.append_low_bytes(words & np.uint64((1 << 8 * size) - 1), size)
    else:
        out.append_varints(words)


def _write_unsigned(kind: ProtoType, path: str, cells: Cells, out: RowWriter) -> None:
    """Append decimals without digits after the point as 64-bit numbers."""
    decimals = DecimalCells.of(cells)
    cells.fail(decimals.high != 0, path, f"has a number out of the range of {kind.name.lower()}")
    _append_integers(kind, np.ascontiguousarray(decimals.low).view(np.uint64), out)


def _write_seconds(name: str, path: str, cells: Cells, out: RowWriter) -> None:
    """Append seconds and nanoseconds of a Timestamp or Duration.

    In a Duration, both have the same sign.
    """
    micros, (low, high) = cells.integers(), _MICROS[name]
    cells.fail((micros < low) | (micros > high), path, f"is out of the range of {name}")
    seconds = micros // 1_000_000
    if pa.types.is_duration(cells.array.type):
        seconds += (micros < 0) & (micros % 1_000_000 != 0)
    nanos = (micros - seconds * 1_000_000) * 1000
    out.append_constant(tag(1, _VARINT))
    out.append_varints(seconds.view(np.uint64))
    out.append_constant(tag(2, _VARINT))
    out.append_varints(nanos.view(np.uint64))


def _write_tagged(start: bytes, write_cells: CellWriter, cells: Cells, out: RowWriter) -> None:
    """Append a value after its tag."""
    out.append_constant(start)
    write_cells(cells, out)


def _write_embedded(body: CellWriter, cells: Cells, out: RowWriter) -> None:
    """Append the output of `body`, preceded by its length."""
    inner = RowWriter(len(cells))
    body(cells, inner)
    out.append_varints(inner.row_sizes().view(np.uint64))
    out.append_rows(inner)


def _write_group(body: CellWriter, end: bytes, cells: Cells, out: RowWriter) -> None:
    """Append the output of `body`, followed by the end tag."""
    body(cells, out)
    out.append_constant(end)


def _write_closed(
    numbers: NDArray[np.int64], path: str, write_cells: CellWriter, cells: Cells, out: RowWriter
) -> None:
    """Append the numbers of a closed enum. Unknown numbers are errors."""
    cells.fail(~np.isin(cells.integers(), numbers), path, "is not in the enum")
    write_cells(cells, out)


def _write_repeated(write_item: CellWriter, cells: Cells, out: RowWriter) -> None:
    """Append every item of a list, or entry of a map."""
    offsets, items = encode_items(write_item, cells)
    out.append_column(group_items(items.join(), offsets))


def _write_packed(start: bytes, write_item: CellWriter, cells: Cells, out: RowWriter) -> None:
    """Append the items of a list after one tag and their length."""
    offsets, items = encode_items(write_item, cells)
    packed = RowWriter(len(cells))
    packed.append_constant(start)
    packed.append_sized(group_items(items.join(), offsets))
    out.append_rows(packed, np.diff(offsets) > 0)


def _write_message(fields: list[tuple[int, CellWriter]], cells: Cells, out: RowWriter) -> None:
    """Append the fields of a message, each with the index of its column."""
    for index, write_cells in fields:
        write_cells(cells.field(index), out)


def _write_oneof(
    name: str, members: list[tuple[int, str]], message: CellWriter, cells: Cells, out: RowWriter
) -> None:
    """Append a message. Rows with several members of the oneof are errors."""
    is_set = np.zeros(len(cells), np.bool_)
    for index, path in members:
        member = cells.field(index)
        is_valid = member.full_valid_mask()
        member.fail(
            is_set & is_valid, path, f"is set, but also another member of the oneof `{name}`"
        )
        is_set |= is_valid
    message(cells, out)
