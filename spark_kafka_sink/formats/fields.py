"""Columns at any depth, their paths and cells, and faults of rows.

A path such as `orders[].price` identifies a column: `[]` stands for the items of a list, `.key` and
`.value` for the keys and values of a map. A `Column` describes the type of a column. `Cells` are
its entries in a batch, with the row of each entry, so that a fault in a nested value is reported
for its row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.kafka.records.columns import offsets_of, read_bytes

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Mask: TypeAlias = NDArray[np.bool_]
    """Shape (n,), one entry per cell."""


def field_path(path: str, name: str) -> str:
    """Return the path of a struct's field."""
    return f"{path}.{name}" if path else name


class Shape(Enum):
    """The format-independent meaning of a column's type."""

    STRUCT = auto()
    LIST = auto()
    MAP = auto()
    NULL = auto()
    BOOLEAN = auto()
    INTEGER = auto()
    FLOAT = auto()
    DECIMAL = auto()
    TEXT = auto()
    BYTES = auto()
    DATE = auto()
    TIME = auto()
    TIMESTAMP = auto()
    LOCAL_TIMESTAMP = auto()
    """A timestamp without time zone."""
    INTERVAL = auto()
    OTHER = auto()


_SHAPES: Final[dict[pa.DataType, Shape]] = {
    pa.null(): Shape.NULL,
    pa.bool_(): Shape.BOOLEAN,
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), Shape.INTEGER),
    **dict.fromkeys((pa.float32(), pa.float64()), Shape.FLOAT),
    **dict.fromkeys((pa.string(), pa.large_string()), Shape.TEXT),
    **dict.fromkeys((pa.binary(), pa.large_binary()), Shape.BYTES),
    pa.date32(): Shape.DATE,
    pa.time64("ns"): Shape.TIME,
    pa.timestamp("us"): Shape.LOCAL_TIMESTAMP,
    pa.duration("us"): Shape.INTERVAL,
}


@dataclass(frozen=True, slots=True)
class Column:
    """The type of a column, of a struct's field, of a list's items, or of a map's keys or values.

    Attributes:
        path: the path, as described for this module.
        name: name of the innermost field that contains the column.
        type: the Arrow type, without dictionary encoding.
        shape: the meaning of the type.
        is_nullable: True if Spark declares the column as nullable.
        parts: a struct's fields; a list's items; a map's keys and values.
    """

    path: str
    name: str
    type: Any
    shape: Shape
    is_nullable: bool
    parts: tuple[Column, ...] = ()

    @property
    def label(self) -> str:
        """The column in messages."""
        return f"column `{self.path}`" if self.path else "the struct of all columns"

    @classmethod
    def of(
        cls, type_: pa.DataType, path: str = "", name: str = "", *, nullable: bool = True
    ) -> Column:
        """Return the column with its parts.

        Raises:
            ColumnError: two fields have the same path, or a struct is Spark's form of a variant.
        """
        if isinstance(type_, pa.DictionaryType):
            type_ = type_.value_type
        fields: list[tuple[pa.Field[Any], str, str]] = []
        shape = _SHAPES.get(type_, Shape.OTHER)
        if isinstance(type_, pa.StructType):
            shape = Shape.STRUCT
            fields = [(each, field_path(path, each.name), each.name) for each in type_]
            _check_fields(type_, path, [below for _, below, _ in fields])
        elif isinstance(type_, pa.ListType | pa.LargeListType):
            shape, fields = Shape.LIST, [(type_.value_field, f"{path}[]", name)]
        elif isinstance(type_, pa.MapType):
            ends = ((type_.key_field, "key"), (type_.item_field, "value"))
            shape, fields = Shape.MAP, [(each, f"{path}.{end}", name) for each, end in ends]
        elif isinstance(type_, pa.Decimal128Type):
            shape = Shape.DECIMAL
        elif isinstance(type_, pa.TimestampType) and type_.unit == "us" and type_.tz is not None:
            shape = Shape.TIMESTAMP
        parts = (
            cls.of(field.type, below, inner, nullable=field.nullable)
            for field, below, inner in fields
        )
        return cls(path, name, type_, shape, nullable, tuple(parts))


