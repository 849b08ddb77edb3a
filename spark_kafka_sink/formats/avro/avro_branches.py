"""Match columns to Avro types, and choose the branches of unions on the driver.

Branches are ranked, and each value is written with the first branch that it fits:

1. the column's own type, as in Java's `GenericData.resolveUnion`
2. types that represent every value exactly
3. types that some values do not fit

Branches of equal rank have the order of the union.

- A string column's own types are `string` and `enum`, a decimal column's are all decimals, and a
  time column's are times in microseconds and nanoseconds.
- Milliseconds come after microseconds and nanoseconds: digits are cut only if no other branch
  accepts the column.
- An integer column is written to a date or time only if no number in the union accepts it.
- A struct is written as the record with exactly its fields. If several records have these fields,
  it is the one with the closest types among those that every value fits. If that leaves none or
  several, the schema's `record` must name one.
- If no record accepts a struct, it can have one field for each branch, as Spark's `from_avro`
  returns unions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.formats.columns.column_type import ColumnKind, ColumnType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.formats.avro.avro_schema import AvroSchema

_EXACT_BITS = {"float": 24, "double": 53}
"""Number of bits of the integers that a floating-point number represents exactly."""
_TIMES = {
    ColumnKind.DATE: "date",
    ColumnKind.TIME: "time",
    ColumnKind.TIMESTAMP: "timestamp",
    ColumnKind.LOCAL_TIMESTAMP: "local-timestamp",
}
"""Start of the logical types that fit a column."""
_DECIMALS = {ColumnKind.TEXT: ("decimal", "big-decimal"), ColumnKind.BYTES: ("decimal",)}
"""Logical types of bytes to which a column is not written. Spark reads `big-decimal` as bytes."""
MAP_KEYS = frozenset({ColumnKind.TEXT, ColumnKind.NULL})
MAX_WIDE_DIGITS = 76
"""Maximum number of digits of Arrow's 256-bit decimals."""
_WITH_DEFAULTS = 10
"""Added to the rank of a record that has fields without a column."""


class _Rank(IntEnum):
    """Kinds of Avro types for a column, the closest first."""

    OWN_TYPE = 0
    SAME_KIND = 1
    """A wider number, or a time in milliseconds."""
    OTHER_KIND = 2
    """A type of another kind that represents every value."""
    NARROWER = 3
    NARROWER_OTHER_KIND = 4
    OTHER_MEANING = 5
    """A date or time for an integer."""
    NARROWER_OTHER_MEANING = 6


class Closeness(NamedTuple):
    """Distance of an Avro type from a column's type. A lower rank is closer."""

    rank: int
    """A `_Rank`, or for a record, the highest of its fields; see `_WITH_DEFAULTS`."""
    is_partial: bool = False
    """True if some values do not fit the type, or lose digits."""


