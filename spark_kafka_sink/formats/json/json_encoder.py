"""Encode columns as JSON, as Spark's `to_json` does.

- Null fields are omitted unless `writes_nulls` is set; nulls in arrays and maps are written.
- Timestamps have milliseconds and the zone's offset. Binary values are base64, NaN and infinities
  are strings.
- Decimals keep their scale. Unlike in Spark, they never have an exponent; Spark writes one if they
  have more than six zeros after the point.
- Map keys that are dates or times are text. Spark writes its internal number.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.common.time_zones import check_zone, utc_offsets
from spark_kafka_sink.formats.columns.cells import bytes_of
from spark_kafka_sink.formats.columns.column_type import ColumnKind, ColumnType, unsupported_error
from spark_kafka_sink.formats.encoding import time_text
from spark_kafka_sink.formats.encoding.float_text import write_floats
from spark_kafka_sink.formats.encoding.number_text import write_decimals, write_integers
from spark_kafka_sink.formats.encoding.row_encoder import (
    CellWriter,
    RowEncoder,
    encode_items,
    write_entry,
    write_valid,
)
from spark_kafka_sink.formats.encoding.scalar_writers import write_nothing
from spark_kafka_sink.kafka.records.columns import binary_array, nullable_lengths
from spark_kafka_sink.kafka.records.row_writer import RowWriter, group_items
from spark_kafka_sink.kafka.records.views import ShortBytes

if TYPE_CHECKING:
    from spark_kafka_sink.formats.columns.cells import Cells, Mask
    from spark_kafka_sink.formats.encoder_spec import EncoderSpec

_ESCAPES = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **{ord(char): f"\\{name}" for char, name in zip("\b\f\n\r\t", "bfnrt", strict=True)},
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}
"""Escape sequence of each byte that JSON does not allow in a string."""
_PLAIN: dict[ColumnKind, CellWriter] = {
    ColumnKind.NULL: write_nothing,
    ColumnKind.BOOLEAN: lambda cells, out: out.append_either(cells.numbers(), b"true", b"false"),
    ColumnKind.INTEGER: lambda cells, out: write_integers(out, cells.integers()),
    ColumnKind.FLOAT: lambda cells, out: write_floats(out, cells.numbers()),
}


def _escape(column: pa.BinaryArray) -> pa.BinaryArray:
    """Return strings with JSON's escapes. Only strings that need escapes are copied."""
    raw = bytes_of(column)
    must_escape = (raw < 0x20) | (raw == ord('"')) | (raw == ord("\\"))
    if not must_escape.any():
        return column
    codes = np.unique(raw[must_escape]).tolist()
    plain: Any = column
    # The backslash comes first, because the other escape sequences contain a backslash.
    for code in sorted(codes, key=lambda code: code != ord("\\")):
        plain = pc.replace_substring(plain, bytes([code]), _ESCAPES[code].encode())
    return cast("pa.BinaryArray", plain)


