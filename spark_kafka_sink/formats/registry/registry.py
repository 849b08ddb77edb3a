"""Register and look up schemas with Confluent's client.

Only the driver uses this module, once per write or start of a stream. Tasks receive schema ids.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias
from urllib.parse import quote
from uuid import UUID

from spark_kafka_sink.common.errors import ConfigError, SchemaRegistryError
from spark_kafka_sink.common.optional_dependencies import import_extra
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.config.schema_registry import URL
from spark_kafka_sink.formats.avro.avro_references import inline_references
from spark_kafka_sink.formats.avro.avro_schema import parse_declaration
from spark_kafka_sink.formats.json.json_references import MAIN, JsonReferences, Link
from spark_kafka_sink.formats.protobuf.protobuf_compiler import (
    BUILT_IN,
    add_known_imports,
    compile_descriptor_set,
)
from spark_kafka_sink.formats.protobuf.protobuf_files import files_of
from spark_kafka_sink.formats.registry.registry_client_settings import client_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spark_kafka_sink.config.schema_registry import RegistryConfig
    from spark_kafka_sink.config.security.security_config import SaslConfig
    from spark_kafka_sink.formats.protobuf.protobuf_files import ProtoFile

    _Response: TypeAlias = tuple[int, str | None, Any]
    """The id, GUID and content of a schema."""

_TYPES: Final = {Format.AVRO: "AVRO", Format.JSON: "JSON", Format.PROTOBUF: "PROTOBUF"}
_MODULE: Final = "confluent_kafka.schema_registry"
_CONFLICT, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _INVALID = 409, 401, 403, 404, 422
_MAX_MESSAGE_CHARS: Final = 1_500
"""Maximum length of a registry's message, in characters."""
_SERIALIZED: Final = "serialized"
"""Format parameter that requests a Protobuf schema as a descriptor in base64, not as text.

Confluent's registry supports it. Others ignore it, or return an invalid descriptor (Karapace).
"""
_MOCKS: dict[str, Any] = {}
"""In-memory registries of this process, by URL."""
_MAGIC_GUID: Final = b"\x01"
_ID_BYTES: Final = 4
_MISSING: Final = range(40400, 40500)
"""Error codes of subjects, versions and schemas that do not exist."""
_READ_ONLY: Final = 42205
"""Error code of a subject that accepts no schemas now."""
_INCOMPATIBLE_HINT: Final = (
    "Keep the names and types of the columns, make new ones nullable (Avro, Protobuf), or change "
    "the subject's compatibility level."
)
_HINTS: Final = {
    _CONFLICT: _INCOMPATIBLE_HINT,
    _UNAUTHORIZED: "Check basic.auth.user.info or the bearer.auth options.",
    _FORBIDDEN: "Grant the login access to the subject.",
    **dict.fromkeys(
        _MISSING,
        "Register the schema, or set auto.register.schemas=true; check topic, "
        "subject.name.strategy, schema.name and use.schema.id.",
    ),
    _NOT_FOUND: f"Check the path of {URL}; that of Apicurio is /apis/ccompat/v7.",
    _READ_ONLY: "Change the mode of the registry or subject, or use a registered schema: "
    "auto.register.schemas=false.",
    _INVALID: "The registry rejects the schema: correct it, or value.schema.name.",
}


@dataclass(frozen=True, slots=True)
class CandidateSchema:
    """A schema to register or look up, as text."""

    format: Format
    text: str
    texts: tuple[tuple[str, str], ...] = ()
    """See `UnregisteredSchema.texts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema in the registry."""

    id: int
    guid: bytes | None
    """The 16 bytes of the GUID, or None if the registry does not support GUIDs."""
    text: str
    subject: str
    references: JsonReferences = field(default_factory=JsonReferences)
    """The schemas to which a JSON Schema refers, directly or not."""

    @property
    def prefix(self) -> bytes:
        """The five bytes before each payload."""
        return b"\0" + self.id.to_bytes(4, "big")

    @property
    def header_value(self) -> bytes:
        """The value of the header that identifies the schema.

        Raises:
            SchemaRegistryError: the registry does not support GUIDs.
        """
        if self.guid is None:
            raise SchemaRegistryError(
                f"the schema registry returns no GUID for the schema of subject {self.subject}, "
                "which HeaderSchemaIdSerializer needs",
                hint="Use a registry with GUIDs (Confluent Platform 8.0) without use.schema.id, "
                "or the default PrefixSchemaIdSerializer.",
            )
        return _MAGIC_GUID + self.guid


