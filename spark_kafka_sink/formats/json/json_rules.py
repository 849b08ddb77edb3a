"""Rules that match the keywords of a JSON Schema to columns and create checks for the rows.

The rules replace the library's keywords for types, fields, items, alternatives, `enum` and `const`:
they match a column instead of a value. Other keywords, such as limits and patterns, are not
checked.

A column that contradicts the schema is rejected. In one of several alternatives, a contradiction in
a field or in items is a fault of the rows that contain a value there, unless all alternatives have
it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import urljoin

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.common.text import shown
from spark_kafka_sink.formats.columns.column import Column, field_path, missing_hint, not_declared
from spark_kafka_sink.formats.columns.shape import Shape
from spark_kafka_sink.formats.json.json_checks import (
    AllOf,
    AllowedValuesCheck,
    AnyOf,
    EntryNames,
    EntryValuesCheck,
    FieldCheck,
    FiniteCheck,
    ItemsCheck,
    NamePattern,
    NeverCheck,
    NotFiniteCheck,
    PartCheck,
    RequiredKeyCheck,
)
from spark_kafka_sink.formats.json.json_documents import (
    check_document,
    invalid_document,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spark_kafka_sink.formats.encoder_spec import Check
    from spark_kafka_sink.formats.json.json_references import Targets

    Validator: TypeAlias = Any
    """A validator of jsonschema with the rules; its stubs allow only JSON values as instances."""
    _Key: TypeAlias = tuple[int, int, tuple[str, ...], bool]
    """The identities of a subschema and of a column, the URIs of the schemas in the dynamic scope,
    and whether contradictions are collected.
    """

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
_NESTED: Final = frozenset({Shape.STRUCT, Shape.LIST, Shape.MAP})
_UNCHECKED: Final = "only the values in `enum` or `const`, which the sink can check only for "
_CLOSED: Final = "the JSON Schema, which allows no others"
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""JSON Schemas can contain such texts, but columns cannot."""
_MAX_REASONS: Final = 5
"""Reasons in an error, if a column fits none of many alternatives."""
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True, slots=True)
class _Matched:
    """What has been matched while a record is compared with a schema.

    Attributes:
        parts: the part or its rejection, and contradictions within the part.
        checked: identities of the schemas to which references lead, which are valid.
    """

    parts: dict[_Key, tuple[PartCheck | ColumnError, dict[str, ColumnError]]] = field(
        default_factory=dict
    )
    checked: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Target:
    """A column to match, and the checks for its rows.

    Attributes:
        column: the column.
        is_text: True if only NaN and infinities are matched, which are written as texts.
        contradictions: the contradictions in parts of an alternative by path; None if the first one
            rejects the column.
        checks: the checks.
        matched: the results for all parts of the record, because the alternatives of a recursive
            schema match the same column with the same subschema in many ways.
    """

    column: Column
    is_text: bool = False
    contradictions: dict[str, ColumnError] | None = None
    checks: list[Check] = field(default_factory=list)
    matched: _Matched = field(default_factory=_Matched)


@lru_cache(maxsize=64)
def with_rules(draft: Any, targets: Targets) -> Any:
    """Return a class of validators that apply the rules, also in parts that declare a draft.

    Args:
        draft: the library's validator of the draft.
        targets: the targets of references; see `resolver_of`.

    Raises:
        ConfigError: the draft is not supported.
    """
    from jsonschema import Draft3Validator, validators

    if draft is Draft3Validator:
        raise ConfigError(
            "the JSON Schema declares draft 3, which is not supported",
            hint="Use draft 4 or newer, in which `required` is a list of names.",
        )
    rules: dict[str, Any] = {
        name: partial(_apply, draft.VALIDATORS[name], rule)
        for name, rule in _RULES.items()
        if name in draft.VALIDATORS
    }
    rules["$ref"] = partial(_refer, draft, dict(targets))
    extended: Any = validators.extend(draft, rules)  # type: ignore[no-untyped-call]
    standard = extended.evolve

    def evolve(validator: Validator, **changes: Any) -> Validator:
        if not isinstance(changes.get("schema", {}), dict | bool):
            raise ConfigError(
                "the JSON Schema has a reference to something that is not a schema",
                hint="Refer to an object, true or false.",
            )
        evolved = standard(validator, **changes)
        evolved_draft: Any = type(evolved)
        return (
            evolved if evolved_draft is extended else with_rules(evolved_draft, targets)(**changes)
        )

    extended.evolve = evolve
    return extended