def _base64_column(column: pa.BinaryArray) -> pa.BinaryArray:
    """Return each value in base64, or an empty value for null.

    All values are padded to multiples of three bytes and encoded at once; then the padding is
    corrected.
    """
    lengths = nullable_lengths(column, 0).astype(np.int64)
    groups = -(-lengths // 3)
    writer = RowWriter(len(column))
    writer.append_column(column)
    missing = (groups * 3 - lengths).view(np.uint64)
    writer.append_short(ShortBytes(np.zeros(1, np.uint64), missing, 2))
    padded = memoryview(writer.join().buffers()[2] or b"")[: int(groups.sum()) * 3]
    encoded = np.frombuffer(bytearray(base64.b64encode(padded)), np.uint8)
    ends = np.cumsum(groups * 4)
    for count in (1, 2):
        encoded[ends[missing >= count] - count] = ord("=")
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return binary_array(offsets, encoded)


def compile_spec(spec: EncoderSpec, type_: pa.StructType) -> RowEncoder:
    """See `encoder_spec.compile_encoder`."""
    root = _Compiler(spec.zone, bool(spec.writes_nulls)).writer_of(ColumnType.of(type_))
    return RowEncoder(root, spec.framing.prefix)


def _write_text(path: str, cells: Cells, out: RowWriter) -> None:
    out.append_column(_escape(cells.utf8_values(path)))


def _write_timestamp(zone: str | None, cells: Cells, out: RowWriter) -> None:
    """Append timestamps; `zone` is None for timestamps without time zone."""
    micros = cells.integers()
    if zone is None:
        time_text.write_timestamps(out, micros)
    else:
        offsets = utc_offsets(micros, zone)
        time_text.write_timestamps(out, micros, offsets)
        time_text.write_offsets(out, offsets)


def _write_interval(cells: Cells, out: RowWriter) -> None:
    out.append_constant(b"INTERVAL '")
    time_text.write_interval(out, cells.integers())
    out.append_constant(b"' DAY TO SECOND")


_QUOTED: dict[ColumnKind, CellWriter] = {
    ColumnKind.BYTES: lambda cells, out: out.append_column(_base64_column(cells.binary_values())),
    ColumnKind.DATE: lambda cells, out: time_text.write_dates(out, cells.integers()),
    ColumnKind.TIME: lambda cells, out: time_text.write_times(out, cells.integers()),
    ColumnKind.LOCAL_TIMESTAMP: partial(_write_timestamp, None),
    ColumnKind.INTERVAL: _write_interval,
}


def _write_float_name(cells: Cells, out: RowWriter) -> None:
    write_floats(out, cells.numbers(), quote=b"")


def _write_quoted(write_cells: CellWriter, cells: Cells, out: RowWriter, end: bytes = b'"') -> None:
    out.append_constant(b'"')
    write_cells(cells, out)
    out.append_constant(end)


def _write_or_null(write_cells: CellWriter, cells: Cells, out: RowWriter) -> None:
    write_valid(write_cells, cells, out)
    valid = cells.valid_mask()
    if valid is not None:
        out.append_either(~valid, b"null")


def _write_items(ends: bytes, write_item: CellWriter, cells: Cells, out: RowWriter) -> None:
    """Append the items of arrays or objects between `ends`, separated by commas."""
    offsets, items = encode_items(write_item, cells)
    is_full = np.diff(offsets) > 0
    is_last = np.zeros(items.rows, np.bool_)
    is_last[offsets[1:][is_full] - 1] = True
    if items.rows:
        items.append_either(is_last, ends[1:], b",")
    out.append_constant(ends[:1])
    out.append_column(group_items(items.join(), offsets))
    out.append_either(is_full, b"", ends[1:])


def _write_object(
    fields: list[tuple[bytes, CellWriter]], cells: Cells, out: RowWriter, *, writes_nulls: bool
) -> None:
    """Append an object. Each field consists of its name (quoted, with a colon) and its writer."""
    out.append_constant(b"{")
    # The rows in which an earlier field was written; None for all rows.
    before: Mask | None = np.zeros(len(cells), np.bool_)
    for number, (name, write_cells) in enumerate(fields):
        field = cells.field(number)
        if writes_nulls:
            out.append_constant(b"," + name if number else name)
            _write_or_null(write_cells, field, out)
        else:
            before = _write_field(name, write_cells, field, out, before)
    out.append_constant(b"}")


def _write_field(
    name: bytes, write_cells: CellWriter, field: Cells, out: RowWriter, before: Mask | None
) -> Mask | None:
    """Append a field unless it is null. Return the rows in which a field precedes the next one."""
    valid = field.valid_mask()
    if before is None:
        write_valid(write_cells, field, out, b"," + name)
        return None
    comma = before if valid is None else before & valid
    if comma.any():
        out.append_either(comma, b",")
    write_valid(write_cells, field, out, name)
    return None if valid is None else before | valid


@dataclass(frozen=True, slots=True)
class _Compiler:
    zone: str
    writes_nulls: bool

    def writer_of(self, column: ColumnType) -> CellWriter:
        """Return the writer of a column.

        Raises:
            ColumnError: the type cannot be written as JSON.
        """
        quoted = self._text_writer(column)
        if quoted is not None:
            return partial(_write_quoted, quoted)
        if column.kind is ColumnKind.STRUCT:
            fields = [
                (f"{json.dumps(child.name, ensure_ascii=False)}:".encode(), self.writer_of(child))
                for child in column.children
            ]
            return partial(_write_object, fields, writes_nulls=self.writes_nulls)
        if column.kind is ColumnKind.LIST:
            return partial(
                _write_items, b"[]", partial(_write_or_null, self.writer_of(column.children[0]))
            )
        if column.kind is ColumnKind.MAP:
            return self._map_writer(*column.children)
        if column.kind is ColumnKind.DECIMAL:
            return partial(write_decimals, column.type.scale)
        if column.kind not in _PLAIN:
            raise unsupported_error(column, "JSON")
        return _PLAIN[column.kind]

    def name_writer(self, key: ColumnType) -> CellWriter:
        """Return the writer of map keys as names of JSON fields, without quotes."""
        if key.kind is ColumnKind.FLOAT:
            return _write_float_name
        return self._text_writer(key) or self.writer_of(key)

    def _text_writer(self, column: ColumnType) -> CellWriter | None:
        """Return the writer of text without its quotes, or None for types that are not text."""
        if column.kind is ColumnKind.TEXT:
            return partial(_write_text, column.path)
        if column.kind is ColumnKind.TIMESTAMP:
            check_zone(self.zone)  # once per encoder, and only if a column needs it
            return partial(_write_timestamp, self.zone)
        return _QUOTED.get(column.kind)

    def _map_writer(self, key: ColumnType, value: ColumnType) -> CellWriter:
        if key.kind in (ColumnKind.STRUCT, ColumnKind.LIST, ColumnKind.MAP):
            raise unsupported_error(key, "the name of a JSON field")
        write_name = partial(_write_quoted, self.name_writer(key), end=b'":')
        write_value = partial(_write_or_null, self.writer_of(value))
        return partial(_write_items, b"{}", partial(write_entry, write_name, write_value))


def names_of(key: ColumnType, cells: Cells) -> pa.BinaryArray:
    """Return map keys, which are not timestamps with time zone, as names of JSON fields."""
    if key.kind is ColumnKind.TEXT:
        return cells.binary_values()
    out = RowWriter(len(cells))
    _Compiler("UTC", writes_nulls=False).name_writer(key)(cells, out)
    return out.join()


def check_column(column: ColumnType) -> None:
    """Raise if a column cannot be written as JSON.

    Raises:
        ColumnError: its type cannot be represented.
    """
    _Compiler("UTC", writes_nulls=False).writer_of(column)