class _UnregisteredImportError(Exception):
    """An imported Protobuf file is not in the registry; the argument is its name."""


class Registry:
    """Context manager for a connection to the registry.

    Args:
        config: address, login and TLS.
        sasl: the brokers' login, which the registry's login can inherit.

    Raises:
        ConfigError: the client is not installed, or the login cannot be read on this host.
    """

    def __init__(self, config: RegistryConfig, sasl: SaslConfig | None = None) -> None:
        self._config = config
        library = import_extra("schema-registry", _MODULE, f"option {URL}")
        self._library = library
        with ExitStack() as files:
            settings = client_settings(config, sasl, files)
            client = library.SchemaRegistryClient.new_client(settings)
        # Each client of mock:// has a separate registry; clients of mock://NAME share a registry,
        # as in Java.
        self._client = _MOCKS.setdefault(config.url, client) if config.is_mock else client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of the client."""
        close = getattr(self._client, "close", None)  # Clients of mock:// have no close().
        if close is not None:
            close()

    def register(self, subject: str, candidate: CandidateSchema) -> RegisteredSchema:
        """Register a schema; if the subject already has it, this returns the existing id.

        Raises:
            SchemaRegistryError: the schema is incompatible with earlier versions, or see `_fail`.
        """
        registered = self._find_version_of_files(subject, candidate) or self._register_first(
            f"register the schema of subject {subject}",
            subject,
            self._spellings(candidate, self._register_import),
            normalize_schemas=self._config.normalize,
        )
        return self._check_rules(registered, subject, candidate.text)

    def lookup(self, subject: str, candidate: CandidateSchema) -> RegisteredSchema:
        """Find a registered schema in its subject.

        Raises:
            SchemaRegistryError: the subject does not contain it, or see `_fail`.
        """
        registered = self._find_version_of_files(subject, candidate) or self._call(
            f"find the schema in subject {subject}",
            self._client.lookup_schema,
            subject,
            self._client_schema(candidate, self._find_import),
            normalize_schemas=self._config.normalize,
        )
        return self._check_rules(registered, subject, candidate.text)

    def fetch_selected_schema(self, subject: str, format_: Format) -> RegisteredSchema:
        """Return the schema that options select: by id, or the subject's latest version.

        Raises:
            SchemaRegistryError: it is missing or has a different type, or see `_fail`.
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
            SchemaRegistryError: it is missing or has a different type, or see `_fail`.
        """
        if len(identifier) == _ID_BYTES:
            return self._read_by_id(int.from_bytes(identifier), "", format_).text
        guid = str(UUID(bytes=identifier))
        action = f"read the schema with GUID {guid}"

        def fetch(form: str | None) -> _Response:
            return 0, guid, self._call(action, self._client.get_schema_by_guid, guid, fmt=form)

        return self._read_schema("", f"with GUID {guid}", format_, fetch).text

    def contains(self, subject: str, candidate: CandidateSchema) -> bool:
        """Return True if the subject has the schema, in any version.

        Raises:
            SchemaRegistryError: see `_fail`.
        """
        schema, action = (
            self._client_schema(candidate, self._find_import),
            f"read subject {subject}",
        )
        normalize = self._config.normalize
        lookup = self._client.lookup_schema
        return self._find(action, lookup, subject, schema, normalize_schemas=normalize) is not None

    def protobuf_versions(self, subject: str) -> Iterator[str]:
        """Yield a subject's Protobuf schemas, newest version first. Each is read when needed.

        Raises:
            SchemaRegistryError: a schema cannot be read, or see `_fail`.
        """
        return (read() for _, read in self._protobuf_versions(subject))

    def _protobuf_versions(self, subject: str) -> Iterator[tuple[Any, Callable[[], str]]]:
        """Yield the client's object of each Protobuf version, and what reads its descriptor set."""
        action = f"read the versions of subject {subject}"
        versions = self._find(action, self._client.get_versions, subject) or ()
        for version in sorted(versions, reverse=True):
            registered = self._fetch_version(subject, version)
            schema = registered.schema
            if schema.schema_type == _TYPES[Format.PROTOBUF]:
                serialized = partial(self._read_version, subject, version, _SERIALIZED)
                source = f"of subject {subject}"
                yield registered, partial(self._with_imports, source, schema, serialized)

    def has_versions(self, subject: str) -> bool:
        """Return True if the subject already has a schema.

        Raises:
            SchemaRegistryError: see `_fail`.
        """
        action = f"read the latest version of subject {subject}"
        return self._find(action, self._client.get_latest_version, subject) is not None

    def _read_latest(self, subject: str, format_: Format) -> RegisteredSchema:
        action = f"read the latest version of subject {subject}"

        def fetch(form: str | None) -> _Response:
            latest = self._call(action, self._client.get_latest_version, subject, fmt=form)
            return latest.schema_id, latest.guid, latest.schema

        return self._read_schema(subject, f"of subject {subject}", format_, fetch)

    def _read_by_id(self, schema_id: int, subject: str, format_: Format) -> RegisteredSchema:
        action = f"read the schema with id {schema_id}"

        def fetch(form: str | None) -> _Response:
            return schema_id, None, self._call(action, self._client.get_schema, schema_id, fmt=form)

        return self._read_schema(subject, f"with id {schema_id}", format_, fetch)

    def check_compatibility(self, subject: str, candidate: CandidateSchema) -> str:
        """Check that a schema can be registered, without registering it; return a description.

        Raises:
            SchemaRegistryError: the schema is incompatible with the latest version, or see `_fail`.
        """
        latest = f"the latest version of subject {subject}"
        if self._find_version_of_files(subject, candidate) is not None:
            return f"subject {subject} has the schema"
        try:
            schemas = [*self._spellings(candidate, self._lookup_import)]
        except _UnregisteredImportError as error:
            return f"the import {error} does not exist in the registry yet"
        if self._config.is_mock:  # The subject accepts any schema.
            return f"the schema is compatible with {latest}"
        action, normalize = f"check the schema of subject {subject}", self._config.normalize
        for schema in schemas:
            compatible = self._find(
                action, self._client.test_compatibility, subject, schema, normalize=normalize
            )
            if compatible is None:
                return f"subject {subject} does not exist yet"
            if compatible:
                return f"the schema is compatible with {latest}"
        reasons = self._call(action, self._incompatibilities, subject, schemas[0])
        raise SchemaRegistryError(
            f"the schema is incompatible with {latest}{reasons}", hint=_INCOMPATIBLE_HINT
        )

    def _incompatibilities(self, subject: str, schema: Any) -> str:
        """Return the registry's reasons why a schema is incompatible.

        The client requests these reasons, but does not return them.
        """
        rest_client = getattr(self._client, "_rest_client", None)
        if rest_client is None:
            return ""
        path = f"compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        reasons = rest_client.post(path, body=schema.to_dict()).get("messages") or ()
        return "".join(f": {_printable(str(reason))}" for reason in reasons[:1])

    def _find_version_of_files(self, subject: str, candidate: CandidateSchema) -> Any:
        """Find a version with the Protobuf files in the options, or return None.

        Schemas that the sink registers have the text that Java's serializer derives from a message;
        other tools register files as they are, and imports in subjects of any name.
        """
        if not candidate.texts:
            return None
        action, normalize = f"find the schema in subject {subject}", self._config.normalize
        has_imports = True
        # A registry can reject a text that protoc accepts; other errors occur again.
        with suppress(SchemaRegistryError):
            with suppress(_UnregisteredImportError):
                for schema in [*self._spellings(candidate, self._lookup_import)][::-1]:
                    has_imports = bool(schema.references)
                    lookup = self._client.lookup_schema
                    registered = self._find(
                        action, lookup, subject, schema, normalize_schemas=normalize
                    )
                    if registered is not None:
                        return registered
            return self._find_equal_version(subject, candidate) if has_imports else None
        return None

    def _find_equal_version(self, subject: str, candidate: CandidateSchema) -> Any:
        """Find a version with the same Protobuf files, whatever the subjects of its imports are."""
        files = files_of(candidate.text)
        for version, read in self._protobuf_versions(subject):
            with suppress(SchemaRegistryError):  # A version that cannot be compiled is another.
                if files_of(read()) == files:
                    return version
        return None

    def _client_schema(
        self,
        candidate: CandidateSchema,
        find: Callable[[str, Sequence[Any]], int],
        *,
        as_given: bool = False,
    ) -> Any:
        """Return a schema as an object of the client, a Protobuf schema as text.

        Each imported file has a subject with the file's name, as in Java's serializer.

        Args:
            candidate: the schema.
            find: returns the version of an imported file in one of its spellings; can register the
                last one.
            as_given: use the text in the options for the main file of a Protobuf schema.
        """
        if candidate.format.payload is not Format.PROTOBUF:
            return self._library.Schema(candidate.text, _TYPES[candidate.format.payload])
        import_extra("schema-registry", "google.protobuf", f"option {URL}")
        # Imported here because it needs Google's runtime.
        from spark_kafka_sink.formats.protobuf.protobuf_printer import print_files

        references: dict[str, Any] = {}
        option_texts = dict(candidate.texts)
        *imported, main = add_known_imports(files_of(candidate.text))
        *texts, main_text = print_files([file.data for file in (*imported, main)])

        def schema_of(file: ProtoFile, text: str) -> Any:
            used = [references[name] for name in file.imports if name in references]
            return self._library.Schema(text, "PROTOBUF", used)

        for file, text in zip(imported, texts, strict=True):
            if file.name not in BUILT_IN:
                spellings = dict.fromkeys((option_texts.get(file.name, text), text))
                version = find(file.name, [schema_of(file, spelling) for spelling in spellings])
                references[file.name] = self._library.SchemaReference(file.name, file.name, version)
        return schema_of(main, option_texts.get(main.name, main_text) if as_given else main_text)

    def _spellings(
        self, candidate: CandidateSchema, find: Callable[[str, Sequence[Any]], int]
    ) -> Iterator[Any]:
        """Yield a schema in each text in which it can be registered; see `_client_schema`."""
        printed = self._client_schema(candidate, find)
        yield printed
        if candidate.texts:
            verbatim = self._client_schema(candidate, find, as_given=True)
            if verbatim.schema_str != printed.schema_str:
                yield verbatim

    def _register_first(
        self, action: str, subject: str, schemas: Iterable[Any], **settings: Any
    ) -> Any:
        """Register the first of these spellings that is compatible with earlier versions.

        Some registries take two spellings of a type's name for different types.

        Raises:
            SchemaRegistryError: the error of the first spelling; see `_fail`.
        """
        spellings, register = iter(schemas), self._client.register_schema_full_response
        try:
            return register(subject, next(spellings), **settings)
        except Exception as error:  # noqa: BLE001 - the client raises its HTTP library's errors
            if getattr(error, "http_status_code", None) == _CONFLICT:
                for schema in spellings:
                    with suppress(Exception):  # The first error says what is incompatible.
                        return register(subject, schema, **settings)
            self._fail(action, error)

    def _register_import(self, name: str, schemas: Sequence[Any]) -> int:
        with suppress(_UnregisteredImportError):
            return self._lookup_import(name, schemas)
        self._register_first(f"register the import {name}", name, schemas[::-1])
        return self._find_import(name, schemas)

    def _find_import(self, name: str, schemas: Sequence[Any]) -> int:
        with suppress(_UnregisteredImportError):
            return self._lookup_import(name, schemas)
        action = f"find the import {name}"
        return int(self._call(action, self._client.lookup_schema, name, schemas[-1]).version)

    def _lookup_import(self, name: str, schemas: Sequence[Any]) -> int:
        for schema in schemas:
            action = f"find the import {name}"
            registered = self._find(action, self._client.lookup_schema, name, schema)
            if registered is not None:
                return int(registered.version)
        raise _UnregisteredImportError(name)

    def _check_rules(self, registered: Any, subject: str, text: str) -> RegisteredSchema:
        """Return a registered schema after checking its rules, which require a request by id."""
        self._client.clear_caches()
        action = f"read the schema with id {registered.schema_id}"
        schema = self._call(action, self._client.get_schema, registered.schema_id, subject)
        _reject_rules(schema, f"of subject {subject}")
        return RegisteredSchema(
            id=registered.schema_id, guid=_guid(registered.guid), text=text, subject=subject
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
        kind, expected = schema.schema_type or "AVRO", _TYPES[format_.payload]
        if kind != expected:
            raise SchemaRegistryError(
                f"the schema with id {schema_id} has type {kind}, but the format is "
                f"{format_.value}",
                hint="Change the format or the schema's id or subject.",
            )
        text, references = schema.schema_str, JsonReferences()
        if format_.payload is Format.PROTOBUF:
            text = self._with_imports(source, schema, lambda: fetch(_SERIALIZED)[2])
        elif format_.payload is Format.JSON:
            references = self._json_references(schema.references or ())
        elif schema.references:
            texts = self._read_referenced(schema.references)
            referenced = {name: parse_declaration(other) for name, other in texts.items()}
            text = json.dumps(inline_references(parse_declaration(text), referenced))
        return RegisteredSchema(
            id=schema_id, guid=_guid(guid), text=text, subject=subject, references=references
        )

    def _json_references(self, references: Any) -> JsonReferences:
        """Return all schemas to which a JSON Schema refers, each version once."""
        texts: list[str] = []
        links: list[Link] = []
        numbers: dict[tuple[str, int], int] = {}
        pending = [(MAIN, reference) for reference in references]
        for source, reference in pending:
            version = reference.subject, reference.version
            if version not in numbers:
                schema = self._read_version(*version)
                texts.append(schema.schema_str)
                numbers[version] = len(texts)
                pending += [(len(texts), inner) for inner in schema.references or ()]
            links.append(Link(source, reference.name, numbers[version]))
        return JsonReferences(tuple(texts), tuple(links))

    def _read_referenced(self, references: Any, fmt: str | None = None) -> dict[str, str]:
        """Return the texts of all schemas to which a schema refers, by the references' names."""
        texts: dict[str, str] = {}

        def collect(references: Any) -> None:
            for reference in references:
                if reference.name not in texts:
                    schema = self._read_version(reference.subject, reference.version, fmt)
                    texts[reference.name] = schema.schema_str
                    collect(schema.references or ())

        collect(references)
        return texts

    def _with_imports(self, source: str, schema: Any, serialized: Callable[[], Any]) -> str:
        """Return a descriptor set of a Protobuf schema: of its text, if protoc can compile it."""
        try:
            return self._compile_descriptor_set(schema)
        except ConfigError as error:
            self._client.clear_caches()  # They return a schema in the form of the first request.
            with suppress(ConfigError, SchemaRegistryError):
                return self._compile_descriptor_set(serialized(), _SERIALIZED)
            raise SchemaRegistryError(
                f"cannot read the schema {source}: {error.message}", hint=error.hint
            ) from None

    def _compile_descriptor_set(self, schema: Any, fmt: str | None = None) -> str:
        texts = self._read_referenced(schema.references or (), fmt)
        return compile_descriptor_set(schema.schema_str, texts.get)

    def _read_version(self, subject: str, version: int, fmt: str | None = None) -> Any:
        """Return the schema of a version."""
        return self._fetch_version(subject, version, fmt).schema

    def _fetch_version(self, subject: str, version: int, fmt: str | None = None) -> Any:
        """Return a version with its schema and id."""
        action = f"read version {version} of subject {subject}"
        return self._call(action, self._client.get_version, subject, version, fmt=fmt)

    def _call(self, action: str, request: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return the result of a request; see `_fail`."""
        try:
            return request(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the client raises its HTTP library's errors
            self._fail(action, error)

    def _find(self, action: str, request: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return the result of a request, or None for the HTTP status 404; see `_fail`."""
        try:
            return request(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the client raises its HTTP library's errors
            if getattr(error, "http_status_code", None) != _NOT_FOUND:
                self._fail(action, error)
            return None

    def _fail(self, action: str, error: Exception) -> NoReturn:
        """Raise the error of a failed request.

        Raises:
            SchemaRegistryError: always; it contains the registry's message.
        """
        if isinstance(error, (SchemaRegistryError, ConfigError)):
            raise error
        urls = self._config.url.replace(",", ", ")
        status = getattr(error, "http_status_code", None)
        if status is None:
            reason = _printable(str(error) or type(error).__name__)
            raise SchemaRegistryError(
                f"cannot {action}: the schema registry at {urls} cannot be reached: {reason}",
                hint=f"Check {URL}, and that the driver can reach it.",
            ) from None
        code = getattr(error, "error_code", -1)
        message = _printable(str(getattr(error, "error_message", "") or "no message"))
        raise SchemaRegistryError(
            f"cannot {action}: the schema registry at {urls} returned HTTP status {status}, code "
            f"{code}: {message}",
            hint=_HINTS.get(code) or _HINTS.get(status),
        ) from None


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
    names = [f"{rule.name} ({rule.type})" for rule in all_rules if not rule.disabled]
    if names:
        raise SchemaRegistryError(
            f"the schema {source} has rules, which the sink does not execute: "
            f"{', '.join(names)}. Encrypted fields would be written in clear",
            hint="Write with a client that executes rules, or use a schema without them.",
        )


def _guid(text: str | None) -> bytes | None:
    return UUID(text).bytes if text else None


def _printable(text: str) -> str:
    """Return the start of a text from the registry, on one line and without a full stop."""
    printable = "".join(char if char.isprintable() else " " for char in text[:_MAX_MESSAGE_CHARS])
    return printable.rstrip(". ")