@dataclass(frozen=True, slots=True)
class BranchChooser:
    """Chooses branches for the columns of one schema."""

    known: dict[tuple[int, str, int], Closeness | None] = field(default_factory=dict)
    """How close types are to columns, by the identity of the type's declaration, its namespace, and
    the identity of the column. Recursive unions match the same ones at each level.
    """

    def choose_branches(
        self, union: AvroSchema, column: ColumnType
    ) -> list[tuple[int, AvroSchema]]:
        """Return the numbers and types of the branches for a column; empty if none accepts it.

        A value that does not fit a branch is tried with the next one.

        Raises:
            ColumnError: several records fit equally.
        """
        ranked: list[tuple[Closeness, int, AvroSchema]] = []
        for index, branch in candidate_branches(union, column):
            fit = self.closeness(branch, column)
            if fit is not None:
                ranked.append((fit, index, branch))
        if column.kind is ColumnKind.STRUCT:
            return self._choose_record(ranked, column)
        ranked.sort(key=lambda entry: (entry[0].rank, entry[1]))
        # Values that a number branch does not fit are bad rows, not times.
        ranked = [entry for entry in ranked if entry[0].rank < _Rank.OTHER_MEANING] or ranked[:1]
        total = next(
            (number for number, entry in enumerate(ranked, 1) if not entry[0].is_partial), None
        )
        chosen = ranked[:total]
        return [(index, replace(branch, is_exact=len(chosen) > 1)) for _, index, branch in chosen]

    def closeness(self, schema: AvroSchema, column: ColumnType) -> Closeness | None:
        """Return how close a type is to a column's type, or None if the column does not fit it."""
        key = id(schema.json), schema.namespace, id(column)
        if key not in self.known:
            self.known[key] = self._compute_closeness(schema, column)
        return self.known[key]

    def _choose_record(
        self, ranked: Sequence[tuple[Closeness, int, AvroSchema]], column: ColumnType
    ) -> list[tuple[int, AvroSchema]]:
        """Return the number and type of the record for a struct; empty if no record accepts it.

        Raises:
            ColumnError: several records fit equally, or in each one, some values do not fit a type.
        """
        has_exact_fields = any(fit.rank < _WITH_DEFAULTS for fit, _, _ in ranked)
        ranked = [entry for entry in ranked if (entry[0].rank < _WITH_DEFAULTS) is has_exact_fields]
        total = [entry for entry in ranked if not entry[0].is_partial]
        lowest = min((fit.rank for fit, _, _ in total), default=None)
        closest = [entry for entry in total if entry[0].rank == lowest]
        closest = self._closest_in_each_field(closest, column) or ranked
        if len(closest) > 1:
            raise _ambiguous_error(column, [branch for _, _, branch in closest])
        return [(index, branch) for _, index, branch in closest]

    def _closest_in_each_field(
        self, records: list[tuple[Closeness, int, AvroSchema]], column: ColumnType
    ) -> list[tuple[Closeness, int, AvroSchema]]:
        """Return the only record that is the closest in each field, or else all records."""
        ranks = [self._ranks_of_fields(record, column) for _, _, record in records]
        lowest = [min(ranks_of_field) for ranks_of_field in zip(*ranks, strict=True)]
        best = [entry for entry, rank in zip(records, ranks, strict=True) if rank == lowest]
        return best if len(best) == 1 else records

    def _ranks_of_fields(self, record: AvroSchema, column: ColumnType) -> list[int]:
        types = {name: type_ for name, type_, _ in record.fields}
        fits = [self.closeness(types[child.name], child) for child in column.children]
        return [fit.rank for fit in fits if fit is not None]

    def _compute_closeness(self, schema: AvroSchema, column: ColumnType) -> Closeness | None:
        if schema.kind == "union":
            fits = [
                fit
                for _, branch in candidate_branches(schema, column)
                if (fit := self.closeness(branch, column)) is not None
            ]
            if not fits and (members := member_branches(schema, column)):
                return self._closeness_of_members([branch for _, branch in members], column)
            is_partial = all(fit.is_partial for fit in fits)
            return Closeness(min(fits).rank, is_partial) if fits else None
        if schema.kind == "null":
            return Closeness(_Rank.OWN_TYPE) if column.kind is ColumnKind.NULL else None
        match column.kind, schema.kind:
            case ColumnKind.NULL, _:
                return Closeness(_Rank.OWN_TYPE)
            case ColumnKind.STRUCT, "record" | "error":
                return self._closeness_of_record(schema, column)
            case ColumnKind.LIST, "array":
                return self.closeness(schema.element, column.children[0])
            case ColumnKind.MAP, "map" if column.children[0].kind in MAP_KEYS:
                return self.closeness(schema.element, column.children[1])
            case ColumnKind.INTEGER, _:
                return _closeness_of_integers(schema, column.type.bit_width)
        return _closeness_of_others(schema, column)

    def _closeness_of_members(
        self, branches: Sequence[AvroSchema], column: ColumnType
    ) -> Closeness | None:
        fits = [self.closeness(*pair) for pair in zip(branches, column.children, strict=True)]
        if None in fits:
            return None
        return Closeness(_Rank.OWN_TYPE, any(fit.is_partial for fit in fits if fit is not None))

    def _closeness_of_record(self, schema: AvroSchema, column: ColumnType) -> Closeness | None:
        children = {child.name: child for child in column.children}
        fits: list[Closeness] = []
        defaults = 0
        for name, type_, declared in schema.fields:
            child = children.pop(name, None)
            if child is not None:
                fit = self.closeness(type_, child)
                if fit is None:
                    return None
                fits.append(fit)
            elif "default" in declared or type_.accepts_null:
                defaults = _WITH_DEFAULTS
            else:
                return None
        if children:
            return None
        rank = max((fit.rank for fit in fits), default=0)
        return Closeness(defaults + rank, any(fit.is_partial for fit in fits))


def member_branches(union: AvroSchema, column: ColumnType) -> list[tuple[int, AvroSchema]]:
    """Return the branches for the fields `member0`, `member1`, ... of a struct; empty for others.

    Source: Spark's ``SchemaConverters`` and ``AvroSerializer.newComplexUnionConverter``.
    """
    branches = [pair for pair in enumerate(union.branches) if pair[1].kind != "null"]
    names = [f"member{number}" for number in range(len(branches))]
    is_members = (
        column.kind is ColumnKind.STRUCT and [child.name for child in column.children] == names
    )
    return branches if is_members and len(branches) > 1 else []


