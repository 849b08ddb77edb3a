"""Match a given JSON Schema to columns, on the driver, and create checks for the rows.

The library `jsonschema` resolves references and interprets the drafts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.text import shown
from spark_kafka_sink.formats.columns.column import Column
from spark_kafka_sink.formats.json.json_documents import (
    check_document,
    drafts_of,
    load_document,
    registry_of,
)
from spark_kafka_sink.formats.json.json_rules import match, with_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from spark_kafka_sink.formats.plan import Check


@lru_cache(maxsize=64)
def compile_check(
    text: str, type_: pa.StructType, references: tuple[tuple[str, str], ...] = ()
) -> Check | None:
    """Return the check for the rows, or None if every possible row fits.

    Args:
        text: a JSON Schema.
        type_: type of the structs that are written as JSON.
        references: names and texts of the schemas to which this schema and they themselves refer.

    Raises:
        ColumnError: a column contradicts the schema, or a required column is missing.
        ConfigError: a text is not a JSON Schema, or has an unknown reference.
    """
    schema = load_document(text)
    others = {name: load_document(other) for name, other in references}
    errors = []
    for draft in drafts_of(schema):
        try:
            return _match_in(draft, schema, others, Column.of(type_))
        except ConfigError as error:
            errors.append(error)
    raise errors[0]


def _match_in(draft: Any, schema: Any, others: Mapping[str, Any], column: Column) -> Check | None:
    """Match a column to a schema of a draft.

    Raises:
        ColumnError: the column contradicts the schema.
        ConfigError: the schema is invalid in this draft.
    """
    from jsonschema import SchemaError, validators
    from referencing.exceptions import Unresolvable

    try:
        check_document(draft, schema)
        for other in others.values():
            check_document(validators.validator_for(other, default=draft), other)
        ids, registry = registry_of(draft, schema, others)
        return match(with_rules(draft, ids)(schema, registry=registry), column)
    except SchemaError as error:
        location = f"{error.json_path}: {shown(error.message)}"
        raise ConfigError(f"the JSON Schema is invalid at {location}") from None
    except Unresolvable as error:
        raise ConfigError(
            f"the JSON Schema has the reference {_reference(error)!r}, which is not in the schema",
            hint="Add what it refers to, for example to `definitions`.",
        ) from None
    except RecursionError:
        raise ConfigError(
            "the JSON Schema has references that lead to themselves, or the columns are nested too "
            "deeply",
            hint="Change the reference, or write fewer levels of nested columns.",
        ) from None


def _reference(error: Any) -> str:
    """Return the reference that was not found: an anchor, a pointer, or a URI."""
    anchor = getattr(error, "anchor", None)
    if anchor is not None:
        return f"#{anchor}"
    return f"#{error.ref}" if error.ref.startswith("/") else str(error.ref)
