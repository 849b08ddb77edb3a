"""The kinds and types of columns at any depth, and their paths.

A path such as `orders[].price` identifies a column: `[]` stands for the items of a list, `.key` and
`.value` for the keys and values of a map.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.common.similar_names import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPECIAL_STRUCTS = {
    b"variant": "Convert the variant with to_json or variant_get.",
    b"geometry": "Convert it with st_asbinary and st_srid.",
    b"geography": "Convert it with st_asbinary and st_srid.",
}
"""Types that Spark passes on as structs, by a name in the metadata of their fields; with hints."""
_MAX_REASONS = 5
"""Number of reasons in an error for a column that fits none of many alternatives."""
_MAX_DEPTH = 100
"""Levels of nested columns. The encoders use Python's stack, whose limit is 1,000 frames."""


class ColumnKind(Enum):
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


_COLUMN_KINDS: dict[pa.DataType, ColumnKind] = {
    pa.null(): ColumnKind.NULL,
    pa.bool_(): ColumnKind.BOOLEAN,
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), ColumnKind.INTEGER),
    **dict.fromkeys((pa.float32(), pa.float64()), ColumnKind.FLOAT),
    **dict.fromkeys((pa.string(), pa.large_string()), ColumnKind.TEXT),
    **dict.fromkeys((pa.binary(), pa.large_binary()), ColumnKind.BYTES),
    pa.date32(): ColumnKind.DATE,
    pa.time64("ns"): ColumnKind.TIME,
    pa.timestamp("us"): ColumnKind.LOCAL_TIMESTAMP,
    pa.duration("us"): ColumnKind.INTERVAL,
}


def field_path(path: str, name: str) -> str:
    """Return the path of a struct's field."""
    return f"{path}.{name}" if path else name


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column, a struct's field, a list's items, or a map's keys or values."""

    path: str
    """The path; see this module's docstring."""
    name: str
    """Name of the innermost field that contains the column."""
    type: Any
    """The Arrow type, without dictionary encoding."""
    kind: ColumnKind
    """The meaning of the type."""
    is_nullable: bool
    """True if Spark declares the column as nullable."""
    children: tuple[ColumnType, ...] = ()
    """A struct's fields; a list's items; a map's keys and values."""

    @property
    def label(self) -> str:
        """The column in messages."""
        return f"column `{self.path}`" if self.path else "the struct of all columns"

    @classmethod
    def of(
        cls, type_: pa.DataType, path: str = "", name: str = "", *, nullable: bool = True
    ) -> ColumnType:
        """Return the column with its children.

        Raises:
            ColumnError: two fields have the same path, a struct is Spark's form of another type,
                or there are too many levels.
        """
        if path.count(".") + path.count("[]") > _MAX_DEPTH:
            raise ColumnError(
                f"column `{path.partition('.')[0]}` has more than {_MAX_DEPTH} levels",
                hint="Convert the inner levels to a string, for example with to_json.",
            )
        if isinstance(type_, pa.DictionaryType):
            type_ = type_.value_type
        fields: list[tuple[pa.Field[Any], str, str]] = []
        kind = _COLUMN_KINDS.get(type_, ColumnKind.OTHER)
        if isinstance(type_, pa.StructType):
            kind = ColumnKind.STRUCT
            fields = [(field, field_path(path, field.name), field.name) for field in type_]
            _check_fields(type_, path, [below for _, below, _ in fields])
        elif isinstance(type_, pa.ListType | pa.LargeListType):
            kind, fields = ColumnKind.LIST, [(type_.value_field, f"{path}[]", name)]
        elif isinstance(type_, pa.MapType):
            ends = ((type_.key_field, "key"), (type_.item_field, "value"))
            kind, fields = ColumnKind.MAP, [(field, f"{path}.{end}", name) for field, end in ends]
        elif isinstance(type_, pa.Decimal128Type):
            kind = ColumnKind.DECIMAL
        elif isinstance(type_, pa.TimestampType) and type_.unit == "us" and type_.tz is not None:
            kind = ColumnKind.TIMESTAMP
        children = (
            cls.of(field.type, below, inner, nullable=field.nullable)
            for field, below, inner in fields
        )
        return cls(path, name, type_, kind, nullable, tuple(children))


def _check_fields(type_: pa.StructType, path: str, paths: list[str]) -> None:
    """Check that a struct is not Spark's form of another type, and that its names are distinct."""
    kinds = {kind for field in type_ for kind in field.metadata or {}}
    for kind, hint in _SPECIAL_STRUCTS.items():
        if kind in kinds:
            raise ColumnError(
                f"column `{path}` is a {kind.decode()}, which cannot be written as a field",
                hint=hint,
            )
    repeated = next((name for name in paths if paths.count(name) > 1), None)
    if repeated is not None:
        raise ColumnError(f"two columns have the path `{repeated}`", hint="Rename one of them.")


def join_reasons(messages: Sequence[str]) -> str:
    """Return the first messages, each after a semicolon, and the number of the others."""
    omitted = len(messages) - _MAX_REASONS
    listed = "".join(f"; {message}" for message in messages[:_MAX_REASONS])
    return f"{listed}; {omitted} more" if omitted > 0 else listed


def unsupported_error(column: ColumnType, form: str, hint: str | None = None) -> ColumnError:
    """Return the error for a column that a format or a given schema cannot represent."""
    return ColumnError(
        f"{column.label} has type {column.type}, which cannot be written as {form}",
        hint=hint or "Cast or drop the column.",
    )


def missing_hint(name: str, owner: ColumnType, hint: str) -> str:
    """Return the hint for a field without a column; names that differ in case do not match."""
    other = nearest(name, (child.name for child in owner.children), cutoff=1.0)
    return hint if other is None else f"Rename the column `{other}` to `{name}`."


def not_declared_error(column: ColumnType, owner: str) -> ColumnError:
    """Return the error for a column that a given schema does not have."""
    return ColumnError(
        f"column `{column.path}` is not a field of {owner}",
        hint="Drop the column, or add the field to the schema.",
    )
