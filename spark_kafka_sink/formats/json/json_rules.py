"""Rules that match the keywords of a JSON Schema to columns and create checks for the rows.

The rules replace the library's keywords for types, fields, items, alternatives, `enum` and `const`:
they match a column instead of a value. Other keywords, such as limits and patterns, are not
checked.

A column that contradicts the schema is rejected. In one of several alternatives, a contradiction in
a field or in items is an error of the rows that contain a value there, unless all alternatives have
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
from spark_kafka_sink.formats.columns.column_kind import ColumnKind
from spark_kafka_sink.formats.columns.column_type import (
    ColumnType,
    field_path,
    join_reasons,
    missing_hint,
    not_declared_error,
)
from spark_kafka_sink.formats.json.json_checks import (
    AllOf,
    AllowedValuesCheck,
    AnyOf,
    ChildCheck,
    EntryNames,
    EntryValuesCheck,
    FieldCheck,
    FiniteCheck,
    ItemsCheck,
    NamePattern,
    NeverCheck,
    NotFiniteCheck,
    RequiredKeyCheck,
)
from spark_kafka_sink.formats.json.json_documents import check_document, invalid_document_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spark_kafka_sink.formats.encoder_spec import Check
    from spark_kafka_sink.formats.json.json_references import ReferenceUris

    Validator: TypeAlias = Any
    """A validator of jsonschema with the rules; its stubs allow only JSON values as instances."""
    _Key: TypeAlias = tuple[int, int, tuple[str, ...], bool]
    """The identities of a subschema and of a column, the URIs of the schemas in the dynamic scope,
    and whether contradictions are collected.
    """

_JSON_TYPES: Final[dict[ColumnKind, tuple[str, ...]]] = {
    ColumnKind.NULL: ("null",),
    ColumnKind.BOOLEAN: ("boolean",),
    ColumnKind.INTEGER: ("integer", "number"),
    ColumnKind.FLOAT: ("number",),
    ColumnKind.DECIMAL: ("number",),
    ColumnKind.LIST: ("array",),
    ColumnKind.STRUCT: ("object",),
    ColumnKind.MAP: ("object",),
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
_NESTED: Final = frozenset({ColumnKind.STRUCT, ColumnKind.LIST, ColumnKind.MAP})
_UNCHECKED: Final = "only the values in `enum` or `const`, which the sink can check only for "
_CLOSED: Final = "the JSON Schema, which allows no others"
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""JSON Schemas can contain such texts, but columns cannot."""
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True, slots=True)
class _Cache:
    """The results of comparing a record with a schema.

    Attributes:
        child_checks: the check of a child or its rejection, and the contradictions within it.
        checked: identities of the schemas to which references lead, which are valid.
    """

    child_checks: dict[_Key, tuple[ChildCheck | ColumnError, dict[str, ColumnError]]] = field(
        default_factory=dict
    )
    checked: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Context:
    """A column to match, and the checks for its rows.

    Attributes:
        column: the column.
        is_text: True if only NaN and infinities are matched, which are written as texts.
        contradictions: the contradictions within an alternative by path; None if the first one
            rejects the column.
        checks: the checks.
        cache: the results for the whole record, because the alternatives of a recursive
            schema match the same column with the same subschema in many ways.
    """

    column: ColumnType
    is_text: bool = False
    contradictions: dict[str, ColumnError] | None = None
    checks: list[Check] = field(default_factory=list)
    cache: _Cache = field(default_factory=_Cache)


