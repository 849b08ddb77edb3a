"""The documents of a JSON Schema: their drafts and checks."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_repr
from spark_kafka_sink.common.optional_dependencies import import_extra

_HINT = "Correct the schema."
_DRAFTS = ("Draft202012Validator", "Draft7Validator", "Draft4Validator")
"""Drafts that are tried in this order if a schema declares none or is not valid in its draft. The
keywords and references of one draft are invalid or unknown in the others.
"""


class InvalidPartError(Exception):
    """A part of a JSON Schema to which a reference leads is not valid in a draft."""

    def __init__(self, error: ConfigError) -> None:
        super().__init__(error)
        self.error = error


def load_document(text: str) -> Any:
    """Return a JSON Schema.

    Raises:
        ConfigError: the text is not JSON, is no schema, or its `$schema` is not a text.
    """
    try:
        schema = json.loads(text, object_hook=_without_invalid_uris)
    except ValueError as error:
        raise ConfigError(f"the JSON Schema is not JSON: {error}", hint=_HINT) from None
    if not isinstance(schema, dict | bool):
        raise ConfigError("the JSON Schema is not an object, true or false", hint=_HINT)
    if isinstance(schema, dict) and not isinstance(schema.get("$schema", ""), str):
        raise ConfigError("the JSON Schema has a `$schema` that is not a text", hint=_HINT)
    return schema


def _without_invalid_uris(part: dict[str, Any]) -> dict[str, Any]:
    """Drop drafts and ids that are no URIs, such as placeholders; nothing can lead to them."""
    for name in ("$schema", "$id", "id"):
        if isinstance(part.get(name), str) and not is_uri(part[name]):
            del part[name]
    return part


def is_uri(text: str) -> bool:
    """Return True if a text is a URI or a relative reference that can be joined with one."""
    try:
        urlsplit(text)
    except ValueError:
        return False
    return True


def declared_draft(schema: Any) -> Any:
    """Return the validator of the draft that a schema declares, or None if none is known."""
    library = import_extra("schema-registry", "jsonschema", "a JSON Schema")
    return library.validators.validator_for(schema, default=None)


def drafts_to_try(declared: Any) -> list[Any]:
    """Return the validators of the drafts to try: first the declared one, if it is not None."""
    library = import_extra("schema-registry", "jsonschema", "a JSON Schema")
    if declared is library.Draft3Validator:
        return [declared]
    drafts = [declared, *(getattr(library, name) for name in _DRAFTS)]
    return [draft for draft in dict.fromkeys(drafts) if draft is not None]


def without_draft(schema: Any) -> Any:
    """Return a schema that is read in the draft that is tried."""
    if not isinstance(schema, dict):
        return schema
    return {name: value for name, value in schema.items() if name != "$schema"}


def with_valid_draft(schema: Any) -> Any:
    """Return a schema with a draft in which it is valid, if it declares another one."""
    declared = declared_draft(schema)
    if declared is None:
        return schema
    drafts = drafts_to_try(declared)
    draft = next((draft for draft in drafts if _is_valid(draft, schema)), declared)
    return schema if draft is declared else {**schema, "$schema": draft.ID_OF(draft.META_SCHEMA)}


def _is_valid(draft: Any, schema: Any) -> bool:
    from jsonschema import SchemaError

    try:
        check_document(draft, schema)
    except (SchemaError, RecursionError):
        return False
    return True


def check_document(draft: Any, schema: Any) -> None:
    """Check a schema of a draft, and each of its subschemas that declares a draft.

    Raises:
        SchemaError: the schema is invalid.
    """
    from jsonschema import validators
    from referencing.jsonschema import specification_with

    specification = specification_with(draft.ID_OF(draft.META_SCHEMA))
    embedded = {id(subschema): subschema for subschema in _embedded_schemas(specification, schema)}

    def without_embedded(node: Any) -> Any:
        if isinstance(node, list):
            return [without_embedded(subschema) for subschema in node]
        if not isinstance(node, dict):
            return node
        if id(node) in embedded:
            return {}
        return {name: without_embedded(subschema) for name, subschema in node.items()}

    draft.check_schema(without_embedded(schema), format_checker=None)
    for subschema in embedded.values():
        check_document(validators.validator_for(subschema, default=draft), subschema)


def invalid_document_error(document: str, error: Any) -> ConfigError:
    """Return the error for a schema that jsonschema rejects: its innermost reason and place."""
    while error.context:
        error = max(error.context, key=lambda inner: len(inner.absolute_path))
    return ConfigError(
        f"{document} is invalid at {error.json_path}: {safe_repr(error.message)}", hint=_HINT
    )


def _embedded_schemas(specification: Any, schema: Any) -> list[Any]:
    """Return the subschemas that declare a draft; data, such as in `examples`, is no subschema."""
    subschemas: list[Any] = []
    try:
        for subschema in specification.subresources_of(schema):
            is_embedded = isinstance(subschema, dict) and isinstance(subschema.get("$schema"), str)
            subschemas += (
                [subschema] if is_embedded else _embedded_schemas(specification, subschema)
            )
    except (AttributeError, TypeError):  # The schema is invalid, which its check reports.
        return []
    return subschemas