def _refer(
    draft: Any,
    targets: Mapping[tuple[str, str], str],
    validator: Validator,
    ref: Any,
    instance: Any,
    schema: Any,
) -> Iterable[Any]:
    """Apply `$ref` to a column or value, with the target of the reference's name.

    Raises:
        ConfigError: the reference is not a text, or leads to an invalid schema.
    """
    if not isinstance(ref, str):
        raise ConfigError(f"the JSON Schema has the reference {ref!r}, which is not a text")
    resolver: Any = validator._resolver  # noqa: SLF001 - it has no public name
    name, *fragment = ref.split("#", 1)
    base = resolver._base_uri  # noqa: SLF001 - it has no public name
    uri = urljoin(base, name)
    target = targets.get((base, name)) or targets.get((base, uri)) or targets.get(("", uri))
    reference = "#".join((target, *fragment)) if target and name else ref
    if isinstance(instance, _Target):
        part = resolver.lookup(reference).contents
        if id(part) not in instance.matched.checked:
            instance.matched.checked.add(id(part))
            _check_part(draft, ref, part)
    standard: Callable[..., Iterable[Any]] = draft.VALIDATORS["$ref"]
    return standard(validator, reference, instance, schema)


def _check_part(draft: Any, reference: str, part: Any) -> None:
    """Check a schema to which a reference leads, for example below an unknown keyword.

    Raises:
        ConfigError: the schema is invalid.
    """
    from jsonschema import SchemaError, validators

    if not isinstance(part, dict):
        return
    try:
        check_document(validators.validator_for(part, default=draft), part)
    except SchemaError as error:
        raise invalid_document(
            f"the JSON Schema of the reference {shown(reference)}", error
        ) from None


def match(
    validator: Validator,
    column: Column,
    schema: Any = None,
    *,
    is_text: bool = False,
    contradictions: dict[str, ColumnError] | None = None,
    matched: _Matched | None = None,
) -> Check | None:
    """Match a column, ignoring its nulls.

    `schema` is a subschema, by default the whole schema. See `_Target` for the other arguments.
    """
    target = _Target(column, is_text, contradictions, matched=matched or _Matched())
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


def _part(
    validator: Validator, target: _Target, column: Column, schema: Any, *, is_rest: bool = False
) -> PartCheck:
    """Match a part of the target that all rows contain, unless it is null or the list is empty."""
    try:
        return _matched_part(validator, target, target.contradictions, column, schema)
    except ColumnError as error:
        is_unknown = is_rest and schema is False
        contradiction = not_declared(column, _CLOSED) if is_unknown else error
        if target.contradictions is None:
            raise contradiction from None
        target.contradictions.setdefault(column.path, contradiction)
        return _no_part(validator, column, schema)


def _part_of_some(validator: Validator, target: _Target, column: Column, schema: Any) -> PartCheck:
    """Match some items or entries; a contradiction is a fault of rows with any."""
    try:
        return _matched_part(validator, target, {}, column, schema)
    except ColumnError:
        return _no_part(validator, column, schema)


def _matched_part(
    validator: Validator,
    target: _Target,
    contradictions: dict[str, ColumnError] | None,
    column: Column,
    schema: Any,
) -> PartCheck:
    scope: Any = validator._resolver.dynamic_scope()  # noqa: SLF001 - it has no public name
    uris = tuple(dict.fromkeys(uri for uri, _ in scope))
    key = id(schema), id(column), uris, contradictions is None
    if key not in target.matched.parts:
        below: dict[str, ColumnError] | None = None if contradictions is None else {}
        part = _new_part(validator, target.matched, below, column, schema)
        target.matched.parts[key] = part, below or {}
    part, below = target.matched.parts[key]
    if contradictions is not None:  # The first contradiction with a path counts.
        contradictions |= below | contradictions
    if isinstance(part, ColumnError):
        raise part
    return part


def _new_part(
    validator: Validator,
    matched: _Matched,
    contradictions: dict[str, ColumnError] | None,
    column: Column,
    schema: Any,
) -> PartCheck | ColumnError:
    check = None
    try:
        if column.shape is not Shape.NULL:  # A column without a type has nulls only.
            check = match(validator, column, schema, contradictions=contradictions, matched=matched)
    except ColumnError as error:
        return error
    return PartCheck(check, column.path, _rejects_null(validator, column, schema))


def _no_part(validator: Validator, column: Column, schema: Any) -> PartCheck:
    return PartCheck(NeverCheck(column.path), column.path, _rejects_null(validator, column, schema))


def _rejects_null(validator: Validator, column: Column, schema: Any) -> bool:
    return column.is_nullable and next(iter(validator.descend(None, schema)), None) is not None


