"""Print Protobuf descriptors as `.proto` text, the form in which registries store schemas.

Google's runtime, which the `schema-registry` extra installs, reads the descriptors and their custom
options. Comments are not part of a descriptor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import StringIO
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.text_encoding import CEscape

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.formats.protobuf.protobuf_files import scoped_name
from spark_kafka_sink.formats.protobuf.protobuf_types import ProtoLabel, ProtoType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_LAST_NUMBER = (1 << 29) - 1
"""Highest field number. Only the extension ranges of message sets exceed it."""
_MAX_REQUIRED = 63
"""Required fields of a message that Google's runtime accepts."""
_LAST_ENUM_NUMBER = (1 << 31) - 1
_FIRST_WITH_CHECKS = 1001
"""The edition 2024, which introduces features that protoc removes from descriptors."""
_SOURCE_FEATURES = {
    "enforce_naming_style": "STYLE_LEGACY",
    "default_symbol_visibility": "EXPORT_ALL",
}
_TEXT_OR_EXPONENT = re.compile(r'"(?:\\.|[^"\\])*"|e\+')
_VISIBILITIES = ("", "local ", "export ")


def print_files(files: Sequence[bytes]) -> list[str]:
    """Return the texts of files. Each file follows its imports.

    Raises:
        ConfigError: an import is missing, or the runtime does not support the file.
    """
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(descriptor_pb2.DESCRIPTOR.serialized_pb)
    kind = pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto")
    parse: Any = message_factory.GetMessageClass(kind).FromString
    symbols: set[str] = set()
    for data in files:
        file = parse(data)
        symbols.update(_symbols_of(file))
        loadable = _own_descriptor_as(file.name) if _is_descriptor(file) else make_loadable(data)
        _add_file(pool, loadable, file.name)
    # Parsed again: an option is known only if the pool contains the file that declares it.
    return ["\n".join(_Printer(parse(data), symbols).lines()) + "\n" for data in files]


def make_loadable(data: bytes) -> bytes:
    """Return a file that Google's runtime does not reject, without defaults and JSON names.

    It rejects defaults below the normal range of a float, swapped JSON names of two fields, and
    more than 63 required fields in a message.
    """
    file = descriptor_pb2.FileDescriptorProto.FromString(data)
    fields, pending = [*file.extension], [*file.message_type]
    while pending:
        message = pending.pop()
        pending.extend(message.nested_type)
        fields.extend((*message.field, *message.extension))
        label = descriptor_pb2.FieldDescriptorProto
        required = [field for field in message.field if field.label == label.LABEL_REQUIRED]
        for field in required if len(required) > _MAX_REQUIRED else ():
            field.label = label.LABEL_OPTIONAL
    for field in fields:
        field.ClearField("default_value")
        field.json_name = str(field.number)  # The derived name may already be in use.
    return file.SerializeToString()


def _own_descriptor_as(name: str) -> bytes:
    """Return a file with the name of a copy of `descriptor.proto` that exports the runtime's file.

    A second copy of its messages would be rejected.
    """
    descriptor_proto = descriptor_pb2.DESCRIPTOR
    if name == descriptor_proto.name:
        return descriptor_proto.serialized_pb
    alias = descriptor_pb2.FileDescriptorProto(
        name=name, dependency=[descriptor_proto.name], public_dependency=[0]
    )
    return alias.SerializeToString()


def _is_descriptor(file: Any) -> bool:
    """Return True for `google/protobuf/descriptor.proto`, also under the name of a copy."""
    messages = {message.name for message in file.message_type}
    return bool(file.package == "google.protobuf" and "FileDescriptorProto" in messages)


def _add_file(pool: descriptor_pool.DescriptorPool, data: bytes, name: str) -> None:
    try:
        pool.AddSerializedFile(data)
    except TypeError as error:
        raise ConfigError(
            f"the Protobuf file {name} is invalid, or lacks an import: {error}",
            hint="Create the descriptor set with `protoc --include_imports`.",
        ) from None


