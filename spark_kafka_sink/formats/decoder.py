"""Decode written records with fastavro and Google's Protobuf runtime, for tests of users' jobs."""

from __future__ import annotations

import io
import json
import re
from contextlib import nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.common.errors import ConfigError, KafkaProdError
from spark_kafka_sink.common.optional_dependencies import import_extra
from spark_kafka_sink.config.formats import Format, PartFormat
from spark_kafka_sink.formats.avro.avro_schema import COMPLEX, PRIMITIVES, AvroSchema
from spark_kafka_sink.formats.encoder_spec import UnregisteredSchema
from spark_kafka_sink.formats.protobuf.protobuf_compiler import add_known_imports
from spark_kafka_sink.formats.protobuf.protobuf_files import files_of
from spark_kafka_sink.formats.protobuf.protobuf_indexes import read_indexes
from spark_kafka_sink.formats.protobuf.protobuf_schema import ProtoSchema
from spark_kafka_sink.formats.registry.configured_schemas import configured_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.formats.registry.registry import Registry
    from spark_kafka_sink.kafka.records.consumer_record import ConsumerRecord

_USER = "decoding records"
_TIME = re.compile(r"(local-)?(timestamp|time|date)\b")
"""Start of the logical types of dates, times and timestamps."""
_ID_BYTES = 5
_GUID_BYTES = 17
_HINT = (
    "Give the options with which the records were written; a schema that is derived from a frame "
    "fits only if the same columns are nullable as in the write."
)


class DecodedRecord(NamedTuple):
    """A record with decoded key and value.

    They are dicts; with an Avro schema that is no record, its values; with format raw, bytes.
    """

    key: Any
    value: Any
    topic: str
    partition: int
    offset: int
    timestamp: datetime | int
    """A UTC datetime, or milliseconds since 1970 outside the years 1 to 9999."""
    headers: list[tuple[str, bytes | None]]
    """The record's headers, without those that identify a schema."""


def decode_records(
    records: Iterable[ConsumerRecord],
    config: SinkConfig,
    known: Mapping[str, UnregisteredSchema] | None = None,
) -> list[DecodedRecord]:
    """Return records with decoded keys and values.

    The schema is read from the registry, by the id in the record. Without a registry, or with
    `mock://`, which is in the memory of a different process, it is the schema set in the options or
    in `known`.

    Args:
        records: the records.
        config: the options with which they were written.
        known: schemas of "key" and "value" that the options do not contain.

    Raises:
        ConfigError: a schema is missing or cannot be read, or a key or value is not in the expected
            format.
        SchemaRegistryError: the registry does not have the schema, or cannot be reached.
    """
    decoder = _Decoder(config, known or {})
    with decoder.registry or nullcontext():
        return [decoder.decode(record) for record in records]


class _Decoder:
    def __init__(self, config: SinkConfig, known: Mapping[str, UnregisteredSchema]) -> None:
        formats = config.formats
        self._parts = {} if formats is None else {"key": formats.key, "value": formats.value}
        self._known = dict(known)
        for name, part in self._parts.items():
            schema = None if part.format is Format.RAW else configured_schema(part)
            if schema is not None:
                self._known[name] = schema
        self._schemas: dict[tuple[bytes, tuple[int, ...]], UnregisteredSchema] = {}
        self.registry: Registry | None = None
        registry = None if formats is None else formats.registry
        if registry is not None and not registry.is_mock:
            from spark_kafka_sink.formats.registry.registry import Registry

            self.registry = Registry(registry, config.producer.security.sasl)

    def decode(self, record: ConsumerRecord) -> DecodedRecord:
        names = {f"__{part}_schema_id" for part in self._parts}
        decoded = {
            "key": self._decode_part("key", record.key, record),
            "value": self._decode_part("value", record.value, record),
            "headers": [header for header in record.headers if header[0] not in names],
        }
        return DecodedRecord(**{**record._asdict(), **decoded})

    def _decode_part(self, name: str, data: bytes | None, record: ConsumerRecord) -> Any:
        part = self._parts.get(name)
        if part is None or part.format is Format.RAW or data is None:
            return data
        try:
            header = dict(record.headers).get(f"__{name}_schema_id")
            schema, payload = self._remove_framing(part, data, header)
            return decode_payload(part.format, schema, payload)
        except KafkaProdError:
            raise
        except Exception as error:  # noqa: BLE001 - the libraries raise errors of many kinds
            raise ConfigError(
                f"the {name} at offset {record.offset} of {record.topic}-{record.partition} is not "
                f"{part.format.value}: {type(error).__name__}: {error}",
                hint=_HINT,
            ) from None

    def _remove_framing(
        self, part: PartFormat, data: bytes, header: bytes | None
    ) -> tuple[UnregisteredSchema | None, bytes]:
        """Return the schema of a key or value, and its payload without framing."""
        if not part.format.has_registry:
            return self._known_schema(part), data
        framing, payload = (data, data[_ID_BYTES:]) if header is None else (header, data)
        length = _ID_BYTES if header is None else _GUID_BYTES
        if len(framing) < length or framing[0] != (header is not None):
            raise ValueError("no schema id")
        indexes: tuple[int, ...] = ()
        if part.format.payload is Format.PROTOBUF:
            indexes, after_indexes = read_indexes(framing[length:])
            payload = after_indexes if header is None else data
        if self.registry is None:
            return self._known_schema(part), payload
        return self._registered_schema(
            self.registry, part.format, framing[1:length], indexes
        ), payload

    def _registered_schema(
        self, registry: Registry, format_: Format, identifier: bytes, indexes: tuple[int, ...]
    ) -> UnregisteredSchema:
        key = (identifier, indexes)
        if key not in self._schemas:
            text, message = registry.fetch_schema_text(identifier, format_), None
            if indexes:
                main = ProtoSchema.parse(text).main
                message = next(name for name, path in main.items() if path == indexes)
            self._schemas[key] = UnregisteredSchema(text, "", message)
        return self._schemas[key]

    def _known_schema(self, part: PartFormat) -> UnregisteredSchema | None:
        schema = self._known.get(part.part)
        if schema is None and part.format.payload is not Format.JSON:
            raise ConfigError(
                f"the schema of the {part.part} is not known: it was derived from the columns",
                hint=f"Use assert_written(), or set {part.part}.schema or {part.part}.schema.file.",
            )
        return schema


