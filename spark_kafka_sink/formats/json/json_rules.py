"""Rules that match the keywords of a JSON Schema to columns and create checks for the rows.

The rules replace the library's keywords for types, fields, items, alternatives, `enum` and `const`:
they match a column instead of a value. Other keywords, such as limits and patterns, are not
checked.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.formats.columns.column_type import (
    ColumnKind,
    ColumnType,
    field_path,
    join_reasons,
    missing_hint,
)
from spark_kafka_sink.formats.json.json_checks import (
    AllowedValuesCheck,
    AnyOf,
    ChildCheck,
    EntryNames,
    EntryValuesCheck,
    FieldCheck,
    FiniteCheck,
    ItemsCheck,
    NotFiniteCheck,
    RequiredKeyCheck,
)
from spark_kafka_sink.formats.json.json_declared_fields import DeclaredFields
from spark_kafka_sink.formats.json.json_matching import (
    json_types,
    match_child,
    match_column,
    match_some_children,
    rejected_error,
)
from spark_kafka_sink.formats.json.json_name_patterns import NamePattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_kafka_sink.formats.encoder_spec import Check
    from spark_kafka_sink.formats.json.json_matching import MatchContext, Rule, Validator

_PYTHON_TYPES: dict[str, tuple[type[Any], ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}
_NESTED = frozenset({ColumnKind.STRUCT, ColumnKind.LIST, ColumnKind.MAP})
_UNCHECKED = "only the values in `enum` or `const`, which the sink can check only for "
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""JSON Schemas can contain such texts, but columns cannot."""
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def _match_type(_validator: Validator, types: Any, context: MatchContext, _schema: Any) -> None:
    allowed = [types] if isinstance(types, str) else types
    column = context.column
    if context.is_text and "number" not in allowed and "string" in allowed:
        context.checks.append(NotFiniteCheck(column.path))
        return
    if not set(json_types(column)) & set(allowed):
        raise rejected_error(column, " or ".join(map(str, allowed)))
    if column.kind is ColumnKind.FLOAT and "string" not in allowed:
        context.checks.append(FiniteCheck(column.path))


def _match_enum(
    _validator: Validator, values: Sequence[Any], context: MatchContext, _schema: Any
) -> None:
    column = context.column
    kinds = _PYTHON_TYPES[json_types(column)[0]]
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
        fitting = [int(value) for value in fitting if _fits_integer(value, column.type)]
    elif column.kind is ColumnKind.DECIMAL:
        fitting = list(_allowed_decimals(fitting, column.type))
    elif kinds == _PYTHON_TYPES["string"]:
        fitting = [value for value in fitting if not _LONE_SURROGATE.search(value)]
    if not fitting:
        raise rejected_error(column, "other values")
    if column.kind in _NESTED:
        raise rejected_error(column, f"{_UNCHECKED}columns that are not nested")
    if column.kind is ColumnKind.TIMESTAMP:
        raise rejected_error(column, f"{_UNCHECKED}texts that do not depend on the time zone")
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


def _fits_integer(number: float, type_: pa.DataType) -> bool:
    limit = 1 << type_.bit_width - 1
    return -limit <= number < limit and number == int(number)


def _allowed_decimals(numbers: Sequence[Any], type_: pa.DataType) -> Iterator[Decimal]:
    """Yield the numbers that a column of decimals can have."""
    for number in numbers:
        try:
            yield pa.scalar(Decimal(str(number)), type_).as_py()
        except pa.ArrowInvalid:
            continue


def _match_const(validator: Validator, value: Any, context: MatchContext, schema: Any) -> None:
    _match_enum(validator, [value], context, schema)


def _match_any_of(validator: Validator, branches: Any, context: MatchContext, _schema: Any) -> None:
    column, is_text = context.column, context.is_text
    fitting, errors = _match_branches(validator, branches, context, is_text=is_text)
    if not fitting:
        raise _no_alternative_error(
            column, [error for branch, error in errors if not _is_null_schema(branch)]
        )
    _merge_contradictions(context, [contradictions for _, contradictions in fitting])
    if column.kind is ColumnKind.FLOAT and not is_text:
        rejecting = [branch for branch, _ in errors]
        fitting += _match_branches(validator, rejecting, context, is_text=True)[0]
    checks = [check for check, _ in fitting if check is not None]
    if len(checks) == len(fitting):  # otherwise one alternative accepts all rows
        is_single = len(checks) == 1
        context.checks.append(checks[0] if is_single else AnyOf(tuple(checks), context.column.path))


def _match_branches(
    validator: Validator, branches: Sequence[Any], context: MatchContext, *, is_text: bool
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
    context: MatchContext, alternatives: Sequence[dict[str, ColumnError]]
) -> None:
    """Raise or store the contradictions that all alternatives have."""
    first, *others = alternatives
    for path, error in first.items():
        if all(path in other for other in others):
            if context.contradictions is None:
                raise error
            context.contradictions.setdefault(path, error)


def _is_null_schema(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _match_required(_validator: Validator, names: Any, context: MatchContext, _schema: Any) -> None:
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
                f"the JSON Schema requires the field `{field_path(column.path, name)}`, which the "
                "DataFrame does not have",
                hint=missing_hint(
                    name, column, "Add the column, or remove its name from `required`."
                ),
            )
        child = column.children[numbers[name]]
        if child.is_nullable:
            rule = ChildCheck(None, child.path, rejects_null=False, rejects_omission=True)
            context.checks.append(FieldCheck(numbers[name], rule))


def _match_properties(
    validator: Validator, properties: Mapping[str, Any], context: MatchContext, _schema: Any
) -> None:
    for name, schema in properties.items():
        _match_named(validator, EntryNames(names=(name,)), schema, context)


