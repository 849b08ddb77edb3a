"""The files of a Protobuf schema: a FileDescriptorSet or a FileDescriptorProto in base64."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.formats.protobuf import protobuf_descriptor as descriptor
from spark_kafka_sink.formats.protobuf import protobuf_wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class ProtoFile(NamedTuple):
    """A file: its name, the files that it imports, and its FileDescriptorProto."""

    name: str
    imports: tuple[str, ...]
    data: bytes


def files_of(text: str) -> list[ProtoFile]:
    """Return the files of a schema, main file last.

    Raises:
        ConfigError: the text is not a descriptor in base64.
    """
    try:
        return parse_files(base64.b64decode("".join(text.split()), validate=True))
    except ValueError:
        raise ConfigError(
            "the Protobuf schema is not a descriptor in base64",
            hint="Create one with `protoc --include_imports --descriptor_set_out=FILE`.",
        ) from None


def parse_files(data: bytes) -> list[ProtoFile]:
    """Return the files of a serialized descriptor, main file last.

    Raises:
        ValueError: the bytes are not a descriptor.
    """
    parsed = protobuf_wire.parse(data)
    # A set contains only files; a file contains more than its name.
    files = parsed.get(descriptor.SET_FILE, [])
    is_set = {*parsed} == {descriptor.SET_FILE} and not any(isinstance(item, int) for item in files)
    return [_parse_file(item) for item in (files if is_set else [data])]


def _parse_file(data: bytes) -> ProtoFile:
    parsed = protobuf_wire.parse(data)
    imports = protobuf_wire.read_strings(parsed, descriptor.FILE_IMPORT)
    imports += protobuf_wire.read_strings(parsed, descriptor.FILE_OPTION_IMPORT)
    name = protobuf_wire.read_string(parsed, descriptor.FILE_NAME)
    return ProtoFile(name, tuple(imports), data)


def encode_descriptor_set(files: Iterable[bytes]) -> str:
    """Return a FileDescriptorSet of files in base64. The main file comes last."""
    fields = (protobuf_wire.sized_field(descriptor.SET_FILE, data) for data in files)
    return base64.b64encode(b"".join(fields)).decode()


def main_file(files: Sequence[ProtoFile]) -> ProtoFile:
    """Return the file whose messages a record can contain.

    It is the last file, or its public import if the file contains nothing else.
    """
    main = files[-1]
    parsed = protobuf_wire.parse(main.data)
    public = [main.imports[index] for index in parsed.get(descriptor.FILE_PUBLIC_IMPORT, ())]
    if descriptor.FILE_MESSAGE in parsed or len(public) != 1:
        return main
    return next((file for file in files if file.name == public[0]), main)


def declares_message(file: ProtoFile, name: str) -> bool:
    """Return True if a file declares the message with this full name, or its outermost message."""
    parsed = protobuf_wire.parse(file.data)
    package = protobuf_wire.read_string(parsed, descriptor.FILE_PACKAGE)
    messages = protobuf_wire.read_messages(parsed, descriptor.FILE_MESSAGE)
    names = (protobuf_wire.read_string(message, descriptor.MESSAGE_NAME) for message in messages)
    return any(f"{name}.".startswith(f"{scoped_name(package, outer)}.") for outer in names)


def scoped_name(scope: str, name: str) -> str:
    """Return the name of a type in a package or message."""
    return f"{scope}.{name}" if scope else name
