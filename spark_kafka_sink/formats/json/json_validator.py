"""The validators of the library `jsonschema` that apply the rules to columns.

Only this module uses a validator's `_resolver`, which has no public name, and replaces `evolve`.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_repr
from spark_kafka_sink.formats.json.json_declared_fields import FIELD_RULES, DeclaredFields
from spark_kafka_sink.formats.json.json_documents import (
    InvalidPartError,
    check_document,
    invalid_document_error,
    is_uri,
)
from spark_kafka_sink.formats.json.json_matching import MatchContext
from spark_kafka_sink.formats.json.json_references import MAIN, create_resolver
from spark_kafka_sink.formats.json.json_rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spark_kafka_sink.formats.json.json_matching import Validator
    from spark_kafka_sink.formats.json.json_references import Link, ReferenceUris


def create_validator(draft: Any, documents: Sequence[Any], links: Sequence[Link]) -> Validator:
    """Return a validator that applies the rules, also in parts that declare another draft.

    Args:
        draft: the library's validator of the draft.
        documents: the documents by their numbers; see `create_resolver`.
        links: the references between them.

    Raises:
        ConfigError: the draft is not supported.
    """
    reference_uris, resolver = create_resolver(draft, documents, links)
    validator: Validator = _validator_class(draft, reference_uris)(
        documents[MAIN], _resolver=resolver
    )
    return validator


@lru_cache(maxsize=64)
def _validator_class(draft: Any, reference_uris: ReferenceUris) -> Any:
    from jsonschema import Draft3Validator, validators

    if draft is Draft3Validator:
        raise ConfigError(
            "the JSON Schema declares draft 3, which is not supported",
            hint="Use draft 4 or newer, in which `required` is a list of names.",
        )
    rules: dict[str, Any] = {
        name: partial(_apply_rule, draft.VALIDATORS[name], name)
        for name in RULES
        if name in draft.VALIDATORS
    }
    rules |= {
        name: partial(_follow_reference, draft, name, dict(reference_uris))
        for name in ("$ref", "$dynamicRef")
        if name in draft.VALIDATORS
    }
    extended: Any = validators.extend(draft, rules)  # type: ignore[no-untyped-call]
    standard = extended.evolve

    def evolve(validator: Any, **changes: Any) -> Any:
        if not isinstance(changes.get("schema", {}), dict | bool):
            raise ConfigError(
                "the JSON Schema has a reference to something that is not a schema",
                hint="Refer to an object, true or false.",
            )
        changes.setdefault("_resolver", validator._resolver)  # noqa: SLF001
        evolved = standard(validator, **changes)
        evolved_draft: Any = type(evolved)
        return (
            evolved
            if evolved_draft is extended
            else _validator_class(evolved_draft, reference_uris)(**changes)
        )

    extended.evolve = evolve
    extended.scope_uris = _dynamic_scope_uris
    return extended


def _dynamic_scope_uris(validator: Any) -> tuple[str, ...]:
    """See `Validator.scope_uris`."""
    return tuple(dict.fromkeys(uri for uri, _ in validator._resolver.dynamic_scope()))  # noqa: SLF001


def _with_document(validator: Any, reference_uris: Mapping[tuple[str, str], str], ref: str) -> str:
    """Return a reference with the URI of the document to which its name leads."""
    name, *fragment = ref.split("#", 1)
    base = validator._resolver._base_uri  # noqa: SLF001
    uri = urljoin(base, name)
    keys = (base, name), (base, uri), ("", uri)
    document_uri = next((reference_uris[key] for key in keys if key in reference_uris), None)
    return "#".join((document_uri, *fragment)) if document_uri and name else ref


def _apply_rule(
    standard: Callable[..., Iterable[Any]],
    keyword: str,
    validator: Validator,
    value: Any,
    instance: Any,
    schema: Any,
) -> Iterable[Any]:
    """Apply a rule to a column or declared fields, or the draft's keyword to a JSON value."""
    if isinstance(instance, MatchContext):
        RULES[keyword](validator, value, instance, schema)
    elif isinstance(instance, DeclaredFields):
        if declare := FIELD_RULES.get(keyword):
            declare(validator, value, instance, schema)
    else:
        return standard(validator, value, instance, schema) or ()
    return ()


def _follow_reference(
    draft: Any,
    keyword: str,
    reference_uris: Mapping[tuple[str, str], str],
    validator: Any,
    ref: Any,
    instance: Any,
    schema: Any,
) -> Iterable[Any]:
    """Apply a reference to a column or value.

    A `$ref` gets the URI of the document to which its name leads.

    Raises:
        ConfigError: the reference is no URI, or a `$dynamicRef` leads to an invalid schema.
        InvalidPartError: a `$ref` leads to an invalid schema.
        Unresolvable: the reference leads to nothing.
    """
    if not isinstance(ref, str):
        raise ConfigError(
            f"the JSON Schema has the reference {ref!r}, which is not a text",
            hint='Change it to a text such as "#/definitions/name".',
        )
    if not is_uri(ref):
        raise ConfigError(
            f"the JSON Schema has the reference {safe_repr(ref)}, which is not a valid URI",
            hint="Correct the reference.",
        )
    is_static = keyword == "$ref"
    reference = _with_document(validator, reference_uris, ref) if is_static else ref
    subschema = _find_subschema(validator, reference, ref)
    is_matched = isinstance(instance, MatchContext | DeclaredFields)
    if is_matched and id(subschema) not in instance.checked:
        instance.checked.add(id(subschema))
        invalid = _subschema_error(draft, ref, subschema)
        if invalid is not None:  # Older drafts ignore `$dynamicRef`, and all that it checks.
            raise InvalidPartError(invalid) if is_static else invalid
    standard: Callable[..., Iterable[Any]] = draft.VALIDATORS[keyword]
    return standard(validator, reference, instance, schema)


def _find_subschema(validator: Any, reference: str, ref: str) -> Any:
    """Return the part of the documents to which a reference leads; `ref` is its text.

    Raises:
        Unresolvable: there is none.
    """
    from referencing.exceptions import Unresolvable

    try:
        return validator._resolver.lookup(reference).contents  # noqa: SLF001
    except (TypeError, ValueError):  # a pointer into a number, or a name in a list
        raise Unresolvable(ref=ref) from None


def _subschema_error(draft: Any, reference: str, subschema: Any) -> ConfigError | None:
    """Return why a schema to which a reference leads is invalid, or None.

    It can be below an unknown keyword, which no other check reads.
    """
    from jsonschema import SchemaError, validators

    if not isinstance(subschema, dict):
        return None
    try:
        check_document(validators.validator_for(subschema, default=draft), subschema)
    except SchemaError as error:
        document = f"the JSON Schema of the reference {safe_repr(reference)}"
        return invalid_document_error(document, error)
    return None