def _symbols_of(file: Any) -> Iterator[str]:
    """Yield all names of a file. Those that a longer name can start with also end in a dot."""
    parts = file.package.split(".")
    starts = [".".join(parts[: end + 1]) for end in range(len(parts))]
    starts += [scoped_name(file.package, service.name) for service in file.service]
    for service in file.service:
        full_name = scoped_name(file.package, service.name)
        yield from (f"{full_name}.{method.name}" for method in service.method)
    pending = [(file.package, file.message_type, file.enum_type, file.extension)]
    while pending:
        scope, messages, enums, members = pending.pop()
        starts += [scoped_name(scope, type_.name) for type_ in (*messages, *enums)]
        values = (value for enum in enums for value in enum.value)
        yield from (scoped_name(scope, member.name) for member in (*members, *values))
        for message in messages:
            members = (*message.field, *message.extension, *message.oneof_decl)
            inner = scoped_name(scope, message.name)
            pending.append((inner, message.nested_type, message.enum_type, members))
    for start in starts:
        yield from (start, f"{start}.")


def _block(start: str, lines: Iterable[str]) -> list[str]:
    body = [f"  {line}" for line in lines]
    return [f"{start} {{", *body, "}"] if body else [f"{start} {{}}"]


def _quoted(text: Any) -> str:
    return f'"{CEscape(text, as_utf8=True)}"'


def _without_plus(value: str) -> str:
    """Return a value whose exponents have no plus, which Wire's parser in registries rejects."""
    return _TEXT_OR_EXPONENT.sub(lambda match: "e" if match[0] == "e+" else match[0], value)


def _in_brackets(options: Iterable[str]) -> str:
    text = ", ".join(options)
    return f" [{text}]" if text else ""


def _json_name(name: str) -> str:
    """Return the JSON name that protoc derives from a field's name."""
    first, *later_words = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in later_words)


def _format_range(start: int, end: int, last: int) -> str:
    """Return a range whose end is inclusive."""
    if start == end:
        return str(start)
    return f"{start} to {end if end < last else 'max'}"


def _format_value(field: Any, value: Any) -> str:
    out = StringIO()
    text_format.PrintFieldValue(field, value, out, as_utf8=True, as_one_line=True)
    return _without_plus(out.getvalue())