def _match_patterns(
    validator: Validator, patterns: Mapping[str, Any], context: MatchContext, _schema: Any
) -> None:
    for pattern, schema in patterns.items():
        if (expression := NamePattern.of(pattern)) is not None:
            _match_named(validator, EntryNames(patterns=(expression,)), schema, context)


def _match_additional(validator: Validator, value: Any, context: MatchContext, schema: Any) -> None:
    patterns = tuple(map(NamePattern.of, schema.get("patternProperties", ())))
    readable = tuple(pattern for pattern in patterns if pattern is not None)
    if len(readable) == len(patterns):  # otherwise any field could be declared
        additional = EntryNames(tuple(schema.get("properties", ())), readable, is_rest=True)
        _match_named(validator, additional, value, context)


def _match_unevaluated(
    validator: Validator, value: Any, context: MatchContext, schema: Any
) -> None:
    # With `$schema`, the library would read the other keywords in the declared draft again.
    left_out = {"unevaluatedProperties", "$schema"}
    others = {name: part for name, part in schema.items() if name not in left_out}
    declared = DeclaredFields.of(validator.evolve(schema=others))
    patterns = tuple(pattern for pattern in declared.patterns if pattern is not None)
    if len(patterns) == len(declared.patterns):  # otherwise any field could be declared
        unevaluated = EntryNames(tuple(declared.names), patterns, is_rest=True)
        _match_named(validator, unevaluated, value, context)


def _match_named(
    validator: Validator, names: EntryNames, schema: Any, context: MatchContext
) -> None:
    """Match the fields of a struct or the entries of a map with these names."""
    column = context.column
    if column.kind is ColumnKind.STRUCT:
        context.checks.extend(_field_checks(validator, names, schema, context))
    if column.kind is not ColumnKind.MAP:
        return
    key, value = column.children
    if names.is_rest and not names.names and not names.patterns:
        child_check, selection = match_child(validator, context, value, schema, is_rest=True), None
    elif _has_names(key):
        child_check, selection = match_some_children(validator, context, value, schema), names
    else:
        return
    if child_check.check is not None or child_check.rejects_null:
        context.checks.append(EntryValuesCheck(child_check, key, selection))


def _has_names(key: ColumnType) -> bool:
    """Return True if the names of map entries depend on the key alone, not on a time zone."""
    return key.kind is not ColumnKind.TIMESTAMP


def _field_checks(
    validator: Validator, names: EntryNames, schema: Any, context: MatchContext
) -> Iterator[FieldCheck]:
    for number, field_ in enumerate(context.column.children):
        if names.includes(field_.name):
            child_check = match_child(validator, context, field_, schema, is_rest=names.is_rest)
            if child_check.check is not None or child_check.rejects_null:
                yield FieldCheck(number, child_check)


def _match_items(validator: Validator, items: Any, context: MatchContext, schema: Any) -> None:
    if isinstance(items, list):
        _match_prefix(validator, items, context, schema)
    else:
        is_prefixed = "prefixItems" in validator.VALIDATORS
        first = len(schema.get("prefixItems", ())) if is_prefixed else 0
        _match_positions(validator, items, context, first, None)


def _match_prefix(
    validator: Validator, schemas: Sequence[Any], context: MatchContext, _schema: Any
) -> None:
    for index, schema in enumerate(schemas):
        _match_positions(validator, schema, context, index, index + 1)


def _match_other_items(
    validator: Validator, value: Any, context: MatchContext, schema: Any
) -> None:
    if isinstance(schema.get("items"), list):
        _match_positions(validator, value, context, len(schema["items"]), None)


def _match_positions(
    validator: Validator, schema: Any, context: MatchContext, first: int, last: int | None
) -> None:
    """Match the items of a list from position `first` up to `last`."""
    if context.column.kind is not ColumnKind.LIST:
        return
    item = context.column.children[0]
    is_whole = first == 0 and last is None
    child_check = (
        match_child(validator, context, item, schema)
        if is_whole
        else match_some_children(validator, context, item, schema)
    )
    if child_check.check is not None or child_check.rejects_null:
        context.checks.append(ItemsCheck(child_check, first, last))


def _accept_column(
    _validator: Validator, _value: Any, _context: MatchContext, _schema: Any
) -> None:
    """Accept the column; the keyword is not checked."""


RULES: dict[str, Rule] = {
    "type": _match_type,
    "enum": _match_enum,
    "const": _match_const,
    "anyOf": _match_any_of,
    "oneOf": _match_any_of,
    "required": _match_required,
    "properties": _match_properties,
    "patternProperties": _match_patterns,
    "additionalProperties": _match_additional,
    "unevaluatedProperties": _match_unevaluated,
    "items": _match_items,
    "prefixItems": _match_prefix,
    "additionalItems": _match_other_items,
    "dependentSchemas": _accept_column,
    "not": _accept_column,
    "if": _accept_column,
}


def _no_alternative_error(column: ColumnType, errors: Sequence[ColumnError]) -> ColumnError:
    """Return an error with the reasons of alternatives, none of which the column fits."""
    reasons = {error.message: error for error in errors}
    if len(reasons) == 1:
        return errors[0]
    if not reasons:
        return rejected_error(column, "null only")
    name = f"column `{column.path}`" if column.path else "the record"
    listed = join_reasons([*reasons]).removeprefix("; ")
    return ColumnError(
        f"{name} fits none of the alternatives in the JSON Schema: {listed}",
        hint="Change the columns so that one of the alternatives fits, or change the schema.",
    )
