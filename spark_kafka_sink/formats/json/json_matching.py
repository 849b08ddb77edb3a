"""Match a column to a JSON Schema.

`json_rules` has the rule of each keyword, and `json_validator` creates the validators that call
them with a column instead of a value.

A column that contradicts the schema is rejected. In one of several alternatives, a contradiction in
a field or in items is an error of the rows that contain a value there, unless all alternatives have
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.formats.columns.column_type import ColumnKind, ColumnType, not_declared_error
from spark_kafka_sink.formats.json.json_checks import AllOf, ChildCheck, NeverCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spark_kafka_sink.formats.encoder_spec import Check

    Rule: TypeAlias = Callable[["Validator", Any, "MatchContext", Any], None]
    """A rule for a keyword: called with the keyword's value, a column, and the whole subschema."""
    _Key: TypeAlias = tuple[int, int, tuple[str, ...], bool]
    """The identities of a subschema and of a column, the URIs of the schemas in the dynamic scope,
    and whether contradictions are collected.
    """

_JSON_TYPES: dict[ColumnKind, tuple[str, ...]] = {
    ColumnKind.NULL: ("null",),
    ColumnKind.BOOLEAN: ("boolean",),
    ColumnKind.INTEGER: ("integer", "number"),
    ColumnKind.FLOAT: ("number",),
    ColumnKind.DECIMAL: ("number",),
    ColumnKind.LIST: ("array",),
    ColumnKind.STRUCT: ("object",),
    ColumnKind.MAP: ("object",),
}
"""See `json_types`; all other columns are strings."""
_CLOSED = "the JSON Schema, which allows no others"


class Validator(Protocol):
    """A validator of `jsonschema` with the rules; `json_validator` creates it."""

    VALIDATORS: Mapping[str, Any]
    """The keywords of the draft."""

    def iter_errors(self, instance: object) -> Iterable[Any]:
        """Apply the rules of the schema to a column or to the fields that it declares.

        Yields an error if the schema is false.
        """
        ...

    def descend(self, instance: object, schema: Any) -> Iterable[Any]:
        """Apply the rules of a subschema likewise, or validate the value None."""
        ...

    def evolve(self, *, schema: Any) -> Validator:
        """Return a validator of another schema at the same place."""
        ...

    def scope_uris(self) -> tuple[str, ...]:
        """Return the URIs of the schemas in the dynamic scope."""
        ...


@dataclass(frozen=True, slots=True)
class _Cache:
    """The results of comparing a record with a schema."""

    child_checks: dict[_Key, tuple[ChildCheck | ColumnError, dict[str, ColumnError]]] = field(
        default_factory=dict
    )
    """The check of a child or its rejection, and the contradictions within it."""
    checked: set[int] = field(default_factory=set)
    """Identities of the schemas to which references lead, which are valid."""


@dataclass(frozen=True, slots=True)
class MatchContext:
    """A column to match, and the checks for its rows."""

    column: ColumnType
    is_text: bool = False
    """True if only NaN and infinities are matched, which are written as texts."""
    contradictions: dict[str, ColumnError] | None = None
    """The contradictions within an alternative by path; None if the first one rejects the column.
    """
    checks: list[Check] = field(default_factory=list)
    cache: _Cache = field(default_factory=_Cache)
    """The results for the whole record, because the alternatives of a recursive schema match the
    same column with the same subschema in many ways.
    """

    @property
    def checked(self) -> set[int]:
        """Identities of the schemas to which references lead, which are valid."""
        return self.cache.checked


def match_column(
    validator: Validator,
    column: ColumnType,
    schema: Any = None,
    *,
    is_text: bool = False,
    contradictions: dict[str, ColumnError] | None = None,
    cache: _Cache | None = None,
) -> Check | None:
    """Match a column, ignoring its nulls.

    `schema` is a subschema, by default the whole schema. See `MatchContext` for the others.
    """
    context = MatchContext(column, is_text, contradictions, cache=cache or _Cache())
    errors = (
        validator.iter_errors(context) if schema is None else validator.descend(context, schema)
    )
    for _ in errors:  # the schema false; the rules raise instead
        raise rejected_error(column, "no value")
    checks = context.checks
    return AllOf(tuple(checks)) if len(checks) > 1 else checks[0] if checks else None


def match_child(
    validator: Validator,
    context: MatchContext,
    column: ColumnType,
    schema: Any,
    *,
    is_rest: bool = False,
) -> ChildCheck:
    """Match a child that all rows contain, unless it is null or the list is empty."""
    try:
        return _child_check(validator, context, context.contradictions, column, schema)
    except ColumnError as error:
        is_unknown = is_rest and schema is False
        contradiction = not_declared_error(column, _CLOSED) if is_unknown else error
        if context.contradictions is None:
            raise contradiction from None
        context.contradictions.setdefault(column.path, contradiction)
        return _reject_child(validator, column, schema)


def match_some_children(
    validator: Validator, context: MatchContext, column: ColumnType, schema: Any
) -> ChildCheck:
    """Match some items or entries; a contradiction is an error of rows with any."""
    try:
        return _child_check(validator, context, {}, column, schema)
    except ColumnError:
        return _reject_child(validator, column, schema)


def _child_check(
    validator: Validator,
    context: MatchContext,
    contradictions: dict[str, ColumnError] | None,
    column: ColumnType,
    schema: Any,
) -> ChildCheck:
    key = id(schema), id(column), validator.scope_uris(), contradictions is None
    if key not in context.cache.child_checks:
        below: dict[str, ColumnError] | None = None if contradictions is None else {}
        child_check = _create_check(validator, context.cache, below, column, schema)
        context.cache.child_checks[key] = child_check, below or {}
    child_check, below = context.cache.child_checks[key]
    if contradictions is not None:  # The first contradiction with a path counts.
        contradictions |= below | contradictions
    if isinstance(child_check, ColumnError):
        raise child_check
    return child_check


def _create_check(
    validator: Validator,
    cache: _Cache,
    contradictions: dict[str, ColumnError] | None,
    column: ColumnType,
    schema: Any,
) -> ChildCheck | ColumnError:
    check = None
    try:
        if column.kind is not ColumnKind.NULL:  # A column without a type has nulls only.
            check = match_column(
                validator, column, schema, contradictions=contradictions, cache=cache
            )
    except ColumnError as error:
        return error
    return ChildCheck(check, column.path, _rejects_null(validator, column, schema))


def _reject_child(validator: Validator, column: ColumnType, schema: Any) -> ChildCheck:
    return ChildCheck(
        NeverCheck(column.path), column.path, _rejects_null(validator, column, schema)
    )


def _rejects_null(validator: Validator, column: ColumnType, schema: Any) -> bool:
    return column.is_nullable and next(iter(validator.descend(None, schema)), None) is not None


def json_types(column: ColumnType) -> tuple[str, ...]:
    """Return the JSON types of a column, the exact type first."""
    if column.kind is ColumnKind.DECIMAL and column.type.scale == 0:
        return "number", "integer"
    return _JSON_TYPES.get(column.kind, ("string",))


def rejected_error(column: ColumnType, allowed: str) -> ColumnError:
    """Return the error for a column whose JSON type the schema does not allow."""
    written = json_types(column)[0]
    name, hint = f"column `{column.path}`", "Cast or drop the column, or change the schema."
    if not column.path:
        name = "the record"
        hint = "Change the schema to type object: keys and values are written as JSON objects."
    return ColumnError(
        f"{name} is written as JSON {written}, but the JSON Schema allows {allowed}", hint=hint
    )
