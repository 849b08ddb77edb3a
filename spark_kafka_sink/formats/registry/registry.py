"""Register and look up schemas.

Only the driver uses this module, once per write or start of a stream. Tasks receive schema ids.
"""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from uuid import UUID

from spark_kafka_sink.common.errors import SchemaRegistryError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.avro.avro_references import inline_references
from spark_kafka_sink.formats.avro.avro_schema import parse_declaration
from spark_kafka_sink.formats.json.json_references import MAIN, JsonReferences, Link
from spark_kafka_sink.formats.registry.protobuf_registry import (
    SERIALIZED,
    ProtobufRegistry,
    UnregisteredImportError,
)
from spark_kafka_sink.formats.registry.registry_requests import (
    INCOMPATIBLE_HINT,
    RegistryRequests,
    printable,
)
from spark_kafka_sink.formats.registry.registry_schemas import (
    SCHEMA_TYPES,
    RegisteredSchema,
    missing_guid_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spark_kafka_sink.config.schema_registry import RegistryConfig
    from spark_kafka_sink.config.security.security_config import SaslConfig
    from spark_kafka_sink.formats.registry.protobuf_registry import FindImport
    from spark_kafka_sink.formats.registry.registry_schemas import CandidateSchema

    _Response: TypeAlias = tuple[int, str | None, Any]
    """The id, GUID and content of a schema."""

_ID_BYTES = 4
_UNREGISTERED = 0
"""Stands for the version of an import that is not registered."""


class Registry:
    """Context manager for a connection to the registry.

    `RegistryRequests` describes the arguments and errors of the constructor.
    """

    def __init__(self, config: RegistryConfig, sasl: SaslConfig | None = None) -> None:
        self._config = config
        self._requests = RegistryRequests(config, sasl)
        self._client = self._requests.client
        self._protobuf = ProtobufRegistry(self._requests, normalize=config.normalize)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of the client."""
        self._requests.close()

    def register(self, subject: str, candidate: CandidateSchema) -> RegisteredSchema:
        """Register a schema; if the subject already has it, this returns the existing id.

        Raises:
            SchemaRegistryError: the schema is incompatible with earlier versions, or see
                `RegistryRequests.fail`.
        """
        registered = self._protobuf.find_version(
            subject, candidate
        ) or self._requests.register_first(
            f"register the schema of subject {subject}",
            subject,
            self._client_schemas(candidate, self._protobuf.register_import),
            normalize_schemas=self._config.normalize,
        )
        return self._check_rules(registered, subject, candidate.text)

    def lookup(self, subject: str, candidate: CandidateSchema) -> RegisteredSchema:
        """Find a registered schema in its subject.

        Raises:
            SchemaRegistryError: the subject does not contain it, or see `RegistryRequests.fail`.
        """
        registered = self._protobuf.find_version(subject, candidate) or self._requests.call(
            f"find the schema in subject {subject}",
            self._client.lookup_schema,
            subject,
            self._client_schema(candidate),
            normalize_schemas=self._config.normalize,
        )
        return self._check_rules(registered, subject, candidate.text)

    def fetch_selected_schema(self, subject: str, format_: Format) -> RegisteredSchema:
        """Return the schema that options select: by id, or the subject's latest version.

        Raises:
            SchemaRegistryError: it is missing or has a different type, or see
                `RegistryRequests.fail`.
        """
        if self._config.schema_id is not None:
            return self._read_by_id(self._config.schema_id, subject, format_)
        return self._read_latest(subject, format_)

    def fetch_schema_text(self, identifier: bytes, format_: Format) -> str:
        """Return the schema that a record identifies.

        Args:
            identifier: the id (four bytes, big-endian) or the GUID (16 bytes).
            format_: the format of the record.

        Raises:
            SchemaRegistryError: it is missing or has a different type, or see
                `RegistryRequests.fail`.
        """
        if len(identifier) == _ID_BYTES:
            return self._read_by_id(int.from_bytes(identifier), "", format_).text
        guid = str(UUID(bytes=identifier))
        action = f"read the schema with GUID {guid}"

        def fetch(form: str | None) -> _Response:
            return (
                0,
                guid,
                self._requests.call(action, self._client.get_schema_by_guid, guid, fmt=form),
            )

        return self._read_schema("", f"with GUID {guid}", format_, fetch).text

    def contains(self, subject: str, candidate: CandidateSchema) -> bool:
        """Return True if the subject has the schema, in any version.

        Raises:
            SchemaRegistryError: see `RegistryRequests.fail`.
        """
        return self._has_schema(subject, self._client_schema(candidate))

    def protobuf_versions(self, subject: str) -> Iterator[str]:
        """Yield a subject's Protobuf schemas, newest version first. Each is read when needed.

        Raises:
            SchemaRegistryError: a schema cannot be read, or see `RegistryRequests.fail`.
        """
        return self._protobuf.versions(subject)

    def has_versions(self, subject: str) -> bool:
        """Return True if the subject already has a schema.

        Raises:
            SchemaRegistryError: see `RegistryRequests.fail`.
        """
        return self._find_latest(subject) is not None

    def check_guids(self, subject: str) -> None:
        """Check that the registry returns GUIDs, if the subject already has a schema.

        Raises:
            SchemaRegistryError: it returns none, or see `RegistryRequests.fail`.
        """
        latest = self._find_latest(subject)
        if latest is not None and not latest.guid:
            raise missing_guid_error(subject)

    def check_compatibility(self, subject: str, candidate: CandidateSchema) -> str:
        """Check that a schema can be registered, without registering it; return a description.

        A schema with imports that are not registered is not checked, but the imports are: the
        schema would refer to versions that do not exist yet.

        Raises:
            SchemaRegistryError: the schema is incompatible with earlier versions, or see
                `RegistryRequests.fail`.
        """
        if self._protobuf.find_version(subject, candidate) is not None:
            return f"subject {subject} has the schema"
        schemas, changed = self._check_imports(candidate)
        if changed:
            names = ", ".join(changed)
            return f"{subject} is checked when its changed imports are registered: {names}"
        # A registry returns the id of a schema that it has without checking the compatibility.
        if not candidate.texts and any(self._has_schema(subject, schema) for schema in schemas):
            return f"subject {subject} has the schema"
        if self._is_compatible(subject, schemas, "the schema"):
            return f"the schema is compatible with the versions of subject {subject}"
        return f"subject {subject} does not exist yet"

    def _find_latest(self, subject: str) -> Any:
        action = f"read the latest version of subject {subject}"
        return self._requests.find(action, self._client.get_latest_version, subject)

    def _client_schemas(self, candidate: CandidateSchema, find: FindImport) -> Iterator[Any]:
        """Yield the client's object of a schema for each text in which it can be registered."""
        if candidate.format.payload is Format.PROTOBUF:
            return self._protobuf.spellings(candidate, find)
        return iter(
            [self._requests.library.Schema(candidate.text, SCHEMA_TYPES[candidate.format.payload])]
        )

    def _client_schema(self, candidate: CandidateSchema) -> Any:
        """Return the client's object of a schema as the sink registers it, if possible."""
        return next(self._client_schemas(candidate, self._protobuf.find_import))

    def _read_latest(self, subject: str, format_: Format) -> RegisteredSchema:
        action = f"read the latest version of subject {subject}"

        def fetch(form: str | None) -> _Response:
            latest = self._requests.call(action, self._client.get_latest_version, subject, fmt=form)
            return latest.schema_id, latest.guid, latest.schema

        return self._read_schema(subject, f"of subject {subject}", format_, fetch)

    def _read_by_id(self, schema_id: int, subject: str, format_: Format) -> RegisteredSchema:
        action = f"read the schema with id {schema_id}"

        def fetch(form: str | None) -> _Response:
            return (
                schema_id,
                None,
                self._requests.call(
                    action, self._client.get_schema, schema_id, subject or None, fmt=form
                ),
            )

        return self._read_schema(subject, f"with id {schema_id}", format_, fetch)

    def _check_imports(self, candidate: CandidateSchema) -> tuple[list[Any], list[str]]:
        """Return the client's objects of a schema, and the names of unregistered imports.

        Raises:
            SchemaRegistryError: such an import is incompatible with its earlier versions.
        """
        changed: list[str] = []

        def check_import(name: str, schemas: Sequence[Any]) -> int:
            if name not in changed and not _has_unregistered_references(schemas[0]):
                with suppress(UnregisteredImportError):
                    return self._protobuf.lookup_import(name, schemas)
                self._is_compatible(name, schemas[::-1], f"the import {name}")
            changed.append(name)
            return _UNREGISTERED

        return [*self._client_schemas(candidate, check_import)], list(dict.fromkeys(changed))

    def _has_schema(self, subject: str, schema: Any) -> bool:
        registered = self._requests.find(
            f"read subject {subject}",
            self._client.lookup_schema,
            subject,
            schema,
            normalize_schemas=self._config.normalize,
        )
        return registered is not None

    def _is_compatible(self, subject: str, schemas: Sequence[Any], what: str) -> bool:
        """Return True if a spelling is compatible, or False if the subject does not exist.

        The spellings are in the order in which a write registers them.

        Raises:
            SchemaRegistryError: see `check_compatibility`; the reason is that of the first one.
        """
        if self._config.is_mock:  # The subject accepts any schema.
            return True
        rejections: list[SchemaRegistryError] = []
        for schema in schemas:
            try:
                judged = self._judge(subject, "versions/latest", schema)
                if judged is None:
                    return False
                if judged["is_compatible"] and self._requests.compares_all_versions(subject):
                    judged = self._judge(subject, "versions", schema) or judged
            except SchemaRegistryError as error:  # Registries cannot parse every spelling.
                rejections.append(error)
                continue
            if judged["is_compatible"]:
                return True
            rejections.append(_incompatible_error(subject, what, judged.get("messages") or ()))
        raise rejections[0]

    def _judge(self, subject: str, versions: str, schema: Any) -> Any:
        action, normalize = f"check the schema of subject {subject}", self._config.normalize
        return self._requests.check_compatibility(
            action, subject, versions, schema, normalize=normalize, verbose=True
        )

    def _check_rules(self, registered: Any, subject: str, text: str) -> RegisteredSchema:
        """Return a registered schema after checking its rules, which require a request by id."""
        self._client.clear_caches()
        action = f"read the schema with id {registered.schema_id}"
        schema = self._requests.call(action, self._client.get_schema, registered.schema_id, subject)
        _reject_rules(schema, f"of subject {subject}")
        return RegisteredSchema(
            id=registered.schema_id, guid=_guid_bytes(registered.guid), text=text, subject=subject
        )

    def _read_schema(
        self, subject: str, source: str, format_: Format, fetch: Callable[[str | None], _Response]
    ) -> RegisteredSchema:
        """Return a schema with its references.

        Args:
            subject: the schema's subject, or "" if it is unknown.
            source: which schema it is, for messages.
            format_: the required format.
            fetch: requests the schema in a form, by default text.
        """
        schema_id, guid, schema = fetch(None)
        _reject_rules(schema, source)
        kind, expected = schema.schema_type or "AVRO", SCHEMA_TYPES[format_.payload]
        if kind != expected:
            raise SchemaRegistryError(
                f"the schema with id {schema_id} has type {kind}, but the format is "
                f"{format_.value}",
                hint="Change the format or the schema's id or subject.",
            )
        text, references = schema.schema_str, JsonReferences()
        if format_.payload is Format.PROTOBUF:
            text = self._protobuf.read_descriptor_set(source, schema, lambda: fetch(SERIALIZED)[2])
        elif format_.payload is Format.JSON:
            references = self._json_references(schema.references or ())
        elif schema.references:
            texts = self._requests.read_referenced(schema.references)
            referenced = {name: parse_declaration(other) for name, other in texts.items()}
            text = json.dumps(inline_references(parse_declaration(text), referenced))
        return RegisteredSchema(
            id=schema_id, guid=_guid_bytes(guid), text=text, subject=subject, references=references
        )

    def _json_references(self, references: Any) -> JsonReferences:
        """Return all schemas to which a JSON Schema refers, each version once."""
        texts: list[str] = []
        links: list[Link] = []
        numbers: dict[tuple[str, int], int] = {}
        pending = deque((MAIN, reference) for reference in references)
        while pending:
            source, reference = pending.popleft()
            version = reference.subject, reference.version
            if version not in numbers:
                schema = self._requests.read_version(*version)
                texts.append(schema.schema_str)
                numbers[version] = len(texts)
                pending.extend((len(texts), inner) for inner in schema.references or ())
            links.append(Link(source, reference.name, numbers[version]))
        return JsonReferences(tuple(texts), tuple(links))


def _incompatible_error(subject: str, what: str, reasons: Sequence[Any]) -> SchemaRegistryError:
    reason = "".join(f": {printable(str(text))}" for text in reasons[:1])
    return SchemaRegistryError(
        f"{what} is incompatible with the versions of subject {subject}{reason}",
        hint=INCOMPATIBLE_HINT,
    )


def _reject_rules(schema: Any, source: str) -> None:
    """Raise an error if a schema has rules that must be executed before a record is written.

    Raises:
        SchemaRegistryError: the schema has such rules; data that they encrypt would be written
            unencrypted.
    """
    rules = getattr(schema, "rule_set", None)
    if rules is None:
        return
    all_rules = [*(rules.domain_rules or ()), *(getattr(rules, "encoding_rules", None) or ())]
    names = [
        f"{rule.name} ({rule.type})"
        for rule in all_rules
        if not rule.disabled and rule.mode != "READ"
    ]
    if names:
        raise SchemaRegistryError(
            f"the schema {source} has rules, which the sink does not execute: {', '.join(names)}. "
            "Encrypted fields would be written in clear",
            hint="Write with a client that executes rules, or use a schema without them.",
        )


def _has_unregistered_references(schema: Any) -> bool:
    return any(reference.version == _UNREGISTERED for reference in schema.references or ())


def _guid_bytes(text: str | None) -> bytes | None:
    return UUID(text).bytes if text else None
