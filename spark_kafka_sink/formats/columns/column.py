"""Columns at any depth, and their paths.

A path such as `orders[].price` identifies a column: `[]` stands for the items of a list, `.key` and
`.value` for the keys and values of a map. A `Column` describes the type of a column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.common.similar_names import nearest
from spark_kafka_sink.formats.columns.shape import Shape

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

_KINDS: Final = {
    b"variant": "Convert the variant with to_json or variant_get.",
    b"geometry": "Convert it with st_asbinary and st_srid.",
    b"geography": "Convert it with st_asbinary and st_srid.",
}
"""Types that Spark passes on as structs whose fields have this metadata, and what to do."""
MAX_DEPTH: Final = 100
"""Levels of nested columns. The encoders use Python's stack, whose limit is 1,000 frames."""


def field_path(path: str, name: str) -> str:
    """Return the path of a struct's field."""
    return f"{path}.{name}" if path else name


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
            ColumnError: two fields have the same path, a struct is Spark's form of another type,
                or there are too many levels.
        """
        if path.count(".") + path.count("[]") > MAX_DEPTH:
            raise ColumnError(
                f"column `{path.partition('.')[0]}` has more than {MAX_DEPTH} levels",
                hint="Convert the inner levels to a string, for example with to_json.",
            )
        if isinstance(type_, pa.DictionaryType):
            type_ = type_.value_type
        fields: list[tuple[pa.Field[Any], str, str]] = []
        shape = _SHAPES.get(type_, Shape.OTHER)
        if isinstance(type_, pa.StructType):
            shape = Shape.STRUCT
            fields = [(field, field_path(path, field.name), field.name) for field in type_]
            _check_fields(type_, path, [below for _, below, _ in fields])
        elif isinstance(type_, pa.ListType | pa.LargeListType):
            shape, fields = Shape.LIST, [(type_.value_field, f"{path}[]", name)]
        elif isinstance(type_, pa.MapType):
            ends = ((type_.key_field, "key"), (type_.item_field, "value"))
            shape, fields = Shape.MAP, [(field, f"{path}.{end}", name) for field, end in ends]
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
    """Check that a struct is not Spark's form of another type, and that its names are distinct."""
    kinds = {kind for field in type_ for kind in field.metadata or {}}
    for kind, hint in _KINDS.items():
        if kind in kinds:
            raise ColumnError(
                f"column `{path}` is a {kind.decode()}, which cannot be written as a field",
                hint=hint,
            )
    twice = next((name for name in paths if paths.count(name) > 1), None)
    if twice is not None:
        raise ColumnError(f"two columns have the path `{twice}`", hint="Rename one of them.")


def unsupported(column: Column, target: str, hint: str | None = None) -> ColumnError:
    """Return the error for a column that a format or a given schema cannot represent."""
    return ColumnError(
        f"{column.label} has type {column.type}, which cannot be written as {target}",
        hint=hint or "Cast or drop the column.",
    )


def missing_hint(name: str, owner: Column, hint: str) -> str:
    """Return the hint for a field without a column; names that differ in case do not match."""
    other = nearest(name, (part.name for part in owner.parts), cutoff=1.0)
    return hint if other is None else f"Rename the column `{other}` to `{name}`."


def not_declared(column: Column, owner: str) -> ColumnError:
    """Return the error for a column that a given schema does not have."""
    return ColumnError(
        f"column `{column.path}` is not a field of {owner}",
        hint="Drop the column, or add the field to the schema.",
    )
