"""Match a given JSON Schema to columns, on the driver, and create checks for the rows.

The library `jsonschema` resolves references and interprets the drafts. The rules below replace its
keywords for types, fields, items, alternatives, `enum` and `const`: they match a column instead of
a value. Other keywords, such as limits and patterns, are not checked.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.common.optional_dependencies import import_extra
from spark_kafka_sink.common.text import shown
from spark_kafka_sink.formats.column import Column, field_path, not_declared
from spark_kafka_sink.formats.json_checks import (
    AllOf,
    AnyOf,
    Entries,
    Field,
    Finite,
    Items,
    Names,
    Never,
    NotFinite,
    Part,
    RequiredKey,
    Values,
)
from spark_kafka_sink.formats.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spark_kafka_sink.formats.plan import Check

    Validator: TypeAlias = Any
    """A validator of jsonschema with the rules; its stubs allow only JSON values as instances."""

_WRITTEN: Final[dict[Shape, tuple[str, ...]]] = {
    Shape.NULL: ("null",),
    Shape.BOOLEAN: ("boolean",),
    Shape.INTEGER: ("integer", "number"),
    Shape.FLOAT: ("number",),
    Shape.DECIMAL: ("number",),
    Shape.LIST: ("array",),
    Shape.STRUCT: ("object",),
    Shape.MAP: ("object",),
}
"""JSON types of columns, the exact type first. All other columns are strings."""
_PYTHON_TYPES: Final[dict[str, tuple[type[Any], ...]]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}
_COMPARED: Final = frozenset({Shape.TEXT, Shape.BOOLEAN, Shape.INTEGER, Shape.FLOAT, Shape.DECIMAL})
"""Shapes of columns whose values are compared with `enum`."""
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_DRAFTS: Final = ("Draft202012Validator", "Draft7Validator", "Draft4Validator")
"""Drafts that are tried in this order if a schema declares none or is not valid in its draft. The
keywords and references of one draft are invalid or unknown in the others.
"""


@dataclass(frozen=True, slots=True)
class _Target:
    """A column to match, and the checks for its rows.

    Attributes:
        column: the column.
        is_text: True if only NaN and infinities are matched, which are written as texts.
        checks: the checks.
    """

    column: Column
    is_text: bool = False
    checks: list[Check] = field(default_factory=list)


@lru_cache(maxsize=64)
def compile_check(text: str, type_: pa.StructType) -> Check | None:
    """Return the check for the rows, or None if every possible row fits.

    Args:
        text: a JSON Schema.
        type_: type of the structs that are written as JSON.

    Raises:
        ColumnError: a column contradicts the schema, or a required column is missing.
        ConfigError: the text is not a JSON Schema, mixes drafts, or has an unknown reference.
    """
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the JSON Schema is not JSON: {error}") from None
    errors = []
    for draft in _drafts(schema):
        try:
            return _match_in(draft, schema, Column.of(type_))
        except ConfigError as error:
            errors.append(error)
    raise errors[0]


def _drafts(schema: Any) -> list[Any]:
    """Return the validators of the drafts to try: first the one that the schema declares.

    Raises:
        ConfigError: the draft is not supported, or a part of the schema has another one.
    """
    library = import_extra("schema-registry", "jsonschema", "a JSON Schema")
    declared = library.validators.validator_for(schema, default=None)
    if declared is library.Draft3Validator:
        raise ConfigError(
            "the JSON Schema declares draft 3, which is not supported",
            hint="Use draft 4 or newer, in which `required` is a list of names.",
        )
    main = declared or library.Draft202012Validator
    for part in _dialects(schema):
        if library.validators.validator_for({"$schema": part}, default=main) is not main:
            raise ConfigError(
                f"the JSON Schema is of draft {main.ID_OF(main.META_SCHEMA)}, but one of its parts "
                f"or references declares {part}",
                hint="Declare the same draft in `$schema` of the schema and of all its parts.",
            )
    drafts = [declared, *(getattr(library, name) for name in _DRAFTS)]
    return [draft for draft in drafts if draft is not None]


def _dialects(schema: Any) -> Iterator[str]:
    """Yield each `$schema`, at any depth."""
    if isinstance(schema, dict) and isinstance(schema.get("$schema"), str):
        yield schema["$schema"]
    if isinstance(schema, dict | list):
        for part in schema.values() if isinstance(schema, dict) else schema:
            yield from _dialects(part)


def _match_in(draft: Any, schema: Any, column: Column) -> Check | None:
    """Match a column to a schema of a draft.

    Raises:
        ColumnError: the column contradicts the schema.
        ConfigError: the schema is invalid in this draft.
    """
    from jsonschema import SchemaError, validators
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    rules = {
        name: partial(_apply, draft.VALIDATORS[name], rule)
        for name, rule in _RULES.items()
        if name in draft.VALIDATORS
    }
    try:
        draft.check_schema(schema, format_checker=None)
        # The empty registry prevents downloads of unknown references.
        with_rules: Any = validators.extend(draft, rules)  # type: ignore[no-untyped-call]
        validator = with_rules(_without_dialects(schema), registry=Registry())
        return _match(validator, column)
    except SchemaError as error:
        place = f"{error.json_path}: {shown(error.message)}"
        raise ConfigError(f"the JSON Schema is invalid at {place}") from None
    except Unresolvable as error:
        reference = f"#{error.ref}" if error.ref.startswith("/") else error.ref
        raise ConfigError(
            f"the JSON Schema has the reference {reference!r}, which is not in the schema",
            hint="Add what it refers to, for example to `definitions`.",
        ) from None
    except RecursionError:
        raise ConfigError("the JSON Schema has references that lead to themselves") from None


def _without_dialects(schema: Any) -> Any:
    """Return the schema without `$schema`, which would replace the rules by the draft's own."""
    if isinstance(schema, list):
        return [_without_dialects(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_dialects(part)
        for name, part in schema.items()
        if name != "$schema" or not isinstance(part, str)
    }


def _match(
    validator: Validator, column: Column, schema: Any = None, *, is_text: bool = False
) -> Check | None:
    """Match a column, ignoring its nulls.

    `schema` is a subschema, by default the whole schema. See `_Target` for `is_text`.
    """
    target = _Target(column, is_text)
    errors = validator.iter_errors(target) if schema is None else validator.descend(target, schema)
    for _ in errors:  # the schema false; the rules raise instead
        raise _rejected(column, "no value")
    checks = target.checks
    return AllOf(tuple(checks)) if len(checks) > 1 else checks[0] if checks else None


def _apply(
    standard: Callable[..., Iterable[Any]],
    rule: Callable[..., None],
    validator: Validator,
    value: Any,
    instance: Any,
    schema: Any,
) -> Iterable[Any]:
    """Apply a rule to a column, or the draft's own keyword to a JSON value."""
    if not isinstance(instance, _Target):
        return standard(validator, value, instance, schema) or ()
    rule(validator, value, instance, schema)
    return ()


def _part(validator: Validator, column: Column, schema: Any) -> Part:
    # A column without a type has nulls only.
    check = None if column.shape is Shape.NULL else _match(validator, column, schema)
    return Part(check, column.path, _rejects_null(validator, column, schema))


def _rejects_null(validator: Validator, column: Column, schema: Any) -> bool:
    return column.is_nullable and next(iter(validator.descend(None, schema)), None) is not None


def _part_of_some(validator: Validator, column: Column, schema: Any) -> Part:
    """Return the part for some items or entries; a contradiction is a fault of rows with any."""
    try:
        return _part(validator, column, schema)
    except ColumnError:
        rejects_null = _rejects_null(validator, column, schema)
        return Part(Never(column.path), column.path, rejects_null)


def _type(_validator: Validator, types: Any, target: _Target, _schema: Any) -> None:
    allowed = [types] if isinstance(types, str) else types
    column = target.column
    if target.is_text and "number" not in allowed and "string" in allowed:
        target.checks.append(NotFinite(column.path))
        return
    if not set(_written(column)) & set(allowed):
        raise _rejected(column, " or ".join(map(str, allowed)))
    if column.shape is Shape.FLOAT and "string" not in allowed:
        target.checks.append(Finite(column.path))


def _written(column: Column) -> tuple[str, ...]:
    if column.shape is Shape.DECIMAL and column.type.scale == 0:
        return "number", "integer"
    return _WRITTEN.get(column.shape, ("string",))


def _enum(_validator: Validator, values: Sequence[Any], target: _Target, _schema: Any) -> None:
    column = target.column
    kinds = _PYTHON_TYPES[_written(column)[0]]
    fitting: list[Any] = [
        value
        for value in values
        if isinstance(value, kinds) and isinstance(value, bool) == (bool in kinds)
    ]
    if column.shape is Shape.FLOAT:
        fitting = [float(value) for value in (*fitting, *_NOT_FINITE) if value in values]
        if 0 in fitting:  # Arrow distinguishes -0.0 from 0.0
            fitting += [0.0, -0.0]
    elif column.shape is Shape.INTEGER:
        fitting = [int(value) for value in fitting if _fits(value, column.type)]
    elif column.shape is Shape.DECIMAL:
        fitting = list(_decimals(fitting, column.type))
    if not fitting:
        raise _rejected(column, "other values")
    if column.shape in _COMPARED:
        target.checks.append(Values(tuple(fitting), column.path))


def _fits(number: float, type_: pa.DataType) -> bool:
    limit = 1 << type_.bit_width - 1
    return -limit <= number < limit and number == int(number)


def _decimals(numbers: Sequence[Any], type_: pa.DataType) -> Iterator[Decimal]:
    """Yield the numbers that a column of decimals can have."""
    for number in numbers:
        try:
            yield pa.scalar(Decimal(str(number)), type_).as_py()
        except pa.ArrowInvalid:
            continue


def _const(validator: Validator, value: Any, target: _Target, schema: Any) -> None:
    _enum(validator, [value], target, schema)


def _any_of(validator: Validator, branches: Any, target: _Target, _schema: Any) -> None:
    column, is_text = target.column, target.is_text
    fitting, errors = _fitting(validator, branches, column, is_text=is_text)
    if not fitting:
        contradictions = [error for branch, error in errors if not _is_null(branch)]
        raise contradictions[0] if len(contradictions) == 1 else _rejected(column, "other values")
    if column.shape is Shape.FLOAT and not is_text:
        others = [branch for branch, _ in errors]
        fitting += _fitting(validator, others, column, is_text=True)[0]
    checks = [check for check in fitting if check is not None]
    if len(checks) == len(fitting):  # otherwise one alternative accepts all rows
        is_single = len(checks) == 1
        target.checks.append(checks[0] if is_single else AnyOf(tuple(checks), target.column.path))


def _fitting(
    validator: Validator, branches: Sequence[Any], column: Column, *, is_text: bool
) -> tuple[list[Check | None], list[tuple[Any, ColumnError]]]:
    """Return the checks of the branches that the column fits, and the others with their errors."""
    fitting: list[Check | None] = []
    errors = []
    for branch in branches:
        try:
            fitting.append(_match(validator, column, branch, is_text=is_text))
        except ColumnError as error:
            errors.append((branch, error))
    return fitting, errors


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _required(_validator: Validator, names: Any, target: _Target, _schema: Any) -> None:
    column = target.column
    if column.shape is Shape.MAP and _has_names(column.parts[0]):
        key = column.parts[0]
        target.checks.extend(RequiredKey(name, column.path, key) for name in names)
    if column.shape is not Shape.STRUCT:
        return
    numbers = {part.name: number for number, part in enumerate(column.parts)}
    for name in names:
        if name not in numbers:
            raise ColumnError(
                f"the JSON Schema requires the field `{field_path(column.path, name)}`, which "
                "the DataFrame does not have",
                hint="Add the column, or remove its name from `required`.",
            )
        part = column.parts[numbers[name]]
        if part.is_nullable:
            rule = Part(None, part.path, rejects_null=False, rejects_omission=True)
            target.checks.append(Field(numbers[name], rule))


def _properties(
    validator: Validator, properties: Mapping[str, Any], target: _Target, _schema: Any
) -> None:
    for name, schema in properties.items():
        _named(validator, Names(names=(name,)), schema, target)


def _patterns(
    validator: Validator, patterns: Mapping[str, Any], target: _Target, _schema: Any
) -> None:
    for pattern, schema in patterns.items():
        if _is_readable(pattern):
            _named(validator, Names(patterns=(pattern,)), schema, target)


def _is_readable(pattern: str) -> bool:
    """Return True if Python can match a pattern, whose syntax is JavaScript's."""
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _additional(validator: Validator, value: Any, target: _Target, schema: Any) -> None:
    patterns = tuple(schema.get("patternProperties", ()))
    if all(map(_is_readable, patterns)):  # otherwise any field could be declared
        rest = Names(tuple(schema.get("properties", ())), patterns, is_rest=True)
        _named(validator, rest, value, target)


def _named(validator: Validator, names: Names, schema: Any, target: _Target) -> None:
    """Match the fields of a struct or the entries of a map with these names."""
    column = target.column
    if column.shape is Shape.STRUCT:
        target.checks.extend(_fields(validator, names, schema, column))
    if column.shape is not Shape.MAP:
        return
    key, value = column.parts
    if names.is_rest and not names.names and not names.patterns:
        if schema is False:
            raise not_declared(value, "the JSON Schema, which allows no others")
        part = _part(validator, value, schema)
        selection = None
    elif _has_names(key):
        part, selection = _part_of_some(validator, value, schema), names
    else:
        return
    if part.check is not None or part.rejects_null:
        target.checks.append(Entries(part, key, selection))


def _has_names(key: Column) -> bool:
    """Return True if the names of map entries depend on the key alone, not on a time zone."""
    return key.shape is not Shape.TIMESTAMP


def _fields(validator: Validator, names: Names, schema: Any, column: Column) -> Iterator[Field]:
    for number, field_ in enumerate(column.parts):
        if not names.includes(field_.name):
            continue
        if schema is False and names.is_rest and field_.shape is not Shape.NULL:
            raise not_declared(field_, "the JSON Schema, which allows no others")
        part = _part(validator, field_, schema)
        if part.check is not None or part.rejects_null:
            yield Field(number, part)


def _items(validator: Validator, items: Any, target: _Target, schema: Any) -> None:
    if isinstance(items, list):
        _prefix(validator, items, target, schema)
    else:
        is_prefixed = "prefixItems" in validator.VALIDATORS
        first = len(schema.get("prefixItems", ())) if is_prefixed else 0
        _span(validator, items, target, first, None)


def _prefix(validator: Validator, schemas: Sequence[Any], target: _Target, _schema: Any) -> None:
    for place, schema in enumerate(schemas):
        _span(validator, schema, target, place, place + 1)


def _additional_items(validator: Validator, value: Any, target: _Target, schema: Any) -> None:
    if isinstance(schema.get("items"), list):
        _span(validator, value, target, len(schema["items"]), None)


def _span(validator: Validator, schema: Any, target: _Target, first: int, last: int | None) -> None:
    """Match the items of a list from position `first` up to `last`."""
    if target.column.shape is not Shape.LIST:
        return
    is_whole = first == 0 and last is None
    part = (_part if is_whole else _part_of_some)(validator, target.column.parts[0], schema)
    if part.check is not None or part.rejects_null:
        target.checks.append(Items(part, first, last))


def _unchecked(_validator: Validator, _value: Any, _target: _Target, _schema: Any) -> None:
    """Accept the column; the keyword is not checked."""


_RULES: Final[dict[str, Callable[..., None]]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "anyOf": _any_of,
    "oneOf": _any_of,
    "required": _required,
    "properties": _properties,
    "patternProperties": _patterns,
    "additionalProperties": _additional,
    "items": _items,
    "prefixItems": _prefix,
    "additionalItems": _additional_items,
    "not": _unchecked,
    "if": _unchecked,
}


def _rejected(column: Column, allowed: str) -> ColumnError:
    written = _written(column)[0]
    name = f"column `{column.path}`" if column.path else "the record"
    return ColumnError(
        f"{name} is written as JSON {written}, but the JSON Schema allows {allowed}",
        hint="Cast or drop the column, or change the schema.",
    )
