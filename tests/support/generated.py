"""Generated types and rows, and arrays of them that hide values where Arrow allows any."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - of a timestamp without zone
NAMES = ("a", "b_2", "Camel", "x1")
_EXACT = Context(prec=38)
PLAIN_TYPES = (
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us"),
)
OTHER_TYPES = (pa.large_string(), pa.large_binary(), pa.duration("us"), pa.time64("ns"), pa.null())
_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_OTHERS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.string(): _TEXT,
    pa.large_string(): _TEXT,
    pa.binary(): st.binary(max_size=20),
    pa.large_binary(): st.binary(max_size=20),
    pa.date32(): st.dates(),
    pa.duration("us"): st.timedeltas(dt.timedelta(days=-99999), dt.timedelta(days=99999)),
    pa.time64("ns"): st.times(),
    pa.null(): st.none(),
}
_DECIMALS = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(lambda scale: pa.decimal128(precision, scale))
)


@dataclass(frozen=True)
class Generated:
    """Rows of a struct type, None for a null struct, and how to store and slice them."""

    type: pa.StructType
    rows: list[dict[str, Any] | None]
    before: int
    """Rows that precede in the array, and are sliced off."""

    def array(self) -> pa.StructArray:
        """Return the rows as a slice, with values hidden below nulls."""
        rows = [*self.rows[: self.before], *self.rows]
        built: pa.StructArray = hiding(self.type, rows).slice(len(rows) - len(self.rows))
        built.validate(full=True)
        expected: Any = pa.array(self.rows, self.type)
        shown: Any = built
        assert repr(shown.to_pylist()) == repr(expected.to_pylist())  # NaN differs from itself.
        return built


def hiding(type_: pa.DataType, values: list[Any]) -> Any:
    """Return an array whose null structs, lists and maps have fields and items below them."""
    mask = pa.array([value is None for value in values], pa.bool_())
    if isinstance(type_, pa.StructType):
        fields = list(type_)
        children = [_children(field, values) for field in fields]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if isinstance(type_, pa.MapType):
        lists = [
            [(_hidden(type_.key_type), None)] if entries is None else entries for entries in values
        ]
        keys = [key for entries in lists for key, _ in entries]
        items = hiding(type_.item_type, [item for entries in lists for _, item in entries])
        return _map(type_, lists, keys, items, mask)
    if isinstance(type_, pa.ListType):
        lists = [[None, None] if entries is None else entries for entries in values]
        items = hiding(type_.value_type, [item for entries in lists for item in entries])
        return pa.ListArray.from_arrays(_offsets(lists), items, type=type_, mask=mask)
    return pa.array(values, type_)


def _children(field: pa.Field[Any], values: list[Any]) -> Any:
    name, type_ = field.name, field.type
    return hiding(type_, [_hidden(type_) if value is None else value[name] for value in values])


def _hidden(type_: pa.DataType) -> Any:
    """Return a value to store below a null struct, or as the key of a null map."""
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "hidden below a null"
    if pa.types.is_boolean(type_):
        return True
    if pa.types.is_date(type_):
        return dt.date(2020, 1, 1)
    return 77 if pa.types.is_integer(type_) else None


def _map(
    type_: pa.MapType[Any, Any, Any],
    lists: list[list[Any]],
    keys: list[Any],
    items: pa.Array[Any],
    mask: pa.Array[Any],
) -> Any:
    entries = pa.StructArray.from_arrays(
        [pa.array(keys, type_.key_type), items], fields=[type_.key_field, type_.item_field]
    )
    bits = np.packbits(~np.asarray(mask), bitorder="little")
    buffers = [pa.py_buffer(bits.tobytes()), _offsets(lists).buffers()[1]]
    return pa.Array.from_buffers(type_, len(lists), buffers, children=[entries])


def _offsets(lists: list[list[Any]]) -> Any:
    return pa.array(
        np.concatenate(([0], np.cumsum([len(entries) for entries in lists]))), pa.int32()
    )


def plain_values(type_: pa.DataType) -> st.SearchStrategy[Any]:
    """Return values of a type that has no other type below it."""
    if pa.types.is_integer(type_):
        high = 1 << type_.bit_width - 1
        return st.integers(-high, high - 1) | st.integers(-3, 100)
    if pa.types.is_floating(type_):
        dtype = np.float32 if type_ == pa.float32() else np.float64
        money = st.integers(-(10**6), 10**6).map(lambda cents: float(dtype(cents / 100)))
        return st.floats(width=32 if type_ == pa.float32() else 64) | money
    if isinstance(type_, pa.Decimal128Type):
        digits = st.integers(-(10**type_.precision) + 1, 10**type_.precision - 1)
        return digits.map(lambda n: Decimal(n).scaleb(-type_.scale, _EXACT))
    if isinstance(type_, pa.TimestampType):
        zone = None if type_.tz is None else dt.UTC
        times = st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29))  # noqa: DTZ001
        return times.map(lambda time: time.replace(tzinfo=zone))
    return _OTHERS[type_]


def types(
    plain: tuple[pa.DataType, ...], keys: tuple[pa.DataType, ...]
) -> st.SearchStrategy[pa.DataType]:
    """Return types of any depth."""
    return st.recursive(
        st.sampled_from(plain) | _DECIMALS,
        lambda inner: _repeated(inner, keys, nullable=True) | struct_types(inner),
        max_leaves=6,
    )


def single_item_types(
    plain: tuple[pa.DataType, ...], keys: tuple[pa.DataType, ...]
) -> st.SearchStrategy[pa.DataType]:
    """Return types without lists or maps directly in lists or maps, and without null items."""
    leaves: st.SearchStrategy[pa.DataType] = st.sampled_from(plain) | _DECIMALS
    return st.recursive(
        leaves | _repeated(leaves, keys, nullable=False),
        lambda inner: struct_types(inner) | _repeated(struct_types(inner), keys, nullable=False),
        max_leaves=6,
    )


def _repeated(
    inner: st.SearchStrategy[Any], keys: tuple[pa.DataType, ...], *, nullable: bool
) -> st.SearchStrategy[pa.DataType]:
    lists = inner.map(lambda type_: pa.list_(pa.field("element", type_, nullable=nullable)))
    values = inner.map(lambda type_: pa.field("value", type_, nullable=nullable))
    return lists | st.builds(pa.map_, st.sampled_from(keys), values)


def struct_types(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.StructType]:
    """Return structs of these types, some of whose fields must not be null."""
    fields = st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=4)
    return fields.map(
        lambda chosen: pa.struct(
            [
                pa.field(name, type_, nullable=nullable or pa.types.is_null(type_))
                for name, (type_, nullable) in zip(NAMES, chosen, strict=False)
            ]
        )
    )


def values(type_: pa.DataType, nullable: bool) -> st.SearchStrategy[Any]:
    """Return values of any type; None if nullable."""
    strategy: st.SearchStrategy[Any]
    if isinstance(type_, pa.StructType):
        strategy = st.fixed_dictionaries(
            {field.name: values(field.type, field.nullable) for field in type_}
        )
    elif isinstance(type_, pa.MapType):
        pairs = st.tuples(
            values(type_.key_type, False), values(type_.item_type, type_.item_field.nullable)
        )
        strategy = st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
    elif isinstance(type_, pa.ListType):
        strategy = st.lists(values(type_.value_type, type_.value_field.nullable), max_size=4)
    else:
        strategy = plain_values(type_)
    return st.none() | strategy if nullable else strategy


@st.composite
def rows(draw: st.DrawFn, inner: st.SearchStrategy[pa.DataType]) -> Generated:
    """Return rows of generated structs."""
    type_ = draw(struct_types(inner))
    drawn = draw(st.lists(values(type_, True), max_size=8))
    return Generated(type_, drawn, draw(st.integers(0, 3)))
