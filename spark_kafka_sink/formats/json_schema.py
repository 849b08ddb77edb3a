"""Match a given JSON Schema to columns, and create checks for what depends on the rows.

Fields, types, `required`, nulls and `enum` of texts are checked, also within `oneOf`, `anyOf`,
`allOf` and references inside the schema. Other keywords, such as limits and patterns, are not
checked.

Source: JSON Schema, draft 7, "Validation Keywords" and "Keywords for Applying Subschemas".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.formats.fields import Cells, Column, Shape, field_path, not_declared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Check = Callable[[Cells], None]
    """Adds faults for entries that are not null."""

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
_BRANCHES: Final = ("oneOf", "anyOf")


@lru_cache(maxsize=64)
def compile_check(text: str, type_: pa.StructType, *, writes_nulls: bool) -> Check | None:
    """Return the check for the rows, or None if every possible row fits.

    Args:
        text: a JSON Schema.
        type_: type of the structs that are written as JSON.
        writes_nulls: True if null fields are written, not omitted.

    Raises:
        ColumnError: a column contradicts the schema, or a required column is missing.
        ConfigError: the text is not a JSON Schema, or has an unknown reference.
    """
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the JSON Schema is not JSON: {error}") from None
    return _Matcher(schema, writes_nulls).match(schema, Column.of(type_))


@dataclass(frozen=True, slots=True)
class _Matcher:
    root: Any
    """The whole schema, in which references are resolved."""
    writes_nulls: bool

    def match(self, schema: Any, column: Column) -> Check | None:
        """Match a schema to a column, ignoring the column's nulls."""
        schema = self._resolved(schema)
        if not isinstance(schema, dict):
            if schema is False:
                raise _refused(column, "no value")
            return None
        checks = [self._typed(schema, column)]
        checks += [self.match(each, column) for each in schema.get("allOf", ())]
        checks += [self._any(schema[name], column) for name in _BRANCHES if name in schema]
        return _all(checks)

    def _resolved(self, schema: Any) -> Any:
        seen = 0
        while isinstance(schema, dict) and "$ref" in schema:
            seen += 1
            name = str(schema["$ref"])
            if not name.startswith("#") or seen > 100:
                raise ConfigError(
                    f"the JSON Schema has the reference {name!r}, which is not in the schema",
                    hint="replace it with what it refers to",
                )
            schema = self._pointed(name)
        return schema

    def _pointed(self, name: str) -> Any:
        found = self.root
        for part in name[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise ConfigError(f"the JSON Schema refers to {name!r}, which it does not define")
            found = found[key]
        return found

    def _any(self, branches: Sequence[Any], column: Column) -> Check | None:
        """Match alternatives. Rows are checked only if exactly one alternative fits the column."""
        found, errors = [], []
        for each in branches:
            try:
                found.append(self.match(each, column))
            except ColumnError as error:
                if not self._is_null(each):
                    errors.append(error)
        if not found:
            raise errors[0] if len(errors) == 1 else _refused(column, "other values")
        return found[0] if len(found) == 1 else None

    def _is_null(self, schema: Any) -> bool:
        return self._allows_null(schema) and self._resolved(schema).get("type") == "null"

    def _allows_null(self, schema: Any) -> bool:
        schema = self._resolved(schema)
        if not isinstance(schema, dict):
            return bool(schema)
        types = schema.get("type", "null")
        return (
            "null" in ([types] if isinstance(types, str) else types)
            and ("enum" not in schema or None in schema["enum"])
            and schema.get("const") is None
            and all(self._allows_null(each) for each in schema.get("allOf", ()))
            and all(
                any(map(self._allows_null, schema[each])) for each in _BRANCHES if each in schema
            )
        )

    def _typed(self, schema: dict[str, Any], column: Column) -> Check | None:
        written = _WRITTEN.get(column.shape, ("string",))
        types = schema.get("type", written[0])
        allowed = [types] if isinstance(types, str) else types
        if not set(written) & set(allowed):
            raise _refused(column, " or ".join(allowed))
        if column.shape is Shape.STRUCT:
            return self._object(schema, column)
        if column.shape is Shape.LIST:
            return self._list(schema.get("items", True), column.parts[0])
        if column.shape is Shape.MAP:
            return self._map(schema.get("additionalProperties", True), column)
        if column.shape is Shape.TEXT and "enum" in schema:
            symbols = [each for each in schema["enum"] if isinstance(each, str)]
            return partial(_check_symbols, pa.array(symbols, pa.string()), column.path)
        return None

    def _object(self, schema: dict[str, Any], column: Column) -> Check | None:
        names, required = {each.name for each in column.parts}, schema.get("required", ())
        missing = next((name for name in required if name not in names), None)
        if missing is not None:
            raise ColumnError(
                f"the JSON Schema requires the field `{field_path(column.path, missing)}`, which "
                "the DataFrame does not have",
                hint="add the column, or remove its name from `required`",
            )
        checks = []
        for number, each in enumerate(column.parts):
            declared = _declared(schema, each.name)
            if declared is False:
                raise not_declared(each, "the JSON Schema, which allows no others")
            if self.writes_nulls:
                refuses_null = not self._allows_null(declared)
            else:
                refuses_null = each.name in required
            check = self._part(declared, each, refuses_null=refuses_null)
            checks.append(None if check is None else partial(_check_field, check, number))
        return _all(checks)

    def _list(self, schema: Any, item: Column) -> Check | None:
        if isinstance(schema, list):  # each item has its own schema
            return None
        check = self._part(schema, item, refuses_null=not self._allows_null(schema))
        return None if check is None else partial(_check_items, check)

    def _map(self, schema: Any, column: Column) -> Check | None:
        if schema is False:
            raise not_declared(column.parts[1], "the JSON Schema, which allows no others")
        refuses_null = not self._allows_null(schema)
        check = self._part(schema, column.parts[1], refuses_null=refuses_null)
        return None if check is None else partial(_check_values, check)

    def _part(self, schema: Any, column: Column, *, refuses_null: bool) -> Check | None:
        """Return the check for entries that can be null."""
        inner = self.match(schema, column)
        refuses_null = refuses_null and column.is_nullable
        if inner is None and not refuses_null:
            return None
        return partial(_check_part, inner, column.path if refuses_null else None)


def _declared(schema: dict[str, Any], name: str) -> Any:
    """Return a field's schema, or False if it has none and additional fields are not allowed."""
    properties = schema.get("properties", {})
    if name in properties:
        return properties[name]
    patterns = schema.get("patternProperties", {})
    matching = (each for pattern, each in patterns.items() if re.search(pattern, name))
    return next(matching, schema.get("additionalProperties", True))


def _refused(column: Column, allowed: str) -> ColumnError:
    written = _WRITTEN.get(column.shape, ("string",))[0]
    name = f"column `{column.path}`" if column.path else "the record"
    return ColumnError(
        f"{name} is written as JSON {written}, but the JSON Schema allows {allowed}",
        hint="cast or drop the column, or change the schema",
    )


def _all(checks: Sequence[Check | None]) -> Check | None:
    found = [each for each in checks if each is not None]
    if len(found) < 2:
        return found[0] if found else None

    def check(cells: Cells) -> None:
        for each in found:
            each(cells)

    return check


def _check_part(inner: Check | None, path: str | None, cells: Cells) -> None:
    """Check entries; `path` is set if none of them may be null."""
    if path is not None:
        cells.fail_nulls(path)
    if inner is not None:
        inner(cells.without_nulls())


def _check_field(check: Check, number: int, cells: Cells) -> None:
    check(cells.field(number))


def _check_items(check: Check, cells: Cells) -> None:
    check(cells.items()[1])


def _check_values(check: Check, cells: Cells) -> None:
    check(cells.items()[1].field(1))


def _check_symbols(symbols: pa.Array[Any], path: str, cells: Cells) -> None:
    known = pc.is_in(cells.array, value_set=symbols.cast(cells.array.type))
    bad = ~np.asarray(known.to_numpy(zero_copy_only=False), np.bool_)
    cells.fail(bad, path, "is not in the schema's `enum`")