@lru_cache(maxsize=64)
def create_validator_class(draft: Any, reference_uris: ReferenceUris) -> Any:
    """Return a class of validators that apply the rules, also in parts that declare a draft.

    Args:
        draft: the library's validator of the draft.
        reference_uris: the URIs to which references lead; see `create_resolver`.

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
        name: partial(_apply_rule, draft.VALIDATORS[name], rule)
        for name, rule in _RULES.items()
        if name in draft.VALIDATORS
    }
    rules["$ref"] = partial(_follow_reference, draft, dict(reference_uris))
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
            evolved
            if evolved_draft is extended
            else create_validator_class(evolved_draft, reference_uris)(**changes)
        )

    extended.evolve = evolve
    return extended


def _follow_reference(
    draft: Any,
    reference_uris: Mapping[tuple[str, str], str],
    validator: Validator,
    ref: Any,
    instance: Any,
    schema: Any,
) -> Iterable[Any]:
    """Apply `$ref` to a column or value, with the URI of the document to which its name leads.

    Raises:
        ConfigError: the reference is not a text, or leads to an invalid schema.
    """
    if not isinstance(ref, str):
        raise ConfigError(f"the JSON Schema has the reference {ref!r}, which is not a text")
    resolver: Any = validator._resolver  # noqa: SLF001 - it has no public name
    name, *fragment = ref.split("#", 1)
    base = resolver._base_uri  # noqa: SLF001 - it has no public name
    uri = urljoin(base, name)
    keys = (base, name), (base, uri), ("", uri)
    document_uri = next((reference_uris[key] for key in keys if key in reference_uris), None)
    reference = "#".join((document_uri, *fragment)) if document_uri and name else ref
    if isinstance(instance, _Context):
        subschema = resolver.lookup(reference).contents
        if id(subschema) not in instance.cache.checked:
            instance.cache.checked.add(id(subschema))
            _check_subschema(draft, ref, subschema)
    standard: Callable[..., Iterable[Any]] = draft.VALIDATORS["$ref"]
    return standard(validator, reference, instance, schema)


def _check_subschema(draft: Any, reference: str, subschema: Any) -> None:
    """Check a schema to which a reference leads, for example below an unknown keyword.

    Raises:
        ConfigError: the schema is invalid.
    """
    from jsonschema import SchemaError, validators

    if not isinstance(subschema, dict):
        return
    try:
        check_document(validators.validator_for(subschema, default=draft), subschema)
    except SchemaError as error:
        raise invalid_document_error(
            f"the JSON Schema of the reference {shown(reference)}", error
        ) from None


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

    `schema` is a subschema, by default the whole schema. See `_Context` for the others.
    """
    context = _Context(column, is_text, contradictions, cache=cache or _Cache())
    errors = (
        validator.iter_errors(context) if schema is None else validator.descend(context, schema)
    )
    for _ in errors:  # the schema false; the rules raise instead
        raise _rejected_error(column, "no value")
    checks = context.checks
    return AllOf(tuple(checks)) if len(checks) > 1 else checks[0] if checks else None


def _apply_rule(
    standard: Callable[..., Iterable[Any]],
    rule: Callable[..., None],
    validator: Validator,
    value: Any,
    instance: Any,
    schema: Any,
) -> Iterable[Any]:
    """Apply a rule to a column, or the draft's own keyword to a JSON value."""
    if not isinstance(instance, _Context):
        return standard(validator, value, instance, schema) or ()
    rule(validator, value, instance, schema)
    return ()