def decode_payload(format_: Format, schema: UnregisteredSchema | None, payload: bytes) -> Any:
    """Return a payload without framing as a dict.

    Raises:
        ConfigError: a library is not installed.
        Exception: the payload does not fit the schema.
    """
    if format_.payload is Format.JSON:
        return json.loads(payload)
    assert schema is not None
    if format_.payload is Format.AVRO:
        if format_.has_registry and AvroSchema.parse(schema.text).kind == "bytes":
            return payload  # See `avro_encoder.compile_spec`.
        return _avro_reader(schema.text)(payload)
    return _protobuf_reader(schema.text, schema.message or "")(payload)


@lru_cache(maxsize=64)
def _avro_reader(schema: str) -> Callable[[bytes], Any]:
    library = import_extra("testing", "fastavro", _USER)
    declaration = _with_plain_names(json.loads(schema))
    parsed = library.parse_schema(declaration)
    plain = library.parse_schema(_without_times(declaration))

    def read_as(parsed: Any, payload: bytes) -> Any:
        source = io.BytesIO(payload)
        value = library.schemaless_reader(source, parsed, None)
        if source.read(1):
            raise ValueError("the payload is longer than its schema allows")
        return value

    def read(payload: bytes) -> Any:
        try:
            return read_as(parsed, payload)
        except (ValueError, OverflowError):  # Python's dates have the years 1 to 9999.
            return read_as(plain, payload)

    return read


def _with_plain_names(declaration: Any) -> Any:
    """Return an Avro schema with "Name" instead of {"type": "Name"}, which fastavro rejects."""
    if isinstance(declaration, list):
        return [_with_plain_names(node) for node in declaration]
    if not isinstance(declaration, dict):
        return declaration
    kind = declaration.get("type")
    if "name" not in declaration and isinstance(kind, str) and kind not in PRIMITIVES | COMPLEX:
        return kind
    return {
        name: node if name == "default" else _with_plain_names(node)
        for name, node in declaration.items()
    }


def _without_times(declaration: Any) -> Any:
    """Return an Avro schema with numbers instead of dates, times and timestamps."""
    if isinstance(declaration, list):
        return [_without_times(node) for node in declaration]
    if not isinstance(declaration, dict):
        return declaration
    is_time = _TIME.match(str(declaration.get("logicalType")))
    return {
        name: node if name == "default" else _without_times(node)
        for name, node in declaration.items()
        if name != "logicalType" or not is_time
    }


@lru_cache(maxsize=64)
def _protobuf_reader(schema: str, message: str) -> Callable[[bytes], Any]:
    import_extra("testing", "google.protobuf", _USER)
    from google.protobuf import descriptor_pool, message_factory

    from spark_kafka_sink.formats.protobuf.protobuf_printer import make_loadable

    pool: Any = descriptor_pool.DescriptorPool()
    for file in add_known_imports(files_of(schema)):
        pool.AddSerializedFile(make_loadable(file.data))
    type_ = pool.FindMessageTypeByName(message)
    kind = message_factory.GetMessageClass(type_)
    return lambda payload: _to_dict(type_, kind.FromString(payload))


def _to_dict(type_: Any, message: Any) -> Any:
    """Return a Protobuf message as a dict; timestamps, durations and wrappers are plain values."""
    if type_.full_name == "google.protobuf.Timestamp":
        return message.ToDatetime()
    if type_.full_name == "google.protobuf.Duration":
        return message.ToTimedelta()
    if type_.file.name == "google/protobuf/wrappers.proto":
        return message.value
    has_field = type(message).HasField  # A field can have this name.
    return {
        field.name: _field_to_plain(field, getattr(message, field.name))
        if not field.has_presence or has_field(message, field.name)
        else None
        for field in type_.fields
    }


def _field_to_plain(field: Any, value: Any) -> Any:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        item = inner.fields_by_name["value"]
        return {key: _value_to_plain(item, entry) for key, entry in value.items()}
    if not field.has_presence and hasattr(value, "append"):  # The field is repeated.
        return [_value_to_plain(field, item) for item in value]
    return _value_to_plain(field, value)


def _value_to_plain(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _to_dict(field.message_type, value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
