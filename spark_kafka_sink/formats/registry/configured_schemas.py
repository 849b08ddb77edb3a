"""Unregistered schemas that are set by options or derived from columns."""

from __future__ import annotations

import json
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
from pyarrow import fs

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_repr
from spark_kafka_sink.config.formats import Format, PartFormat
from spark_kafka_sink.formats.avro.avro_schema import AvroSchema, without_comments
from spark_kafka_sink.formats.encoder_spec import UnregisteredSchema, derive_schema

_JSON_SCHEMA = "A JSON Schema of a record is a JSON object with type object."
_UTF16_MARKS = (BOM_UTF16_LE, BOM_UTF16_BE)
_PLACE = "The file must be on the driver, or at a URI that pyarrow.fs supports."


def schema_of(part: PartFormat, type_: pa.StructType) -> UnregisteredSchema:
    """Return the schema that the options contain; otherwise, derive it from the columns.

    Raises:
        ColumnError: a column cannot be represented in the format.
        ConfigError: the schema in the options cannot be read.
    """
    schema = configured_schema(part)
    if schema is not None:
        return schema
    return derive_schema(part.format, type_, part.record_name, part.record_namespace)


def configured_schema(part: PartFormat) -> UnregisteredSchema | None:
    """Return the schema that the options contain as text or file, or None if they have no schema.

    Raises:
        ConfigError: the schema cannot be read.
    """
    content = part.schema if part.schema_file is None else _read_file(part)
    if content is None:
        return None
    texts: tuple[tuple[str, str], ...] = ()
    if part.format.payload is Format.PROTOBUF:
        from spark_kafka_sink.formats.protobuf.protobuf_compiler import compile_schema

        content, texts = compile_schema(content, partial(_read_import, part), part.full_name)
    text = _decode_file(part, content) if isinstance(content, bytes) else content
    if part.format.payload is Format.AVRO:
        text = without_comments(text)
    message = message_name(part, text)
    return UnregisteredSchema(text, _record_name(part, text, message), message, texts)


def message_name(part: PartFormat, text: str) -> str | None:
    """Return the name of the Protobuf message to write, or of the Avro record that options choose.

    Raises:
        ConfigError: `text` is not a schema, or does not contain the message or record.
    """
    name = part.full_name
    if part.format.payload is Format.AVRO:
        AvroSchema.parse(text, name)
        return name
    if part.format.payload is Format.JSON:
        return None
    from spark_kafka_sink.formats.protobuf.protobuf_schema import ProtoSchema

    return ProtoSchema.parse(text).message(name).name


def _record_name(part: PartFormat, text: str, message: str | None) -> str:
    """Return the full name of a message or Avro record, or the title of a JSON Schema.

    The name is empty for an Avro type that is not a record.

    Raises:
        ConfigError: the text is not a JSON Schema, or its title contradicts the options.
    """
    if part.format.payload is Format.PROTOBUF:
        return message or ""
    if part.format.payload is Format.AVRO:
        return AvroSchema.parse(text, message).subject_name
    option = f"{part.part}.schema" if part.schema_file is None else f"{part.part}.schema.file"
    try:
        schema: Any = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"option {option} is not JSON: {error}", hint=_JSON_SCHEMA) from None
    if not isinstance(schema, dict):
        raise ConfigError(f"option {option} is not the schema of a record", hint=_JSON_SCHEMA)
    title, name = str(schema.get("title") or ""), part.full_name
    if name is not None and title not in ("", name):
        raise ConfigError(
            f"option {part.part}.schema.name is set, but the schema has the title "
            f"{safe_repr(title)}",
            hint="Remove the option or the title.",
        )
    return title or name or ""


def _read_file(part: PartFormat) -> bytes:
    """Return the content of a schema file.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        system, path = _file_system(part)
        with system.open_input_stream(path) as file:
            content = file.read()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable_error(part, type(error).__name__, _PLACE) from None
    encoding = json.detect_encoding(content)
    # Protobuf needs a mark, such as PowerShell writes: the bytes can be a descriptor.
    is_text = part.format.payload is not Format.PROTOBUF or content.startswith(_UTF16_MARKS)
    if is_text and encoding.startswith(("utf-16", "utf-32")):
        return content.decode(encoding, "replace").encode()
    return content


def _read_import(part: PartFormat, name: str) -> bytes | None:
    """Return an imported Protobuf file, whose name is relative to a folder above the schema file.

    Returns None if the schema is not in a file, or no such file can be read.
    """
    if part.schema_file is None or ".." in name:
        return None
    system, path = _file_system(part)
    for folder in PurePosixPath(path).parents:
        try:
            with system.open_input_stream(str(folder / name)) as file:
                return file.read()
        except (OSError, ValueError, pa.ArrowException):
            continue
    return None


def _file_system(part: PartFormat) -> tuple[fs.FileSystem, str]:
    """Return the file system and the path of a schema file."""
    path = part.schema_file or ""
    if "://" in path:
        return fs.FileSystem.from_uri(path)
    return fs.LocalFileSystem(), str(Path(path).absolute())  # Its parents are searched for imports.


def _decode_file(part: PartFormat, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except ValueError:
        raise _unreadable_error(part, "it is not UTF-8", "Save the file as UTF-8.") from None


def _unreadable_error(part: PartFormat, problem: str, hint: str) -> ConfigError:
    return ConfigError(
        f"option {part.part}.schema.file refers to {safe_repr(part.schema_file or '')}, which the "
        f"driver cannot read: {problem}",
        hint=hint,
    )