def _type(_validator: Validator, types: Any, target: _Target, _schema: Any) -> None:
    allowed = [types] if isinstance(types, str) else types
    column = target.column
    if target.is_text and "number" not in allowed and "string" in allowed:
        target.checks.append(NotFiniteCheck(column.path))
        return
    if not set(_written(column)) & set(allowed):
        raise _rejected(column, " or ".join(map(str, allowed)))
    if column.shape is Shape.FLOAT and "string" not in allowed:
        target.checks.append(FiniteCheck(column.path))


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
        fitting = _floats(
            column.type, (*fitting, *(name for name in _NOT_FINITE if name in values))
        )
    elif column.shape is Shape.INTEGER:
        fitting = [int(value) for value in fitting if _fits(value, column.type)]
    elif column.shape is Shape.DECIMAL:
        fitting = list(_decimals(fitting, column.type))
    elif kinds == _PYTHON_TYPES["string"]:
        fitting = [value for value in fitting if not _LONE_SURROGATE.search(value)]
    if not fitting:
        raise _rejected(column, "other values")
    if column.shape in _NESTED:
        raise _rejected(column, f"{_UNCHECKED}columns that are not nested")
    if column.shape is Shape.TIMESTAMP:
        raise _rejected(column, f"{_UNCHECKED}texts that do not depend on the time zone")
    if column.shape is not Shape.NULL:
        target.checks.append(AllowedValuesCheck(tuple(fitting), column))


def _floats(type_: pa.DataType, numbers: Sequence[Any]) -> list[float]:
    """Return the numbers that a column of floats can have."""
    fitting = [float(n) for n in numbers if isinstance(n, str) or _is_written(type_, n)]
    return [*fitting, 0.0, -0.0] if 0 in fitting else fitting  # Arrow distinguishes them


def _is_written(type_: pa.DataType, number: float) -> bool:
    """Return True if a float of this type is written as this number."""
    try:
        with np.errstate(over="ignore"):
            return bool(float(str(cast("Any", type_.to_pandas_dtype())(number))) == number)
    except OverflowError:
        return False


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
    fitting, errors = _fitting(validator, branches, target, is_text=is_text)
    if not fitting:
        raise _rejected_by_all(column, [error for branch, error in errors if not _is_null(branch)])
    _contradict(target, [contradictions for _, contradictions in fitting])
    if column.shape is Shape.FLOAT and not is_text:
        others = [branch for branch, _ in errors]
        fitting += _fitting(validator, others, target, is_text=True)[0]
    checks = [check for check, _ in fitting if check is not None]
    if len(checks) == len(fitting):  # otherwise one alternative accepts all rows
        is_single = len(checks) == 1
        target.checks.append(checks[0] if is_single else AnyOf(tuple(checks), target.column.path))


def _fitting(
    validator: Validator, branches: Sequence[Any], target: _Target, *, is_text: bool
) -> tuple[list[tuple[Check | None, dict[str, ColumnError]]], list[tuple[Any, ColumnError]]]:
    """Return the checks and contradictions of the branches that some values fit; others' errors."""
    fitting: list[tuple[Check | None, dict[str, ColumnError]]] = []
    errors = []
    for branch in branches:
        contradictions: dict[str, ColumnError] = {}
        try:
            check = match(
                validator,
                target.column,
                branch,
                is_text=is_text,
                contradictions=contradictions,
                matched=target.matched,
            )
            fitting.append((check, contradictions))
        except ColumnError as error:
            errors.append((branch, error))
    return fitting, errors


def _contradict(target: _Target, alternatives: Sequence[dict[str, ColumnError]]) -> None:
    """Raise or store the contradictions that all alternatives have."""
    first, *others = alternatives
    for path, error in first.items():
        if all(path in other for other in others):
            if target.contradictions is None:
                raise error
            target.contradictions.setdefault(path, error)


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _required(_validator: Validator, names: Any, target: _Target, _schema: Any) -> None:
    column = target.column
    if column.shape is Shape.MAP and _has_names(column.parts[0]):
        key = column.parts[0]
        target.checks.extend(RequiredKeyCheck(name, column.path, key) for name in names)
    if column.shape is not Shape.STRUCT:
        return
    numbers = {part.name: number for number, part in enumerate(column.parts)}
    for name in names:
        if name not in numbers:
            raise ColumnError(
                f"the JSON Schema requires the field `{field_path(column.path, name)}`, which "
                "the DataFrame does not have",
                hint=missing_hint(
                    name, column, "Add the column, or remove its name from `required`."
                ),
            )
        part = column.parts[numbers[name]]
        if part.is_nullable:
            rule = PartCheck(None, part.path, rejects_null=False, rejects_omission=True)
            target.checks.append(FieldCheck(numbers[name], rule))