def candidate_branches(union: AvroSchema, column: ColumnType) -> list[tuple[int, AvroSchema]]:
    """Return all branches except null; for a struct, the records that the schema selects."""
    selected = union.selected_records(union.branches) if column.kind is ColumnKind.STRUCT else []
    branches = [pair for pair in enumerate(union.branches) if pair[1].kind != "null"]
    return [pair for pair in branches if pair[1] in selected] or branches


def _ambiguous_error(column: ColumnType, records: Sequence[AvroSchema]) -> ColumnError:
    names = ", ".join(record.full_name for record in records)
    return ColumnError(
        f"{column.label} fits several records of the Avro union: {names}",
        hint="Set value.schema.name (for the key, key.schema.name) to the full name of one; for "
        "several unions, to several names separated by commas.",
    )


def _closeness_of_integers(schema: AvroSchema, bits: int) -> Closeness | None:
    if schema.kind in _EXACT_BITS:
        is_exact = bits <= _EXACT_BITS[schema.kind]
        rank = _Rank.OTHER_KIND if is_exact else _Rank.NARROWER_OTHER_KIND
        return Closeness(rank, is_partial=not is_exact)
    if schema.kind not in ("int", "long"):
        return None
    if schema.logical is not None:
        if bits > 32 and schema.kind == "int":
            return Closeness(_Rank.NARROWER_OTHER_MEANING, is_partial=True)
        return Closeness(_Rank.OTHER_MEANING)
    if bits > 32 and schema.kind == "int":
        return Closeness(_Rank.NARROWER, is_partial=True)
    is_own = (schema.kind == "long") is (bits > 32)
    return Closeness(_Rank.OWN_TYPE if is_own else _Rank.SAME_KIND)


def _closeness_of_others(schema: AvroSchema, column: ColumnType) -> Closeness | None:
    logical = schema.logical or ""
    match column.kind, schema.kind:
        case (ColumnKind.BOOLEAN, "boolean") | (ColumnKind.TEXT, "string"):
            return Closeness(_Rank.OWN_TYPE, is_partial=logical == "uuid")
        case ColumnKind.FLOAT, "float" | "double":
            return _closeness_of_floats(schema, column.type.bit_width)
        case ColumnKind.DECIMAL, _ if logical == "decimal":
            return _closeness_of_decimals(schema, column)
        case ColumnKind.DECIMAL, _ if logical == "big-decimal":
            return Closeness(_Rank.SAME_KIND)
        case ColumnKind.TEXT, "enum":
            return Closeness(_Rank.OWN_TYPE, is_partial=True)
        case (ColumnKind.TEXT | ColumnKind.BYTES, "bytes") if logical not in _DECIMALS[column.kind]:
            is_own = column.kind is ColumnKind.BYTES
            return Closeness(_Rank.OWN_TYPE if is_own else _Rank.OTHER_KIND)
        case (ColumnKind.TEXT, "fixed") if logical == "uuid":
            return Closeness(_Rank.NARROWER, is_partial=True)
        case (ColumnKind.BYTES, "fixed") if logical != "decimal":
            return Closeness(_Rank.NARROWER, is_partial=True)
        case ColumnKind.BYTES, "string":
            return Closeness(_Rank.NARROWER_OTHER_KIND, is_partial=True)
    return _closeness_of_times(column.kind, schema.kind, logical)


def _closeness_of_floats(schema: AvroSchema, bits: int) -> Closeness | None:
    if schema.kind == "double":
        return Closeness(_Rank.SAME_KIND if bits == 32 else _Rank.OWN_TYPE)
    return Closeness(_Rank.OWN_TYPE) if bits == 32 else None


def _closeness_of_decimals(schema: AvroSchema, column: ColumnType) -> Closeness | None:
    digits, scale = schema.decimal_digits
    column_digits = column.type.precision - column.type.scale
    if scale < column.type.scale or column_digits + scale > MAX_WIDE_DIGITS:
        return None
    return Closeness(_Rank.OWN_TYPE, digits < column_digits)


def _closeness_of_times(column_kind: ColumnKind, avro_kind: str, logical: str) -> Closeness | None:
    if column_kind is ColumnKind.INTERVAL:
        return Closeness(_Rank.OWN_TYPE) if avro_kind == "long" and not logical else None
    start, _, unit = logical.rpartition("-")
    if _TIMES.get(column_kind) != (start or logical):
        return None
    rank = _Rank.SAME_KIND if unit == "millis" else _Rank.OWN_TYPE
    return Closeness(rank, is_partial=unit in ("millis", "nanos"))
