"""Options and config for the formats of keys and values.

The names are the same as in Flink's Kafka connector (``key.format``, ``value.fields-include``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_repr
from spark_kafka_sink.config.option_definition import (
    Option,
    boolean_field,
    enum_field,
    enum_option,
    fields_of,
    options_of,
    text_option,
)
from spark_kafka_sink.config.option_parser import conflict_error, not_allowed_error
from spark_kafka_sink.config.schema_registry import RegistryConfig, SubjectStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELDS_INCLUDE = "value.fields-include"
_NULL_FIELDS = "json.ignoreNullFields"
_DOTTED_NAMES = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)?", re.ASCII)


class Format(StrEnum):
    """Values of `value.format` and `key.format`."""

    RAW = "raw"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_CONFLUENT = "json-confluent"
    AVRO_CONFLUENT = "avro-confluent"
    PROTOBUF_CONFLUENT = "protobuf-confluent"

    @property
    def has_registry(self) -> bool:
        """True if the format uses a schema registry."""
        return self.value.endswith("-confluent")

    @property
    def payload(self) -> Format:
        """The format of the payload, without the registry."""
        return Format(self.value.removesuffix("-confluent"))


class FieldsInclude(StrEnum):
    """Values of value.fields-include."""

    ALL = "ALL"
    EXCEPT_KEY = "EXCEPT_KEY"
    """The value contains none of the columns in key.fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFormat:
    """The format options of the key or the value."""

    part: str
    """"key" or "value"."""
    format: Format = Format.RAW
    fields: tuple[str, ...] = ()
    """Columns that become fields; empty if the option is not set."""
    schema: str | None = None
    schema_file: str | None = None
    schema_name: str | None = None
    namespace: str = ""

    @property
    def is_given(self) -> bool:
        """True if the part is anything other than the unchanged column `key` or `value`."""
        return self.format is not Format.RAW or bool(self.fields)

    @property
    def has_schema(self) -> bool:
        """True if an option contains the schema, as text or file."""
        return self.schema is not None or self.schema_file is not None

    @property
    def record_name(self) -> str:
        """Name of the record or message in a derived schema, without its namespace."""
        return (self.schema_name or self.part.capitalize()).rpartition(".")[2]

    @property
    def record_namespace(self) -> str:
        """Avro namespace or Protobuf package of a derived schema; can be empty."""
        return self.namespace or (self.schema_name or "").rpartition(".")[0]

    @property
    def full_name(self) -> str | None:
        """The names in the options, each with the namespace; None if no name is set."""
        if self.schema_name is None or not self.namespace:
            return self.schema_name
        return ",".join(f"{self.namespace}.{name.strip()}" for name in self.schema_name.split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatsConfig:
    """The formats of a write."""

    value: PartFormat
    value_format: ClassVar[Option] = enum_option("value.format", Format.RAW)
    """Format of the value: raw (the bytes of one string or binary column), or json, avro or
    protobuf for a serialized struct. Names with -confluent use a schema registry.
    """
    value_fields: ClassVar[Option] = text_option("value.fields", None)
    """Columns that become the fields of the value, separated by commas; default: all columns."""
    value_schema: ClassVar[Option] = text_option("value.schema", None)
    """Schema of the value as text: an Avro schema, a JSON Schema, a .proto file, or a Protobuf
    descriptor set in base64. Default: derived from the columns.
    """
    value_schema_file: ClassVar[Option] = text_option("value.schema.file", None)
    """File with the schema of the value, read by the driver; a path or a URI that pyarrow.fs
    supports. For Protobuf a .proto file or the output of protoc --descriptor_set_out.
    """
    value_schema_name: ClassVar[Option] = text_option("value.schema.name", None)
    """Name of the record or message; default: Value. With a given schema: name of the Protobuf
    message to write (default: the first), or of the Avro records to choose in unions.
    """
    value_schema_namespace: ClassVar[Option] = text_option("value.schema.namespace", "")
    """Avro namespace or Protobuf package of value.schema.name."""
    key: PartFormat
    key_format: ClassVar[Option] = enum_option("key.format", Format.RAW)
    """Format of the key: raw (the bytes of one string or binary column), or json, avro or
    protobuf for a serialized struct. Names with -confluent use a schema registry.
    """
    key_fields: ClassVar[Option] = text_option("key.fields", None)
    """Columns that become the fields of the key, separated by commas; default: the column `key`,
    if there is one.
    """
    key_schema: ClassVar[Option] = text_option("key.schema", None)
    """Schema of the key as text: an Avro schema, a JSON Schema, a .proto file, or a Protobuf
    descriptor set in base64. Default: derived from the columns.
    """
    key_schema_file: ClassVar[Option] = text_option("key.schema.file", None)
    """File with the schema of the key, read by the driver; a path or a URI that pyarrow.fs
    supports. For Protobuf a .proto file or the output of protoc --descriptor_set_out.
    """
    key_schema_name: ClassVar[Option] = text_option("key.schema.name", None)
    """Name of the record or message; default: Key. With a given schema: name of the Protobuf
    message to write (default: the first), or of the Avro records to choose in unions.
    """
    key_schema_namespace: ClassVar[Option] = text_option("key.schema.namespace", "")
    """Avro namespace or Protobuf package of key.schema.name."""
    fields_include: FieldsInclude = enum_field(_FIELDS_INCLUDE, FieldsInclude.ALL)
    """ALL: the value contains the columns in key.fields; EXCEPT_KEY: it does not."""
    ignore_null_fields: bool | None = boolean_field(_NULL_FIELDS, None)
    """JSON: true: omit null fields; false: write them as null. Default: as to_json in the same
    session, which omits them unless spark.sql.jsonGenerator.ignoreNullFields is false.
    """
    registry: RegistryConfig | None = None
    """None if no format uses a schema registry."""

    @property
    def writes_nulls(self) -> bool | None:
        """True if JSON contains null fields; None to follow the session's setting."""
        return None if self.ignore_null_fields is None else not self.ignore_null_fields

    @classmethod
    def from_options(
        cls, values: Mapping[str, Any], user_options: Mapping[str, str]
    ) -> Self | None:
        """Build the config from the parsed sink options; None if key and value are raw columns.

        Raises:
            ConfigError: options contradict each other, or an option has no effect.
        """
        key, value = (_part_format(values, user_options, part) for part in ("key", "value"))
        registry = RegistryConfig.from_options(
            values,
            user_options,
            tuple(part.part for part in (key, value) if part.format.has_registry),
        )
        for part in (key, value):
            _check_schema_options(part, user_options)
            if part.has_schema or _chooses_version(part, registry):
                _check_name_is_used(part, registry)
            else:
                _check_name(part)
        if values[_FIELDS_INCLUDE] is FieldsInclude.EXCEPT_KEY and not key.fields:
            raise ConfigError(
                f"option {_FIELDS_INCLUDE} is EXCEPT_KEY, which requires key.fields",
                hint='Add .option("key.fields", ...) with the columns that only the key contains.',
            )
        if (
            Format.JSON not in {key.format.payload, value.format.payload}
            and _NULL_FIELDS in user_options
        ):
            raise ConfigError(
                f"option {_NULL_FIELDS} is set, but neither key nor value is JSON",
                hint="Remove it, or set value.format=json.",
            )
        if not key.is_given and not value.is_given:
            return None
        return cls(
            **fields_of(cls, values),
            key=key,
            value=value,
            registry=registry,
        )

    def chooses_version(self, part: PartFormat) -> bool:
        """Return True if the schema of the key or the value is a version in the registry."""
        return _chooses_version(part, self.registry)


FORMAT_OPTIONS = options_of(FormatsConfig)


def _chooses_version(part: PartFormat, registry: RegistryConfig | None) -> bool:
    return part.format.has_registry and registry is not None and registry.chooses_version


def _check_name_is_used(part: PartFormat, registry: RegistryConfig | None) -> None:
    """Check that name and namespace have an effect on a schema that is not derived.

    Raises:
        ConfigError: they have none.
    """
    by_record = (
        part.format.has_registry
        and registry is not None
        and registry.part(part.part).strategy is not SubjectStrategy.TOPIC_NAME
    )
    name, namespace = f"{part.part}.schema.name", f"{part.part}.schema.namespace"
    if part.schema_name and part.format.payload is Format.JSON and not by_record:
        raise ConfigError(
            f"option {name} is set, but the JSON Schema is not derived from the columns",
            hint=f"Remove {name}: it has no effect.",
        )
    names_subject = by_record and not part.has_schema
    if part.namespace and not part.schema_name and not names_subject:
        raise ConfigError(
            f"option {namespace} is set, but the schema is not derived from the columns",
            hint=f"Remove {namespace}."
            if part.format.payload is Format.JSON
            else f"Set {name} to the name of a record, or remove {namespace}.",
        )


def _part_format(
    values: Mapping[str, Any], user_options: Mapping[str, str], part: str
) -> PartFormat:
    names = tuple(
        name.strip() for name in re.split("[,;]", values[f"{part}.fields"] or "") if name.strip()
    )
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ConfigError(
            f"option {part}.fields contains {safe_repr(repeated)} twice", hint="Remove one of them."
        )
    return PartFormat(
        part=part,
        format=values[f"{part}.format"],
        fields=names,
        # Registries compare texts with their spaces and line feeds.
        schema=user_options.get(f"{part}.schema") or None,
        schema_file=values[f"{part}.schema.file"] or None,
        schema_name=values[f"{part}.schema.name"] or None,
        namespace=values[f"{part}.schema.namespace"],
    )


def _check_schema_options(part: PartFormat, user_options: Mapping[str, str]) -> None:
    """Check the options of a schema.

    Raises:
        ConfigError: an option has no effect, contradicts a different option, or is not a valid
            name.
    """
    names = ("schema", "schema.file", "schema.name", "schema.namespace")
    options = [f"{part.part}.{name}" for name in names if f"{part.part}.{name}" in user_options]
    without_schema = {Format.RAW, Format.JSON}
    if options and part.format in without_schema:
        raise ConfigError(
            f"option {options[0]} is set, but {part.part}.format is {part.format.value}, which has "
            "no schema",
            hint=f"Remove it, or set {part.part}.format to one of: "
            f"{', '.join(name for name in Format if name not in without_schema)}.",
        )
    for option in options:
        if not user_options[option].strip() and option != f"{part.part}.schema.namespace":
            raise ConfigError(f"option {option} is empty", hint="Set it to a value, or remove it.")
    if part.schema is not None and part.schema_file is not None:
        raise conflict_error(f"{part.part}.schema", f"{part.part}.schema.file")
    if not _DOTTED_NAMES.fullmatch(part.namespace):
        raise not_allowed_error(
            f"{part.part}.schema.namespace", part.namespace, "names separated by dots"
        )
    if part.namespace and "." in (part.schema_name or ""):
        name = f"{part.part}.schema.name"
        raise conflict_error(name, f"{part.part}.schema.namespace", "both contain a namespace")


def _check_name(part: PartFormat) -> None:
    """Raise if the name of a derived schema is not valid."""
    name = part.schema_name
    if name is not None and not _DOTTED_NAMES.fullmatch(name):
        raise not_allowed_error(f"{part.part}.schema.name", name, "names separated by dots")