def _check_fields(type_: pa.StructType, path: str, paths: list[str]) -> None:
    """Check that a struct is not a variant, and that its fields have distinct names."""
    if any((field.metadata or {}).get(b"variant") for field in type_):
        raise ColumnError(
            f"column `{path}` is a variant, which cannot be written as a field",
            hint="convert the variant with to_json or variant_get",
        )
    twice = next((each for each in paths if paths.count(each) > 1), None)
    if twice is not None:
        raise ColumnError(f"two columns have the path `{twice}`", hint="rename one of them")


def unsupported(column: Column, target: str, hint: str | None = None) -> ColumnError:
    """Return the error for a column that a format or a given schema cannot represent."""
    return ColumnError(
        f"{column.label} has type {column.type}, which cannot be written as {target}",
        hint=hint or "Cast or drop the column.",
    )


def not_declared(column: Column, owner: str) -> ColumnError:
    """Return the error for a column that a given schema does not have."""
    return ColumnError(
        f"column `{column.path}` is not a field of {owner}",
        hint="drop the column, or add the field to the schema",
    )


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a format allows: letters, digits and underscores.

    `start` describes what the format requires of the first character.
    """

    format: str
    pattern: re.Pattern[str]
    start: str

    def check_record(self, name: str, namespace: str) -> str:
        """Return the full name of a record.

        Raises:
            ConfigError: a part of the name is not allowed.
        """
        for part in (name, *namespace.split(".")) if namespace else (name,):
            if not self.pattern.fullmatch(part):
                raise ConfigError(
                    f"{part!r} is not a valid name in {self.format}",
                    hint=f"use letters, digits and underscores, and {self.start}",
                )
        return f"{namespace}.{name}" if namespace else name

    def check(self, column: Column) -> None:
        """Check a column's name.

        Raises:
            ColumnError: the format does not allow the name.
        """
        if not self.pattern.fullmatch(column.name):
            raise ColumnError(
                f"column `{column.path}` has a name that {self.format} does not allow",
                hint=f"rename it to letters, digits and underscores, with {self.start}",
            )


class RowFault(NamedTuple):
    """A row that does not fit the schema: its number in the batch, the field, and the problem."""

    row: int
    path: str
    problem: str


class RowFaults:
    """The faults in a batch of n rows. Only the first fault of each row is recorded."""

    __slots__ = ("_causes", "_numbers")

    def __init__(self, rows: int) -> None:
        self._causes: list[tuple[str, str]] = []
        self._numbers = np.zeros(rows, np.int32)

    def __bool__(self) -> bool:
        return bool(self._causes)

    def __iter__(self) -> Iterator[RowFault]:
        """Yield the first fault of each faulty row, in the order of rows."""
        for row in self.rows.tolist():
            yield self.of(row)

    @property
    def rows(self) -> NDArray[np.intp]:
        """The numbers of the faulty rows, in ascending order."""
        return np.flatnonzero(self._numbers)

    def of(self, row: int) -> RowFault:
        """Return the fault of a faulty row."""
        return RowFault(row, *self._causes[int(self._numbers[row]) - 1])

    def add(self, rows: NDArray[np.intp], path: str, problem: str) -> None:
        """Record a problem of these rows. In messages, `problem` follows "column `path`"."""
        new = rows[self._numbers[rows] == 0]
        if len(new):
            self._causes.append((path, problem))
            self._numbers[new] = len(self._causes)


_ASCII: Final = 0x7F
"""The highest code of a character that takes one byte in UTF-8."""


@dataclass(frozen=True, slots=True)
class Cells:
    """n entries of a column at some depth.

    Attributes:
        array: the n entries; may be a slice, and may contain nulls.
        faults: the batch's faults.
        rows: the index of each entry's row in the batch, shape (n,); None if entry i is in row i.
    """

    array: pa.Array[Any]
    faults: RowFaults
    rows: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.array)

    def valid(self) -> Mask | None:
        """Return a mask of the non-null entries, or None if there are no nulls."""
        if not self.array.null_count:
            return None
        return _mask(self.array.is_valid())

    def fail(self, bad: Mask, path: str, problem: str) -> None:
        """Record `problem` for the rows of the entries in `bad`, except null entries."""
        if bad.any():
            valid = self.valid()
            self.faults.add(self._rows(bad if valid is None else bad & valid), path, problem)

    def fail_nulls(self, path: str) -> None:
        """Record the rows of null entries as faults."""
        valid = self.valid()
        if valid is not None:
            self.faults.add(self._rows(~valid), path, "is null, but must not be")

    def without_nulls(self) -> Cells:
        """Return the entries that are not null."""
        valid = self.valid()
        if valid is None:
            return self
        return Cells(self.array.drop_null(), self.faults, self._rows(valid))

    def where(self, mask: Mask) -> Cells:
        """Return the entries for which the mask is True."""
        return Cells(self.array.filter(pa.array(mask)), self.faults, self._rows(mask))

    def _rows(self, mask: Mask) -> NDArray[np.intp]:
        numbers = np.flatnonzero(mask)
        return numbers if self.rows is None else self.rows[numbers]

    def decoded(self) -> Cells:
        """Return the entries without dictionary encoding."""
        if isinstance(self.array, pa.DictionaryArray):
            return Cells(self.array.dictionary_decode(), self.faults, self.rows)
        return self

    def field(self, number: int) -> Cells:
        """Return a field of structs, none of which is null."""
        array = cast("pa.StructArray", self.array).field(number)
        return Cells(array, self.faults, self.rows).decoded()

    def items(self) -> tuple[NDArray[np.int64], Cells]:
        """Return n + 1 offsets, starting at 0, and the items of lists or maps without nulls.

        The items of maps are structs of key and value.
        """
        array = cast("pa.ListArray[Any]", self.array)
        # The offsets of an empty slice can start at any number.
        offsets = np.asarray(array.offsets).astype(np.int64) * (len(array) > 0)
        first, last = int(offsets[0]), int(offsets[-1])
        rows = np.arange(len(array)) if self.rows is None else self.rows
        items = array.values.slice(first, last - first)
        cells = Cells(items, self.faults, np.repeat(rows, np.diff(offsets)))
        return offsets - first, cells.decoded()

    def numbers(self) -> NDArray[Any]:
        """Return fixed-width values as NumPy numbers of that width, shape (n,), with 0 for null."""
        type_ = self.array.type
        if pa.types.is_boolean(type_):
            return np.asarray(self.array.fill_null(False))
        kind = "f" if pa.types.is_floating(type_) else "i"
        dtype = np.dtype(f"{kind}{type_.bit_width // 8}")
        numbers = self.words(dtype.itemsize).view(dtype)[:, 0]
        valid = self.valid()
        kept: NDArray[Any] = numbers if valid is None else np.where(valid, numbers, dtype.type(0))
        return kept

    def integers(self) -> NDArray[np.int64]:
        """Return integers, dates or times as int64 numbers, shape (n,), with 0 for null."""
        return self.numbers().astype(np.int64, copy=False)

    def words(self, width: int) -> NDArray[np.uint8]:
        """Return fixed-width values as their bytes, shape (n, width)."""
        buffer = self.array.buffers()[1]
        if buffer is None or not len(self.array):
            return np.zeros((len(self.array), width), np.uint8)
        whole = np.frombuffer(memoryview(buffer), np.uint8)
        start = self.array.offset * width
        return whole[start : start + len(self.array) * width].reshape(-1, width)

    def strings(self) -> pa.BinaryArray:
        """Return strings or binary values as binary with 32-bit offsets. Nulls stay null."""
        return read_bytes(self.array)

    def utf8(self, path: str) -> pa.BinaryArray:
        """Return strings as binary. Strings that are not UTF-8 are faults."""
        column = self.strings()
        if values_of(column).max(initial=0) > _ASCII:
            bad = np.zeros(len(column), np.bool_)
            _mark_invalid(column, bad)
            self.fail(bad, path, "is not valid UTF-8")
        return column


def values_of(column: pa.BinaryArray) -> NDArray[np.uint8]:
    """Return the bytes of all rows, excluding rows outside a slice."""
    data = column.buffers()[2]
    if data is None or not len(column):
        return np.zeros(0, np.uint8)
    first, last = offsets_of(column)[[0, -1]].tolist()
    return np.frombuffer(memoryview(data), np.uint8)[first:last]


def _mask(array: Any) -> Mask:
    return np.asarray(array)


def _mark_invalid(column: pa.BinaryArray, bad: Mask) -> None:
    """Set `bad` for values that are not UTF-8.

    A column with such values is halved recursively to find them.
    """
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        if len(column) == 1:
            bad[0] = True
            return
        half = len(column) // 2
        _mark_invalid(column.slice(0, half), bad[:half])
        _mark_invalid(column.slice(half), bad[half:])


@dataclass(frozen=True, slots=True)
class DecimalCells:
    """Unscaled 128-bit decimals: lower and upper 64 bits, each of shape (n,), with 0 for null."""

    cells: Cells
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    @classmethod
    def of(cls, cells: Cells) -> DecimalCells:
        """Return the decimals of a decimal128 column."""
        words = cells.words(16).view(np.int64)
        low, high = words[:, 0], words[:, 1]
        valid = cells.valid()
        if valid is not None:
            low, high = low * valid, high * valid
        return cls(cells, low, high)

    def fitting(self, path: str, digits: int, scale: int) -> DecimalCells:
        """Return the decimals with `scale`, which is at least their current scale.

        Decimals with more than `digits` digits before the point are faults and become 0.
        """
        type_ = cast("pa.Decimal128Type[Any, Any]", self.cells.array.type)
        fitting = self
        if type_.precision - type_.scale > digits:
            bad = self._reaches(10 ** (digits + type_.scale))
            self.cells.fail(bad, path, f"has more than {digits} digits before the point")
            fitting = DecimalCells(self.cells, self.low * ~bad, self.high * ~bad)
        return fitting if type_.scale == scale else fitting._rescaled(scale - type_.scale)

    def magnitudes(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return lower and upper bits of the absolute values, minus 1 for negative numbers."""
        sign = self.high >> 63
        return (self.low ^ sign).view(np.uint64), (self.high ^ sign).view(np.uint64)

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of bytes that each value needs in two's complement."""
        low, high = self.magnitudes()
        sizes = np.ones(len(low), np.int64)
        for size in range(1, 9):
            sizes += (low >= np.uint64(1 << 8 * size - 1)) | (high > 0)
        if high.any():
            for size in range(9, 16):
                sizes += high >= np.uint64(1 << 8 * size - 65)
        return sizes

    def _reaches(self, limit: int) -> Mask:
        """Return a mask of the values whose absolute value is at least `limit`."""
        low, high = self.magnitudes()
        least, most = np.uint64(limit - 1 & (1 << 64) - 1), np.uint64(limit - 1 >> 64)
        bad: Mask = (high > most) | ((high == most) & (low > least))
        # For a negative number, the magnitude is its absolute value minus one.
        bad |= (high == most) & (low == least) & (self.high < 0)
        return bad

    def _rescaled(self, digits: int) -> DecimalCells:
        """Return the values multiplied by 10**digits. The results must fit into 128 bits."""
        words = np.ascontiguousarray(np.column_stack((self.low, self.high)))
        buffers = [None, pa.py_buffer(words.data)]
        wide: Any = pa.Array.from_buffers(pa.decimal128(38, 0), len(words), buffers)
        cells = Cells(wide.cast(pa.decimal128(38, digits)), self.cells.faults, self.cells.rows)
        rescaled = DecimalCells.of(cells)
        return DecimalCells(self.cells, rescaled.low, rescaled.high)
