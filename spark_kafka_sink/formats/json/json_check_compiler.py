"""Match a given JSON Schema to columns, on the driver, and create checks for the rows.

The library `jsonschema` resolves references and interprets the drafts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_repr
from spark_kafka_sink.formats.columns.column_type import ColumnType
from spark_kafka_sink.formats.json import json_documents
from spark_kafka_sink.formats.json.json_matching import match_column
from spark_kafka_sink.formats.json.json_references import MAIN, JsonReferences
from spark_kafka_sink.formats.json.json_validator import create_validator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from spark_kafka_sink.formats.encoder_spec import Check

_NO_REFERENCES = JsonReferences()


@lru_cache(maxsize=64)
def compile_check(
    text: str, type_: pa.StructType, references: JsonReferences = _NO_REFERENCES
) -> Check | None:
    """Return the check for the rows, or None if every possible row fits.

    Args:
        text: a JSON Schema.
        type_: type of the structs that are written as JSON.
        references: the schemas to which this schema and they themselves refer.

    Raises:
        ColumnError: a column contradicts the schema, or a required column is missing.
        ConfigError: a text is not a JSON Schema, or has an unknown reference.
    """
    schema = json_documents.load_document(text)
    referenced = [
        json_documents.with_valid_draft(json_documents.load_document(other))
        for other in references.texts
    ]
    declared = json_documents.declared_draft(schema)
    errors: list[ConfigError] = []
    for draft in json_documents.drafts_to_try(declared):
        main = schema if draft is declared else json_documents.without_draft(schema)
        documents = [main, *referenced]
        invalid = _document_error(draft, documents, references)
        if invalid is not None:
            errors.append(invalid)
            continue
        try:
            return _match_draft(draft, documents, references, ColumnType.of(type_))
        except json_documents.InvalidPartError as invalid_part:
            errors.append(invalid_part.error)
        except ConfigError as error:
            # The other drafts would ignore keywords that the declared draft has.
            if draft is declared:
                raise
            errors.append(error)
    raise errors[0]


def check_schema(text: str) -> None:
    """Check that a text is a JSON Schema in a supported draft. References are not checked.

    Raises:
        ConfigError: it is none.
    """
    schema = json_documents.load_document(text)
    errors: list[ConfigError] = []
    for draft in json_documents.drafts_to_try(json_documents.declared_draft(schema)):
        create_validator(draft, [schema], ())  # rejects draft 3
        error = _document_error(draft, [schema], _NO_REFERENCES)
        if error is None:
            return
        errors.append(error)
    raise errors[0]


def _document_error(
    draft: Any, documents: Sequence[Any], references: JsonReferences
) -> ConfigError | None:
    """Return why a document is invalid in a draft, or None."""
    from jsonschema import SchemaError, validators

    names = {link.document: link.name for link in reversed(references.links)}
    document = "the JSON Schema"
    try:
        json_documents.check_document(draft, documents[MAIN])
        for number, other in enumerate(documents[1:], 1):
            document = f"the JSON Schema of the reference {safe_repr(names[number])}"
            json_documents.check_document(validators.validator_for(other, default=draft), other)
    except SchemaError as error:
        return json_documents.invalid_document_error(document, error)
    except RecursionError:
        return _endless_error()
    return None


def _match_draft(
    draft: Any, documents: Sequence[Any], references: JsonReferences, column: ColumnType
) -> Check | None:
    """Match a column to a valid schema of a draft.

    Raises:
        ColumnError: the column contradicts the schema.
        ConfigError: a reference is missing or endless, or the draft is not supported.
        InvalidPartError: a reference leads to a part that is not valid in the draft.
    """
    from referencing.exceptions import NoSuchResource, Unresolvable, Unretrievable

    try:
        return match_column(create_validator(draft, documents, references.links), column)
    except (NoSuchResource, Unresolvable, Unretrievable) as error:
        raise ConfigError(
            f"the JSON Schema has the reference {_reference_text(error)!r}, which is not in the "
            "schema",
            hint="Add what it refers to, for example to `definitions`.",
        ) from None
    except RecursionError:
        raise _endless_error() from None


def _endless_error() -> ConfigError:
    return ConfigError(
        "the JSON Schema has references that lead to themselves, or the columns are nested too "
        "deeply",
        hint="Change the reference, or write fewer levels of nested columns.",
    )


def _reference_text(error: Any) -> str:
    """Return the reference that was not found: an anchor, a pointer, or a URI."""
    anchor = getattr(error, "anchor", None)
    if anchor is not None:
        return f"#{anchor}"
    return f"#{error.ref}" if error.ref.startswith("/") else str(error.ref)
