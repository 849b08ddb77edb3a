"""Complete the plans for key and value with schemas, on the driver.

A schema is derived from the columns, given by an option, or taken from the registry. Registering
or looking it up happens here, once per write. A stream is planned for each micro-batch, in a
process that lives as long as the query: the schemas of its first micro-batch are kept.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_type

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.common.text import shown
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.config.schema_registry import SchemaIdFraming, SubjectStrategy
from spark_kafka_sink.formats.plan import Framing, compile_encoder, derive_schema

if TYPE_CHECKING:
    from collections.abc import Hashable

    from spark_kafka_sink.config.formats import FormatsConfig, PartFormat
    from spark_kafka_sink.config.model import SinkConfig
    from spark_kafka_sink.config.schema_registry import PartRegistry, RegistryConfig
    from spark_kafka_sink.formats.plan import FieldPlan
    from spark_kafka_sink.formats.registry import Registered, Registry
    from spark_kafka_sink.spark.contract import Contract

_MOST_KEPT: Final = 64
_NO_ID: Final = b"\0\0\0\0\0"
"""Placeholder of a prefix in a dry run, which registers nothing."""
_KEPT: dict[Hashable, Contract] = {}
"""The plans of this process's streams."""


def with_schemas(
    contract: Contract, schema: types.StructType, config: SinkConfig, *, stream: str | None = None
) -> Contract:
    """Return the contract with complete plans; registers or looks up schemas if necessary.

    Args:
        contract: the columns.
        schema: of the DataFrame.
        config: options, with the registry's.
        stream: identifies the stream of a micro-batch; None for a batch write.

    Raises:
        ColumnError: a column cannot be represented in its format or schema.
        ConfigError: a given schema cannot be read.
        SchemaRegistryError: the registry cannot be reached, or refuses the schema.
    """
    key = None if stream is None else (stream, contract, schema.json(), config.formats)
    if key in _KEPT:
        return _KEPT[key]
    formats = config.formats
    if formats is None:
        return contract
    with _Planner(schema, config) as planner:
        planned = replace(
            contract,
            key_plan=planner.plan(contract.key_plan, formats.key),
            value_plan=planner.plan(contract.value_plan, formats.value),
        )
    if key is not None:
        _KEPT[key] = planned
        while len(_KEPT) > _MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
    return planned


@dataclass(frozen=True, slots=True)
class _Source:
    """A schema that is not yet in the registry, or needs none."""

    schema: str
    name: str
    """Full name of the record."""
    message: str | None = None


class _Planner:
    """Completes the plans of one write; connects to the registry when it is first needed."""

    def __init__(self, schema: types.StructType, config: SinkConfig) -> None:
        self._schema = schema
        self._config = config
        self._registry: Registry | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._registry is not None:
            self._registry.__exit__(None, None, None)

    def plan(self, plan: FieldPlan | None, part: PartFormat) -> FieldPlan | None:
        if plan is None:
            return None
        type_ = self._type(plan, part)
        if part.format is Format.JSON:
            planned = plan
        elif part.format.has_registry:
            planned = self._registered(plan, part, type_)
        else:
            source = _source(part, type_)
            planned = replace(plan, schema=source.schema, message=source.message)
        compile_encoder(planned, type_)
        return planned

    def _type(self, plan: FieldPlan, part: PartFormat) -> pa.StructType:
        """Return the Arrow type of the structs to serialise."""
        if plan.column is not None:
            found = _arrow(self._schema.fields[plan.column].dataType, part.part)
        else:
            fields = [self._schema.fields[index] for index in plan.fields or ()]
            found = _arrow(types.StructType(fields), "")
        return cast("pa.StructType", found)

    def _registered(self, plan: FieldPlan, part: PartFormat, type_: pa.StructType) -> FieldPlan:
        """Return a plan with a schema of the registry."""
        config = _registry_config(self._config)
        settings = config.key if part.part == "key" else config.value
        if config.use_latest or config.schema_id is not None:
            subject = self._subject(part, settings, None)
            found = self._existing(config, subject, part.format)
            message = _message(part, found.text)
        else:
            source = _source(part, type_)
            subject, message = self._subject(part, settings, source), source.message
            put = self._put(config, subject, part.format, source)
            if put is None:
                framing = Framing(prefix=_NO_ID)
                return replace(
                    plan, schema=source.schema, message=message, framing=framing, subject=subject
                )
            found = put
        return replace(
            plan,
            schema=found.text,
            message=message,
            framing=_framing(found, part, settings, message),
            subject=subject,
            schema_id=found.id,
        )

    def _existing(self, config: RegistryConfig, subject: str, format_: Format) -> Registered:
        if config.schema_id is not None:
            return self._connected(config).by_id(config.schema_id, subject, format_)
        return self._connected(config).latest(subject, format_)

    def _put(
        self, config: RegistryConfig, subject: str, format_: Format, source: _Source
    ) -> Registered | None:
        """Register or look up a schema; in a dry run, only check it and return None."""
        from spark_kafka_sink.formats.registry import Candidate

        registry, candidate = self._connected(config), Candidate(format_, source.schema)
        if not config.auto_register:
            return registry.lookup(subject, candidate)
        if self._config.dry_run:
            registry.check(subject, candidate)
            return None
        return registry.register(subject, candidate)

    def _connected(self, config: RegistryConfig) -> Registry:
        if self._registry is None:
            from spark_kafka_sink.formats.registry import Registry

            self._registry = Registry(config, self._config.producer.security.sasl)
        return self._registry

    def _subject(self, part: PartFormat, settings: PartRegistry, source: _Source | None) -> str:
        strategy, topic = settings.strategy, self._config.topic
        if topic is None and strategy is not SubjectStrategy.RECORD_NAME:
            raise ConfigError(
                f"option {part.part}.subject.name.strategy is {strategy.value}, which needs the "
                "option topic: topics of a column are not known before the tasks run",
                hint='Add .option("topic", ...), or use RecordNameStrategy.',
            )
        if strategy is not SubjectStrategy.TOPIC_NAME and source is None:
            name = ".".join(filter(None, (part.namespace, part.record_name)))
        else:
            name = "" if source is None else source.name
        return strategy.subject(topic or "", part.part, name)


