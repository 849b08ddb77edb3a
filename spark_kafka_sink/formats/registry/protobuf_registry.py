"""Register Protobuf files as texts with references, and read registered ones."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_kafka_sink.common.errors import ConfigError, SchemaRegistryError
from spark_kafka_sink.common.optional_dependencies import import_extra
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.config.schema_registry import URL
from spark_kafka_sink.formats.protobuf.protobuf_compiler import (
    BUILT_IN,
    add_known_imports,
    compile_descriptor_set,
    is_well_known,
)
from spark_kafka_sink.formats.protobuf.protobuf_files import files_of
from spark_kafka_sink.formats.registry.registry_requests import NOT_FOUND_OR_REJECTED
from spark_kafka_sink.formats.registry.registry_schemas import SCHEMA_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from spark_kafka_sink.formats.protobuf.protobuf_files import ProtoFile
    from spark_kafka_sink.formats.registry.registry_requests import RegistryRequests
    from spark_kafka_sink.formats.registry.registry_schemas import CandidateSchema

    FindImport: TypeAlias = Callable[[str, Sequence[Any]], int]
    """Returns the version of an imported file, given its name and spellings; can register the last
    spelling.
    """

SERIALIZED = "serialized"
"""Format parameter that requests a Protobuf schema as a descriptor in base64, not as text.

Confluent's registry supports it. Others ignore it, or return an invalid descriptor (Karapace).
"""


_NO_SUBJECT = (404,)
"""HTTP statuses of the list of versions if the subject has none."""
_UNLISTED_VERSIONS = (*_NO_SUBJECT, 500)
"""The same, and that of Apicurio if a version has a name such as 1.0.0, so that it lists none."""


class UnregisteredImportError(Exception):
    """An imported Protobuf file is not in the registry."""


class ProtobufRegistry:
    """The Protobuf schemas of a registry.

    Args:
        requests: requests to the registry.
        normalize: let the registry normalize schemas.
    """

    def __init__(self, requests: RegistryRequests, *, normalize: bool) -> None:
        self._requests = requests
        self._client = requests.client
        self._library = requests.library
        self._normalize = normalize

    def spellings(self, candidate: CandidateSchema, find: FindImport) -> Iterator[Any]:
        """Yield the client's object of a schema for each text in which it can be registered.

        The first text is derived as in Java's serializer; the second is that of the options.

        Args:
            candidate: the schema.
            find: finds or registers imported files.
        """
        printed = self._schema_of(candidate, find)
        yield printed
        if candidate.texts:
            verbatim = self._schema_of(candidate, find, as_given=True)
            if verbatim.schema_str != printed.schema_str:
                yield verbatim

    def find_version(self, subject: str, candidate: CandidateSchema) -> Any:
        """Find a version with the Protobuf files in the options, or return None.

        Schemas that the sink registers have the text that Java's serializer derives from a message;
        other tools register files as they are, and imports in subjects of any name.

        Raises:
            SchemaRegistryError: a version cannot be read, or see `RegistryRequests.fail`.
        """
        if not candidate.texts:
            return None
        version = self._find_spelling(subject, candidate)
        if version is None and _has_references(candidate):
            version = self._find_equal_version(subject, candidate)
        return version

    def register_import(self, name: str, schemas: Sequence[Any]) -> int:
        """Return the version of an imported file; register its last spelling if it is missing.

        Raises:
            SchemaRegistryError: see `RegistryRequests.fail`.
        """
        with suppress(UnregisteredImportError):
            return self.lookup_import(name, schemas)
        self._requests.register_first(f"register the import {name}", name, schemas[::-1])
        return self.find_import(name, schemas)

    def find_import(self, name: str, schemas: Sequence[Any]) -> int:
        """Return the version of an imported file.

        Raises:
            SchemaRegistryError: the file is not registered, or see `RegistryRequests.fail`.
        """
        with suppress(UnregisteredImportError):
            return self.lookup_import(name, schemas)
        action, lookup = f"find the import {name}", self._client.lookup_schema
        return int(self._requests.call(action, lookup, name, schemas[-1]).version)

    def lookup_import(self, name: str, schemas: Sequence[Any]) -> int:
        """Return the version of an imported file.

        Raises:
            UnregisteredImportError: the file is not registered.
            SchemaRegistryError: see `RegistryRequests.fail`.
        """
        action, lookup = f"find the import {name}", self._client.lookup_schema
        for schema in schemas:
            registered = self._requests.find(
                action, lookup, name, schema, absent=NOT_FOUND_OR_REJECTED
            )
            if registered is not None:
                return int(registered.version)
        raise UnregisteredImportError(name)

    def versions(self, subject: str) -> Iterator[str]:
        """Yield the descriptor sets of a subject's versions, newest first; read each when needed.

        Raises:
            SchemaRegistryError: a schema cannot be read, or see `RegistryRequests.fail`.
        """
        for _, read in self._read_versions(subject):
            yield _descriptor_set(f"of subject {subject}", read)

    def read_descriptor_set(
        self, source: str, schema: Any, read_serialized: Callable[[], Any]
    ) -> str:
        """Return the descriptor set of a registered schema.

        Args:
            source: which schema it is, for messages.
            schema: the client's object, with the schema's text.
            read_serialized: requests the schema as a descriptor.

        Raises:
            SchemaRegistryError: it cannot be compiled, or see `RegistryRequests.fail`.
        """
        return _descriptor_set(source, partial(self._compile_registered, schema, read_serialized))

    def _schema_of(
        self,
        candidate: CandidateSchema,
        find: FindImport,
        *,
        as_given: bool = False,
    ) -> Any:
        """Return the client's object of a schema, with the text of its main file.

        Each imported file has a subject with the file's name, as in Java's serializer.

        Args:
            candidate: the schema.
            find: see `spellings`.
            as_given: use the text in the options for the main file.
        """
        import_extra("schema-registry", "google.protobuf", f"option {URL}")
        from spark_kafka_sink.formats.protobuf.protobuf_printer import print_files

        references: dict[str, Any] = {}
        option_texts = dict(candidate.texts)
        *imported, main = add_known_imports(files_of(candidate.text))
        *texts, main_text = print_files([file.data for file in (*imported, main)])

        def schema_of(file: ProtoFile, text: str) -> Any:
            used = [references[name] for name in file.imports if name in references]
            return self._library.Schema(text, SCHEMA_TYPES[Format.PROTOBUF], used)

        for file, text in zip(imported, texts, strict=True):
            if file.name not in BUILT_IN:
                spellings = dict.fromkeys((option_texts.get(file.name, text), text))
                version = find(file.name, [schema_of(file, spelling) for spelling in spellings])
                references[file.name] = self._library.SchemaReference(file.name, file.name, version)
        return schema_of(main, option_texts.get(main.name, main_text) if as_given else main_text)

    def _find_spelling(self, subject: str, candidate: CandidateSchema) -> Any:
        """Find a version with one of the candidate's texts; first, the text in the options."""
        with suppress(UnregisteredImportError):
            for schema in [*self.spellings(candidate, self.lookup_import)][::-1]:
                registered = self._requests.find(
                    f"find the schema in subject {subject}",
                    self._client.lookup_schema,
                    subject,
                    schema,
                    absent=NOT_FOUND_OR_REJECTED,
                    normalize_schemas=self._normalize,
                )
                if registered is not None:
                    return registered
        return None

    def _find_equal_version(self, subject: str, candidate: CandidateSchema) -> Any:
        """Find a version with the user's Protobuf files, whatever the subjects of its imports are.

        Other releases of well-known files do not make a difference. Versions that the registry
        cannot list are not compared: the registry itself finds one with the same text.
        """
        option_files = {name for name, _ in candidate.texts} - BUILT_IN
        files = {
            _comparable_file(file)
            for file in files_of(candidate.text)
            if file.name in option_files or not is_well_known(file.name)
        }
        for version, read in self._read_versions(subject, _UNLISTED_VERSIONS):
            try:
                if files <= {_comparable_file(file) for file in files_of(read())}:
                    return version
            except ConfigError:
                continue  # A version that protoc rejects is a different one.
            except SchemaRegistryError:
                # Confluent's API of Apicurio omits the groups of references.
                if self._requests.has_referenced(version.schema.references):
                    raise
        return None

    def _read_versions(
        self, subject: str, absent: Collection[int] = _NO_SUBJECT
    ) -> Iterator[tuple[Any, Callable[[], str]]]:
        """Yield the client's object of each Protobuf version, and what reads its descriptor set.

        Args:
            subject: the subject.
            absent: the HTTP statuses of its list of versions if there is nothing to yield.
        """
        action, list_versions = f"read the versions of subject {subject}", self._client.get_versions
        versions = self._requests.find(action, list_versions, subject, absent=absent) or ()
        for version in sorted(versions, reverse=True):
            registered = self._requests.fetch_version(subject, version)
            if registered.schema.schema_type == SCHEMA_TYPES[Format.PROTOBUF]:
                serialized = partial(self._requests.read_version, subject, version, SERIALIZED)
                yield registered, partial(self._compile_registered, registered.schema, serialized)

    def _compile_registered(self, schema: Any, read_serialized: Callable[[], Any]) -> str:
        """Return the descriptor set of a schema: of its text, if protoc can compile it.

        Raises:
            ConfigError: protoc rejects the text, and the registry returns no valid descriptor.
        """
        try:
            return self._compile_form(schema)
        except ConfigError:
            self._client.clear_caches()  # They return a schema in the form of the first request.
            with suppress(ConfigError, SchemaRegistryError):
                return self._compile_form(read_serialized(), SERIALIZED)
            raise

    def _compile_form(self, schema: Any, fmt: str | None = None) -> str:
        texts = self._requests.read_referenced(schema.references or (), fmt)
        return compile_descriptor_set(schema.schema_str, texts.get)