def _properties(
    validator: Validator, properties: Mapping[str, Any], target: _Target, _schema: Any
) -> None:
    for name, schema in properties.items():
        _named(validator, EntryNames(names=(name,)), schema, target)


def _patterns(
    validator: Validator, patterns: Mapping[str, Any], target: _Target, _schema: Any
) -> None:
    for pattern, schema in patterns.items():
        if (expression := NamePattern.of(pattern)) is not None:
            _named(validator, EntryNames(patterns=(expression,)), schema, target)


def _additional(validator: Validator, value: Any, target: _Target, schema: Any) -> None:
    patterns = tuple(map(NamePattern.of, schema.get("patternProperties", ())))
    readable = tuple(pattern for pattern in patterns if pattern is not None)
    if len(readable) == len(patterns):  # otherwise any field could be declared
        additional = EntryNames(tuple(schema.get("properties", ())), readable, is_rest=True)
        _named(validator, additional, value, target)


def _named(validator: Validator, names: EntryNames, schema: Any, target: _Target) -> None:
    """Match the fields of a struct or the entries of a map with these names."""
    column = target.column
    if column.shape is Shape.STRUCT:
        target.checks.extend(_fields(validator, names, schema, target))
    if column.shape is not Shape.MAP:
        return
    key, value = column.parts
    if names.is_rest and not names.names and not names.patterns:
        part, selection = _part(validator, target, value, schema, is_rest=True), None
    elif _has_names(key):
        part, selection = _part_of_some(validator, target, value, schema), names
    else:
        return
    if part.check is not None or part.rejects_null:
        target.checks.append(EntryValuesCheck(part, key, selection))


def _has_names(key: Column) -> bool:
    """Return True if the names of map entries depend on the key alone, not on a time zone."""
    return key.shape is not Shape.TIMESTAMP


def _fields(
    validator: Validator, names: EntryNames, schema: Any, target: _Target
) -> Iterator[FieldCheck]:
    for number, field_ in enumerate(target.column.parts):
        if names.includes(field_.name):
            part = _part(validator, target, field_, schema, is_rest=names.is_rest)
            if part.check is not None or part.rejects_null:
                yield FieldCheck(number, part)


def _items(validator: Validator, items: Any, target: _Target, schema: Any) -> None:
    if isinstance(items, list):
        _prefix(validator, items, target, schema)
    else:
        is_prefixed = "prefixItems" in validator.VALIDATORS
        first = len(schema.get("prefixItems", ())) if is_prefixed else 0
        _span(validator, items, target, first, None)


def _prefix(validator: Validator, schemas: Sequence[Any], target: _Target, _schema: Any) -> None:
    for index, schema in enumerate(schemas):
        _span(validator, schema, target, index, index + 1)


def _additional_items(validator: Validator, value: Any, target: _Target, schema: Any) -> None:
    if isinstance(schema.get("items"), list):
        _span(validator, value, target, len(schema["items"]), None)


def _span(validator: Validator, schema: Any, target: _Target, first: int, last: int | None) -> None:
    """Match the items of a list from position `first` up to `last`."""
    if target.column.shape is not Shape.LIST:
        return
    item = target.column.parts[0]
    is_whole = first == 0 and last is None
    part = (
        _part(validator, target, item, schema)
        if is_whole
        else _part_of_some(validator, target, item, schema)
    )
    if part.check is not None or part.rejects_null:
        target.checks.append(ItemsCheck(part, first, last))


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


def _rejected_by_all(column: Column, errors: Sequence[ColumnError]) -> ColumnError:
    """Return an error with the reasons of alternatives, none of which the column fits."""
    reasons = {error.message: error for error in errors}
    if len(reasons) == 1:
        return errors[0]
    if not reasons:
        return _rejected(column, "null only")
    name = f"column `{column.path}`" if column.path else "the record"
    described = "; ".join([*reasons][:_MAX_REASONS])
    others = len(reasons) - _MAX_REASONS
    more = f"; {others} more" if others > 0 else ""
    return ColumnError(
        f"{name} fits none of the alternatives in the JSON Schema: {described}{more}",
        hint="Change the columns so that one of the alternatives fits, or change the schema.",
    )


def _rejected(column: Column, allowed: str) -> ColumnError:
    written = _written(column)[0]
    name, hint = f"column `{column.path}`", "Cast or drop the column, or change the schema."
    if not column.path:
        name = "the record"
        hint = "Change the schema to type object: keys and values are written as JSON objects."
    return ColumnError(
        f"{name} is written as JSON {written}, but the JSON Schema allows {allowed}", hint=hint
    )