@dataclass(frozen=True, slots=True)
class _Printer:
    """Prints a file."""

    file: Any
    symbols: set[str]
    """What a name in the file can mean."""

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file."""
        file, package = self.file, self.file.package
        yield self._syntax()
        if package:
            yield f"package {package};"
        for number, name in enumerate(file.dependency):
            # A weak import means the same; parsers in registries reject it.
            yield f'import {"public " if number in file.public_dependency else ""}"{name}";'
        yield from (f'import option "{name}";' for name in getattr(file, "option_dependency", ()))
        yield from self._print_statements(file.options, package)
        yield from self._source_features()
        messages = {message.name: message for message in file.message_type}
        groups = self._group_names(file.extension)
        for message in file.message_type:
            if message.name not in groups:
                yield from ("", *self._print_message(message, package))
        for enum in file.enum_type:
            yield from ("", *self._print_enum(enum, package))
        yield from self._print_extensions(file.extension, package, messages)
        for service in file.service:
            yield from ("", *self._print_service(service))

    @property
    def _has_edition(self) -> bool:
        return bool(self.file.syntax == "editions")

    def _syntax(self) -> str:
        if not self._has_edition:
            return f'syntax = "{self.file.syntax or "proto2"}";'
        editions = self.file.DESCRIPTOR.fields_by_name["edition"].enum_type.values_by_number
        return f'edition = "{editions[self.file.edition].name.removeprefix("EDITION_")}";'

    def _source_features(self) -> Iterator[str]:
        """Yield the most permissive checks of a source file, which descriptors do not contain."""
        for name, value in _SOURCE_FEATURES.items():
            if self.file.edition >= _FIRST_WITH_CHECKS and not self.file.options.features.HasField(
                name
            ):
                yield f"option features.{name} = {value};"

    def _group_names(self, fields: Iterable[Any]) -> set[str]:
        """Return the names of the messages that fields declare as groups, as only proto2 can."""
        groups = {
            _simple_name(field.type_name) for field in fields if field.type == ProtoType.GROUP
        }
        return set() if self._has_edition else groups

    def _print_message(self, message: Any, outer: str) -> list[str]:
        keyword = _VISIBILITIES[getattr(message, "visibility", 0)]
        return _block(f"{keyword}message {message.name}", self._print_body(message, outer))

    def _print_body(self, message: Any, outer: str) -> Iterator[str]:
        scope = scoped_name(outer, message.name)
        nested = {inner.name: inner for inner in message.nested_type}
        groups = self._group_names((*message.field, *message.extension))
        yield from self._print_statements(message.options, scope)
        # Nested messages precede fields, because a record identifies a message by its position.
        # Some readers count the messages that fields declare (map entries, groups), others do not.
        for name, inner in nested.items():
            if not inner.options.map_entry and name not in groups:
                yield from self._print_message(inner, scope)
        for enum in message.enum_type:
            yield from self._print_enum(enum, scope)
        yield from self._print_fields(message, scope, nested)
        for extent in message.extension_range:
            numbers = _format_range(extent.start, extent.end - 1, _LAST_NUMBER)
            yield f"extensions {numbers}{_in_brackets(self._print_options(extent.options, scope))};"
        reserved = message.reserved_range
        ranges = [_format_range(extent.start, extent.end - 1, _LAST_NUMBER) for extent in reserved]
        yield from self._print_reserved(ranges, message.reserved_name)
        yield from self._print_extensions(message.extension, scope, nested)

    def _print_fields(self, message: Any, scope: str, nested: Mapping[str, Any]) -> Iterator[str]:
        """Yield the fields. The members of a oneof are in one block."""
        oneofs: dict[int, list[str]] = {}
        lines: list[list[str]] = []
        for field in message.field:
            if field.proto3_optional or not field.HasField("oneof_index"):
                lines.append(self._print_field(field, scope, nested, self._field_label(field)))
                continue
            if field.oneof_index not in oneofs:
                oneofs[field.oneof_index] = []
                lines.append(oneofs[field.oneof_index])
            oneofs[field.oneof_index] += self._print_field(field, scope, nested, "")
        for number, members in oneofs.items():
            oneof = message.oneof_decl[number]
            options = self._print_statements(oneof.options, scope)
            members[:] = _block(f"oneof {oneof.name}", [*options, *members])
        return (line for block in lines for line in block)

    def _print_field(
        self, field: Any, scope: str, nested: Mapping[str, Any], label: str
    ) -> list[str]:
        inner = _nested_type(field, scope, nested)
        type_ = _type_name(field)
        options = [*self._field_options(field), *self._print_options(field.options, scope)]
        if field.type == ProtoType.GROUP and not self._has_edition and inner is not None:
            start = f"{label}group {inner.name} = {field.number}{_in_brackets(options)}"
            return _block(start, self._print_body(inner, scope))
        if inner is not None and inner.options.map_entry:
            label, (key, value) = "", (_type_name(end) for end in inner.field)
            type_ = f"map<{key}, {value}>"
        return [f"{label}{type_} {field.name} = {field.number}{_in_brackets(options)};"]

    def _field_label(self, field: Any) -> str:
        if field.label == ProtoLabel.REPEATED:
            return "repeated "
        if self._has_edition:
            return ""
        if field.label == ProtoLabel.REQUIRED:
            return "required "
        return "" if self.file.syntax == "proto3" and not field.proto3_optional else "optional "

    def _option_name(self, name: str, scope: str) -> str:
        """Return a full name, with a leading dot if its first part has another meaning here."""
        parts = scope.split(".")
        scopes = (".".join(parts[: end + 1]) for end in range(len(parts)))
        # Only what contains names, such as a package, hides the first part of a longer name.
        first = "".join(name.partition(".")[:2])
        is_hidden = any(scope and f"{scope}.{first}" in self.symbols for scope in scopes)
        return f".{name}" if is_hidden else name

    def _field_options(self, field: Any) -> Iterator[str]:
        """Yield the options that are not in the field's `options`."""
        if field.HasField("default_value"):
            text = field.default_value
            if field.type in (ProtoType.STRING, ProtoType.BYTES):
                # The default of a bytes field is already escaped.
                text = _quoted(text) if field.type == ProtoType.STRING else f'"{text}"'
            elif field.type in (ProtoType.FLOAT, ProtoType.DOUBLE):
                text = _without_plus(text)
            yield f"default = {text}"
        is_derived = field.extendee or field.json_name == _json_name(field.name)
        if field.HasField("json_name") and not is_derived:
            yield f"json_name = {_quoted(field.json_name)}"

    def _print_enum(self, enum: Any, scope: str) -> list[str]:
        keyword = _VISIBILITIES[getattr(enum, "visibility", 0)]
        lines = [*self._print_statements(enum.options, scope)]
        for value in enum.value:
            options = _in_brackets(self._print_options(value.options, scope))
            lines.append(f"{value.name} = {value.number}{options};")
        reserved = enum.reserved_range
        ranges = [_format_range(extent.start, extent.end, _LAST_ENUM_NUMBER) for extent in reserved]
        lines += self._print_reserved(ranges, enum.reserved_name)
        return _block(f"{keyword}enum {enum.name}", lines)

    def _print_reserved(self, ranges: Sequence[str], names: Iterable[str]) -> Iterator[str]:
        texts = [name if self._has_edition else _quoted(name) for name in names]
        return (f"reserved {', '.join(parts)};" for parts in (ranges, texts) if parts)

    def _print_extensions(
        self, extensions: Iterable[Any], scope: str, nested: Mapping[str, Any]
    ) -> Iterator[str]:
        for extendee, fields in groupby(extensions, attrgetter("extendee")):
            lines = [
                self._print_field(field, scope, nested, self._field_label(field))
                for field in fields
            ]
            yield from _block(f"extend {extendee}", (line for block in lines for line in block))

    def _print_service(self, service: Any) -> list[str]:
        scope = scoped_name(self.file.package, service.name)
        lines = [*self._print_statements(service.options, scope)]
        for method in service.method:
            request = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            response = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            start = f"rpc {method.name} ({request}) returns ({response})"
            block = _block(start, self._print_statements(method.options, scope))
            lines += block if method.HasField("options") else [f"{start};"]
        return _block(f"service {service.name}", lines)

    def _print_statements(self, options: Any, scope: str) -> Iterator[str]:
        return (f"option {option};" for option in self._print_options(options, scope))

    def _print_options(self, options: Any, scope: str, prefix: str = "") -> Iterator[str]:
        """Yield options as `name = value`. Features are set one by one."""
        for field, content in options.ListFields():
            extension_name = f"({self._option_name(field.full_name, scope)})"
            name = prefix + (extension_name if field.is_extension else field.name)
            is_repeated = hasattr(content, "append")
            for value in content if is_repeated else (content,):
                if field.message_type is None:
                    yield f"{name} = {_format_value(field, value)}"
                elif prefix or (field.name == "features" and not field.is_extension):
                    yield from self._print_options(value, scope, f"{name}.")
                else:
                    text = text_format.MessageToString(value, as_one_line=True, as_utf8=True)
                    yield f"{name} = {{ {_without_plus(text)} }}"


def _type_name(field: Any) -> str:
    """Return the type of a field, with the name of a message or enum as in the descriptor.

    protoc writes full names with a leading dot, which Java's serializer keeps. Apicurio and
    Karapace take another spelling of a name for another type (HTTP status 409).
    """
    return str(field.type_name) or ProtoType(field.type).name.lower()


def _nested_type(field: Any, scope: str, nested: Mapping[str, Any]) -> Any:
    """Return the message in this scope to which a field's type name leads, or None."""
    name = str(field.type_name)
    inner = nested.get(_simple_name(name))
    is_full_name = name.startswith(".")
    if inner is not None and is_full_name and name != f".{scoped_name(scope, inner.name)}":
        return None
    return inner


def _simple_name(name: str) -> str:
    return str(name).rpartition(".")[2]
