"""Unregistered schemas that are set by options or derived from columns, and their subjects."""

from __future__ import annotations

import json
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import fs

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.text import shown
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.config.schema_registry import SubjectStrategy
from spark_kafka_sink.formats.avro.avro_schema import AvroSchema, without_comments
from spark_kafka_sink.formats.encoder_spec import SchemaSource, derive_schema

if TYPE_CHECKING:
    from spark_kafka_sink.config.formats import PartFormat
    from spark_kafka_sink.config.schema_registry import RegistryConfig

_PLACE: Final = "The file must be on the driver, or at a URI that pyarrow.fs supports."


def source_of(part: PartFormat, type_: pa.StructType) -> SchemaSource:
    """Return the schema that the options contain; otherwise, derive it from the columns.

    Raises:
        ColumnError: a column cannot be represented in the format.
        ConfigError: the schema in the options cannot be read.
    """
    source = configured_source(part)
    if source is not None:
        return source
    return derive_schema(part.format, type_, part.record_name, part.record_namespace)


def configured_source(part: PartFormat) -> SchemaSource | None:
    """Return the schema that the options contain as text or file, or None if they have no schema.

    Raises:
        ConfigError: the schema cannot be read.
    """
    content = part.schema if part.schema_file is None else _read_file(part)
    if content is None:
        return None
    texts: tuple[tuple[str, str], ...] = ()
    if part.format.payload is Format.PROTOBUF:
        from spark_kafka_sink.formats.protobuf.protobuf_source import read_source  # for this format

        content, texts = read_source(content, partial(_imported, part))
    text = _decoded(part, content) if isinstance(content, bytes) else content
    if part.format.payload is Format.AVRO:
        text = without_comments(text)
    message = message_of(part, text)
    return SchemaSource(text, _record_name(part, text, message), message, texts)


def message_of(part: PartFormat, text: str) -> str | None:
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


def subject_of(
    config: RegistryConfig, part: PartFormat, topic: str | None, source: SchemaSource | None
) -> str:
    """Return the subject of the key's or the value's schema.

    Args:
        config: the registry's options.
        part: the key or the value.
        topic: the value of the option `topic`, if set.
        source: the schema; if None, the record's name is taken from the options.

    Raises:
        ConfigError: the subject contains the topic, and the option `topic` is not set.
    """
    strategy = config.part(part.part).strategy
    if topic is None and strategy is not SubjectStrategy.RECORD_NAME:
        raise ConfigError(
            f"option {part.part}.subject.name.strategy is {strategy.value}, which needs the "
            "option topic: topics of a column are not known before the tasks run",
            hint='Add .option("topic", ...), or use RecordNameStrategy.',
        )
    named = (part.full_name or part.record_name).partition(",")[0]
    name = named if source is None else source.name
    if not name and strategy is not SubjectStrategy.TOPIC_NAME:
        raise ConfigError(
            f"option {part.part}.subject.name.strategy is {strategy.value}, but the schema of the "
            f"{part.part} is not a record with a name",
            hint="Use the schema of the record alone, in JSON Schema with a title, or "
            "TopicNameStrategy.",
        )
    return subject_by(strategy, topic or "", part.part, name)


def subject_by(strategy: SubjectStrategy, topic: str, part: str, record: str) -> str:
    """Return the subject of a topic's key or value; `record` is the full name of the record."""
    if strategy is SubjectStrategy.TOPIC_NAME:
        return f"{topic}-{part}"
    return record if strategy is SubjectStrategy.RECORD_NAME else f"{topic}-{record}"


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
        raise ConfigError(f"option {option} is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise ConfigError(f"option {option} is not the schema of a record")
    title, name = str(schema.get("title") or ""), part.full_name
    if name is not None and title not in ("", name):
        raise ConfigError(
            f"option {part.part}.schema.name is set, but the schema has the title {shown(title)}",
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
        raise _unreadable(part, type(error).__name__, _PLACE) from None
    if content[:2] in (BOM_UTF16_LE, BOM_UTF16_BE):  # as PowerShell writes text
        return content.decode("utf-16", "replace").encode()
    return content


def _imported(part: PartFormat, name: str) -> bytes | None:
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
    return fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)


def _decoded(part: PartFormat, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except ValueError:
        raise _unreadable(part, "it is not UTF-8", "Save the file as UTF-8.") from None


def _unreadable(part: PartFormat, problem: str, hint: str) -> ConfigError:
    return ConfigError(
        f"option {part.part}.schema.file refers to {shown(part.schema_file or '')}, which the "
        f"driver cannot read: {problem}",
        hint=hint,
    )