def _registry_config(config: SinkConfig) -> RegistryConfig:
    return cast("RegistryConfig", cast("FormatsConfig", config.formats).registry)


def _framing(
    found: Registered, part: PartFormat, settings: PartRegistry, message: str | None
) -> Framing:
    indexes = b""
    if part.format.payload is Format.PROTOBUF:
        from spark_kafka_sink.formats.protobuf_schema import framed_indexes

        indexes = framed_indexes(found.text, message)
    if settings.framing is SchemaIdFraming.HEADER:
        return Framing(header=(f"__{part.part}_schema_id", found.header_value + indexes))
    return Framing(prefix=found.prefix + indexes)


def _source(part: PartFormat, type_: pa.StructType) -> _Source:
    """Return the schema that the options give, or else the one derived from the columns."""
    text = part.schema if part.schema_file is None else _read_file(part)
    if text is None:
        derived = derive_schema(part.format, type_, part.record_name, part.namespace)
        return _Source(derived.schema, derived.name, derived.message)
    message = _message(part, text)
    return _Source(text, message or _record_name(part, text), message)


def _message(part: PartFormat, text: str) -> str | None:
    """Return the full name of the Protobuf message to write; None for other formats."""
    if part.format.payload is not Format.PROTOBUF:
        return None
    from spark_kafka_sink.formats.protobuf_schema import ProtoSchema

    return ProtoSchema.parse(text).message(part.schema_name).name


def _record_name(part: PartFormat, text: str) -> str:
    """Return the full name of a given Avro record, or the title of a JSON Schema.

    Raises:
        ConfigError: the text is not JSON, or not a record.
    """
    option = f"{part.part}.schema" if part.schema_file is None else f"{part.part}.schema.file"
    try:
        schema: Any = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"option {option} is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise ConfigError(f"option {option} is not the schema of a record")
    if part.format.payload is Format.JSON:
        return str(schema.get("title") or part.record_name)
    name, namespace = str(schema.get("name", "")), str(schema.get("namespace") or "")
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _read_file(part: PartFormat) -> str:
    """Return the schema in a file; a Protobuf descriptor in base64.

    Raises:
        ConfigError: the file cannot be read.
    """
    from pyarrow import fs

    path, option = part.schema_file or "", f"{part.part}.schema.file"
    try:
        if "://" in path:
            system, place = fs.FileSystem.from_uri(path)
        else:
            system, place = fs.LocalFileSystem(), path
        with system.open_input_stream(place) as file:
            content = file.read()
        if part.format.payload is Format.PROTOBUF:
            return base64.b64encode(content).decode()
        return content.decode("utf-8-sig")
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ConfigError(
            f"option {option} names {shown(path)}, which the driver cannot read: "
            f"{type(error).__name__}",
            hint="The file must be on the driver, or at a URI that pyarrow.fs supports.",
        ) from None


def _arrow(data_type: types.DataType, path: str) -> pa.DataType:
    """Return the Arrow type in which Spark passes a column to tasks.

    Raises:
        ColumnError: Spark does not pass such columns to Python; the message names the path.
    """
    if isinstance(data_type, types.TimestampType):
        return pa.timestamp("us", "UTC")
    if isinstance(data_type, types.StructType):
        return pa.struct(
            [
                pa.field(
                    each.name,
                    _arrow(each.dataType, f"{path}.{each.name}" if path else each.name),
                    each.nullable,
                )
                for each in data_type.fields
            ]
        )
    if isinstance(data_type, types.ArrayType):
        item = _arrow(data_type.elementType, f"{path}[]")
        return pa.list_(pa.field("element", item, data_type.containsNull))
    if isinstance(data_type, types.MapType):
        key: Any = pa.field("key", _arrow(data_type.keyType, f"{path}.key"), nullable=False)
        value: Any = pa.field(
            "value", _arrow(data_type.valueType, f"{path}.value"), data_type.valueContainsNull
        )
        return cast("pa.DataType", pa.map_(key, value))
    try:
        return to_arrow_type(data_type)
    except PySparkException:
        raise ColumnError(
            f"column `{path}` has type {data_type.simpleString()}, which Spark does not pass to "
            "Python tasks",
            hint="cast it, for example to STRING, or drop it",
        ) from None