def _match_child(
    validator: Validator,
    context: _Context,
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


def _match_some(
    validator: Validator, context: _Context, column: ColumnType, schema: Any
) -> ChildCheck:
    """Match some items or entries; a contradiction is an error of rows with any."""
    try:
        return _child_check(validator, context, {}, column, schema)
    except ColumnError:
        return _reject_child(validator, column, schema)


def _child_check(
    validator: Validator,
    context: _Context,
    contradictions: dict[str, ColumnError] | None,
    column: ColumnType,
    schema: Any,
) -> ChildCheck:
    scope: Any = validator._resolver.dynamic_scope()  # noqa: SLF001 - it has no public name
    uris = tuple(dict.fromkeys(uri for uri, _ in scope))
    key = id(schema), id(column), uris, contradictions is None
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


def _match_type(_validator: Validator, types: Any, context: _Context, _schema: Any) -> None:
    allowed = [types] if isinstance(types, str) else types
    column = context.column
    if context.is_text and "number" not in allowed and "string" in allowed:
        context.checks.append(NotFiniteCheck(column.path))
        return
    if not set(_json_types(column)) & set(allowed):
        raise _rejected_error(column, " or ".join(map(str, allowed)))
    if column.kind is ColumnKind.FLOAT and "string" not in allowed:
        context.checks.append(FiniteCheck(column.path))


def _json_types(column: ColumnType) -> tuple[str, ...]:
    if column.kind is ColumnKind.DECIMAL and column.type.scale == 0:
        return "number", "integer"
    return _JSON_TYPES.get(column.kind, ("string",))


def _match_enum(
    _validator: Validator, values: Sequence[Any], context: _Context, _schema: Any
) -> None:
    column = context.column
    kinds = _PYTHON_TYPES[_json_types(column)[0]]
    fitting: list[Any] = [
        value
        for value in values
        if isinstance(value, kinds) and isinstance(value, bool) == (bool in kinds)
    ]
    if column.kind is ColumnKind.FLOAT:
        fitting = _allowed_floats(
            column.type, (*fitting, *(name for name in _NOT_FINITE if name in values))
        )
    elif column.kind is ColumnKind.INTEGER:
        fitting = [int(value) for value in fitting if _fits(value, column.type)]
    elif column.kind is ColumnKind.DECIMAL:
        fitting = list(_allowed_decimals(fitting, column.type))
    elif kinds == _PYTHON_TYPES["string"]:
        fitting = [value for value in fitting if not _LONE_SURROGATE.search(value)]
    if not fitting:
        raise _rejected_error(column, "other values")
    if column.kind in _NESTED:
        raise _rejected_error(column, f"{_UNCHECKED}columns that are not nested")
    if column.kind is ColumnKind.TIMESTAMP:
        raise _rejected_error(column, f"{_UNCHECKED}texts that do not depend on the time zone")
    if column.kind is not ColumnKind.NULL:
        context.checks.append(AllowedValuesCheck(tuple(fitting), column))


def _allowed_floats(type_: pa.DataType, numbers: Sequence[Any]) -> list[float]:
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


def _allowed_decimals(numbers: Sequence[Any], type_: pa.DataType) -> Iterator[Decimal]:
    """Yield the numbers that a column of decimals can have."""
    for number in numbers:
        try:
            yield pa.scalar(Decimal(str(number)), type_).as_py()
        except pa.ArrowInvalid:
            continue


def _match_const(validator: Validator, value: Any, context: _Context, schema: Any) -> None:
    _match_enum(validator, [value], context, schema)


def _match_any_of(validator: Validator, branches: Any, context: _Context, _schema: Any) -> None:
    column, is_text = context.column, context.is_text
    fitting, errors = _match_branches(validator, branches, context, is_text=is_text)
    if not fitting:
        raise _no_alternative_error(
            column, [error for branch, error in errors if not _is_null(branch)]
        )
    _merge_contradictions(context, [contradictions for _, contradictions in fitting])
    if column.kind is ColumnKind.FLOAT and not is_text:
        others = [branch for branch, _ in errors]
        fitting += _match_branches(validator, others, context, is_text=True)[0]
    checks = [check for check, _ in fitting if check is not None]
    if len(checks) == len(fitting):  # otherwise one alternative accepts all rows
        is_single = len(checks) == 1
        context.checks.append(checks[0] if is_single else AnyOf(tuple(checks), context.column.path))


def _match_branches(
    validator: Validator, branches: Sequence[Any], context: _Context, *, is_text: bool
) -> tuple[list[tuple[Check | None, dict[str, ColumnError]]], list[tuple[Any, ColumnError]]]:
    """Return the checks and contradictions of the branches that some values fit; others' errors."""
    fitting: list[tuple[Check | None, dict[str, ColumnError]]] = []
    errors = []
    for branch in branches:
        contradictions: dict[str, ColumnError] = {}
        try:
            check = match_column(
                validator,
                context.column,
                branch,
                is_text=is_text,
                contradictions=contradictions,
                cache=context.cache,
            )
            fitting.append((check, contradictions))
        except ColumnError as error:
            errors.append((branch, error))
    return fitting, errors


def _merge_contradictions(
    context: _Context, alternatives: Sequence[dict[str, ColumnError]]
) -> None:
    """Raise or store the contradictions that all alternatives have."""
    first, *others = alternatives
    for path, error in first.items():
        if all(path in other for other in others):
            if context.contradictions is None:
                raise error
            context.contradictions.setdefault(path, error)


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _match_required(_validator: Validator, names: Any, context: _Context, _schema: Any) -> None:
    column = context.column
    if column.kind is ColumnKind.MAP and _has_names(column.children[0]):
        key = column.children[0]
        context.checks.extend(RequiredKeyCheck(name, column.path, key) for name in names)
    if column.kind is not ColumnKind.STRUCT:
        return
    numbers = {child.name: number for number, child in enumerate(column.children)}
    for name in names:
        if name not in numbers:
            raise ColumnError(
                f"the JSON Schema requires the field `{field_path(column.path, name)}`, which "
                "the DataFrame does not have",
                hint=missing_hint(
                    name, column, "Add the column, or remove its name from `required`."
                ),
            )
        child = column.children[numbers[name]]
        if child.is_nullable:
            rule = ChildCheck(None, child.path, rejects_null=False, rejects_omission=True)
            context.checks.append(FieldCheck(numbers[name], rule))


def _match_properties(
    validator: Validator, properties: Mapping[str, Any], context: _Context, _schema: Any
) -> None:
    for name, schema in properties.items():
        _match_named(validator, EntryNames(names=(name,)), schema, context)


def _match_patterns(
    validator: Validator, patterns: Mapping[str, Any], context: _Context, _schema: Any
) -> None:
    for pattern, schema in patterns.items():
        if (expression := NamePattern.of(pattern)) is not None:
            _match_named(validator, EntryNames(patterns=(expression,)), schema, context)


def _match_additional(validator: Validator, value: Any, context: _Context, schema: Any) -> None:
    patterns = tuple(map(NamePattern.of, schema.get("patternProperties", ())))
    readable = tuple(pattern for pattern in patterns if pattern is not None)
    if len(readable) == len(patterns):  # otherwise any field could be declared
        additional = EntryNames(tuple(schema.get("properties", ())), readable, is_rest=True)
        _match_named(validator, additional, value, context)


def _match_named(validator: Validator, names: EntryNames, schema: Any, context: _Context) -> None:
    """Match the fields of a struct or the entries of a map with these names."""
    column = context.column
    if column.kind is ColumnKind.STRUCT:
        context.checks.extend(_field_checks(validator, names, schema, context))
    if column.kind is not ColumnKind.MAP:
        return
    key, value = column.children
    if names.is_rest and not names.names and not names.patterns:
        child_check, selection = _match_child(validator, context, value, schema, is_rest=True), None
    elif _has_names(key):
        child_check, selection = _match_some(validator, context, value, schema), names
    else:
        return
    if child_check.check is not None or child_check.rejects_null:
        context.checks.append(EntryValuesCheck(child_check, key, selection))


def _has_names(key: ColumnType) -> bool:
    """Return True if the names of map entries depend on the key alone, not on a time zone."""
    return key.kind is not ColumnKind.TIMESTAMP


def _field_checks(
    validator: Validator, names: EntryNames, schema: Any, context: _Context
) -> Iterator[FieldCheck]:
    for number, field_ in enumerate(context.column.children):
        if names.includes(field_.name):
            child_check = _match_child(validator, context, field_, schema, is_rest=names.is_rest)
            if child_check.check is not None or child_check.rejects_null:
                yield FieldCheck(number, child_check)


def _match_items(validator: Validator, items: Any, context: _Context, schema: Any) -> None:
    if isinstance(items, list):
        _match_prefix(validator, items, context, schema)
    else:
        is_prefixed = "prefixItems" in validator.VALIDATORS
        first = len(schema.get("prefixItems", ())) if is_prefixed else 0
        _match_positions(validator, items, context, first, None)


def _match_prefix(
    validator: Validator, schemas: Sequence[Any], context: _Context, _schema: Any
) -> None:
    for index, schema in enumerate(schemas):
        _match_positions(validator, schema, context, index, index + 1)


def _match_other_items(validator: Validator, value: Any, context: _Context, schema: Any) -> None:
    if isinstance(schema.get("items"), list):
        _match_positions(validator, value, context, len(schema["items"]), None)


def _match_positions(
    validator: Validator, schema: Any, context: _Context, first: int, last: int | None
) -> None:
    """Match the items of a list from position `first` up to `last`."""
    if context.column.kind is not ColumnKind.LIST:
        return
    item = context.column.children[0]
    is_whole = first == 0 and last is None
    child_check = (
        _match_child(validator, context, item, schema)
        if is_whole
        else _match_some(validator, context, item, schema)
    )
    if child_check.check is not None or child_check.rejects_null:
        context.checks.append(ItemsCheck(child_check, first, last))


def _accept(_validator: Validator, _value: Any, _context: _Context, _schema: Any) -> None:
    """Accept the column; the keyword is not checked."""


_RULES: Final[dict[str, Callable[..., None]]] = {
    "type": _match_type,
    "enum": _match_enum,
    "const": _match_const,
    "anyOf": _match_any_of,
    "oneOf": _match_any_of,
    "required": _match_required,
    "properties": _match_properties,
    "patternProperties": _match_patterns,
    "additionalProperties": _match_additional,
    "items": _match_items,
    "prefixItems": _match_prefix,
    "additionalItems": _match_other_items,
    "not": _accept,
    "if": _accept,
}


def _no_alternative_error(column: ColumnType, errors: Sequence[ColumnError]) -> ColumnError:
    """Return an error with the reasons of alternatives, none of which the column fits."""
    reasons = {error.message: error for error in errors}
    if len(reasons) == 1:
        return errors[0]
    if not reasons:
        return _rejected_error(column, "null only")
    name = f"column `{column.path}`" if column.path else "the record"
    listed = join_reasons([*reasons]).removeprefix("; ")
    return ColumnError(
        f"{name} fits none of the alternatives in the JSON Schema: {listed}",
        hint="Change the columns so that one of the alternatives fits, or change the schema.",
    )


def _rejected_error(column: ColumnType, allowed: str) -> ColumnError:
    written = _json_types(column)[0]
    name, hint = f"column `{column.path}`", "Cast or drop the column, or change the schema."
    if not column.path:
        name = "the record"
        hint = "Change the schema to type object: keys and values are written as JSON objects."
    return ColumnError(
        f"{name} is written as JSON {written}, but the JSON Schema allows {allowed}", hint=hint
    )
