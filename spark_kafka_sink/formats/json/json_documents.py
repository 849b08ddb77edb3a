"""The documents of a JSON Schema: their drafts, their checks, and the references between them."""

from __future__ import annotations

import json
from contextlib import suppress
from posixpath import normpath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.optional_dependencies import import_extra
from spark_kafka_sink.common.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_DRAFTS: Final = ("Draft202012Validator", "Draft7Validator", "Draft4Validator")
"""Drafts that are tried in this order if a schema declares none or is not valid in its draft. The
keywords and references of one draft are invalid or unknown in the others.
"""


def load_document(text: str) -> Any:
    """Return a JSON Schema.

    Raises:
        ConfigError: the text is not JSON, is no schema, or its `$schema` is not a text.
    """
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the JSON Schema is not JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise ConfigError("the JSON Schema is not an object, true or false")
    if isinstance(schema, dict) and not isinstance(schema.get("$schema", ""), str):
        raise ConfigError("the JSON Schema has a `$schema` that is not a text")
    return schema


def drafts_of(schema: Any) -> list[Any]:
    """Return the validators of the drafts to try: first the one that the schema declares."""
    library = import_extra("schema-registry", "jsonschema", "a JSON Schema")
    declared = library.validators.validator_for(schema, default=None)
    if declared is library.Draft3Validator:
        return [declared]
    drafts = [declared, *(getattr(library, name) for name in _DRAFTS)]
    return [draft for draft in drafts if draft is not None]


def declares_draft(schema: Any) -> bool:
    """Return True if a schema declares a draft that the library knows."""
    library = import_extra("schema-registry", "jsonschema", "a JSON Schema")
    return library.validators.validator_for(schema, default=None) is not None


def check_document(draft: Any, schema: Any) -> None:
    """Check a schema of a draft, and each of its subschemas that declares a draft.

    Raises:
        SchemaError: the schema is invalid.
    """
    from jsonschema import validators
    from referencing.jsonschema import specification_with

    specification = specification_with(draft.ID_OF(draft.META_SCHEMA))
    embedded = {id(part): part for part in _embedded(specification, schema)}

    def without_embedded(node: Any) -> Any:
        if isinstance(node, list):
            return [without_embedded(part) for part in node]
        if not isinstance(node, dict):
            return node
        if id(node) in embedded:
            return {}
        return {name: without_embedded(part) for name, part in node.items()}

    draft.check_schema(without_embedded(schema), format_checker=None)
    for part in embedded.values():
        check_document(validators.validator_for(part, default=draft), part)


def invalid_document(which: str, error: Any) -> ConfigError:
    """Return the error for a schema that jsonschema rejects: its innermost reason and place."""
    while error.context:
        error = max(error.context, key=lambda inner: len(inner.absolute_path))
    return ConfigError(f"{which} is invalid at {error.json_path}: {shown(error.message)}")


def _embedded(specification: Any, schema: Any) -> list[Any]:
    """Return the subschemas that declare a draft; data, such as in `examples`, is no subschema."""
    parts: list[Any] = []
    try:
        for part in specification.subresources_of(schema):
            is_embedded = isinstance(part, dict) and isinstance(part.get("$schema"), str)
            parts += [part] if is_embedded else _embedded(specification, part)
    except (AttributeError, TypeError):  # The schema is invalid, which its check reports.
        return []
    return parts


def resolver_of(
    draft: Any, schema: Any, others: Mapping[str, Any]
) -> tuple[tuple[tuple[str, str], ...], Any]:
    """Return the ids of referenced schemas by name, and the resolver of the schema's references.

    Names can be relative to the id or name of any of the schemas; ids are found by the library.
    Nothing is downloaded.
    """
    from jsonschema_specifications import REGISTRY

    parts = {
        without_dots(name): _resource(draft, part) for name, part in {"": schema, **others}.items()
    }
    ids = {name: urljoin(name, part.id() or "") for name, part in parts.items()}
    bases = {*ids, *ids.values()}
    resources = [(urljoin(base, name), parts[name]) for name in parts if name for base in bases]
    absolute = tuple((name, id_) for name, id_ in ids.items() if name and urlsplit(id_).scheme)
    registry: Any = REGISTRY.with_resources(resources)
    return absolute, registry.resolver_with_root(parts[""])


def _resource(draft: Any, schema: Any) -> Any:
    """Return a schema as the library's resource, in which `properties` may contain an `id`."""
    import attrs  # a dependency of referencing
    from referencing.jsonschema import specification_with

    default = specification_with(draft.ID_OF(draft.META_SCHEMA))
    declared = schema.get("$schema", "") if isinstance(schema, dict) else ""
    specification: Any = specification_with(declared, default=default)

    # The library takes `properties` for a schema if a reference goes through it after `items`, and
    # reads all parts for its first reference, also those that are invalid or boolean.
    def id_of(contents: Any) -> str | None:
        with suppress(AttributeError):
            id_ = specification.id_of(contents) if isinstance(contents, dict) else None
            return id_ if isinstance(id_, str) else None
        return None

    def anchors_in(_: Any, contents: Any) -> Iterable[Any]:
        with suppress(AttributeError):
            return list(specification.anchors_in(contents) if isinstance(contents, dict) else ())
        return ()

    def subresources_of(contents: Any) -> Iterable[Any]:
        with suppress(AttributeError, TypeError):
            return list(specification.subresources_of(contents))
        return ()

    tolerant = {"id_of": id_of, "anchors_in": anchors_in, "subresources_of": subresources_of}
    return attrs.evolve(specification, **tolerant).create_resource(schema)


def without_dots(reference: str) -> str:
    """Return a relative reference without the segments `.` and `..` that have no effect."""
    parts = urlsplit(reference)
    if parts.scheme or parts.netloc or not parts.path:
        return reference
    return parts._replace(path=normpath(parts.path)).geturl()