def _comparable_file(file: ProtoFile) -> tuple[str, bytes]:
    """Return a file's name, and its descriptor in an order that registries do not change.

    Karapace prints the members of a oneof and nested messages after the other fields, and public
    imports after others. The order of messages, which records refer to, is compared.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    descriptor = FileDescriptorProto.FromString(file.data)
    public = {descriptor.dependency[number] for number in descriptor.public_dependency}
    imports = sorted(descriptor.dependency, key=lambda name: (name in public, name))
    descriptor.dependency[:] = imports
    descriptor.public_dependency[:] = range(len(imports) - len(public), len(imports))
    pending = [*descriptor.message_type]
    while pending:
        message = pending.pop()
        pending.extend(message.nested_type)
        message.field.sort(key=attrgetter("number"))
        message.nested_type.sort(key=attrgetter("options.map_entry"))
    return file.name, descriptor.SerializeToString(deterministic=True)


def _has_references(candidate: CandidateSchema) -> bool:
    *_, main = files_of(candidate.text)
    return any(name not in BUILT_IN for name in main.imports)


def _descriptor_set(source: str, read: Callable[[], str]) -> str:
    """Return a descriptor set.

    Raises:
        SchemaRegistryError: it cannot be compiled.
    """
    try:
        return read()
    except ConfigError as error:
        raise SchemaRegistryError(
            f"cannot read the schema {source}: {error.message}", hint=error.hint
        ) from None
