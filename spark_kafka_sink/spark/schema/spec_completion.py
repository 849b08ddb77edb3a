"""Complete the encoder specs of key and value with schemas, on the driver.

A schema is derived from the columns, set by an option, or read from the registry. It is registered
or looked up once per write, and in a stream once per start of its query.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Self, cast

from pyspark.sql import types

from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.config.schema_registry import SchemaIdFraming
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, Framing, compile_encoder
from spark_kafka_sink.formats.json.json_references import JsonReferences
from spark_kafka_sink.formats.registry.configured_schemas import message_name, schema_of
from spark_kafka_sink.formats.registry.subjects import subject_of
from spark_kafka_sink.spark.schema.arrow_schema import arrow_type
from spark_kafka_sink.spark.schema.stream_start import cached_roles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from spark_kafka_sink.config.formats import FormatsConfig, PartFormat
    from spark_kafka_sink.config.schema_registry import RegistryConfig
    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.formats.registry.registry import Registry
    from spark_kafka_sink.formats.registry.registry_schemas import CandidateSchema, RegisteredSchema
    from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles
    from spark_kafka_sink.spark.schema.stream_start import StreamStart

_NO_ID = b"\0\0\0\0\0"
"""Placeholder for the schema id in a dry run, which registers nothing."""


def with_schemas(
    roles: ColumnRoles,
    schema: types.StructType,
    config: SinkConfig,
    formats: FormatsConfig,
    start: StreamStart | None,
) -> ColumnRoles:
    """Return the columns' roles with complete specs; registers or looks up schemas if necessary.

    Args:
        roles: the columns.
        schema: the DataFrame's schema.
        config: the sink's settings.
        formats: the settings of the formats and of the registry.
        start: the start of a micro-batch's stream; None for a batch write.

    Raises:
        ColumnError: a column cannot be represented in its format or schema.
        ConfigError: a given schema cannot be read.
        SchemaRegistryError: the registry cannot be reached, or rejects the schema.
    """
    complete = partial(_complete_specs, roles, schema, config, formats)
    if start is None:
        return complete()
    # A dry run has no ids; a foreachBatch function can write to several topics.
    key = (start.name, roles, schema.json(), formats, config.topic, config.dry_run)
    return cached_roles(start, key, complete)


def draft_specs(
    roles: ColumnRoles, schema: types.StructType, config: SinkConfig, formats: FormatsConfig
) -> dict[str, EncoderSpec]:
    """Return the specs of "key" and "value" with their schemas, but without framing.

    No schema is registered. The registry is needed only if options select a registered version.

    Raises:
        KafkaProdError: see `with_schemas`.
    """
    with _SpecBuilder(schema, config, formats) as builder:
        return {
            part.part: replace(builder.draft(spec, part).spec, framing=Framing())
            for spec, part in _parts_of(roles, formats)
            if spec is not None
        }


def _parts_of(
    roles: ColumnRoles, formats: FormatsConfig
) -> tuple[tuple[EncoderSpec | None, PartFormat], ...]:
    return (roles.key_spec, formats.key), (roles.value_spec, formats.value)


def _complete_specs(
    roles: ColumnRoles, schema: types.StructType, config: SinkConfig, formats: FormatsConfig
) -> ColumnRoles:
    with _SpecBuilder(schema, config, formats) as builder:
        drafts = [
            None if spec is None else builder.with_field_numbers(builder.draft(spec, part))
            for spec, part in _parts_of(roles, formats)
        ]
        builder.check_compatibility([draft for draft in drafts if draft is not None])
        key, value = (None if draft is None else builder.finish(draft) for draft in drafts)
    return replace(roles, key_spec=key, value_spec=value)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A spec with a schema that fits the columns; the schema might not have an id yet."""

    spec: EncoderSpec
    part: PartFormat
    candidate: CandidateSchema | None = None
    """The schema to register or look up, or None if the spec is complete."""
    references: JsonReferences = field(default_factory=JsonReferences)
    """See `RegisteredSchema.references`."""

    @property
    def subject(self) -> str:
        return self.spec.subject or ""


class _SpecBuilder:
    """Completes the specs of one write. It connects to the registry on first use."""

    def __init__(
        self, schema: types.StructType, config: SinkConfig, formats: FormatsConfig
    ) -> None:
        self._schema = schema
        self._config = config
        self._formats = formats
        self._opened: Registry | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._opened is not None:
            self._opened.close()

    def draft(self, spec: EncoderSpec, part: PartFormat) -> _Draft:
        """Return the spec with a schema that fits the columns, without registering it."""
        type_ = self._struct_type(spec, part)
        if part.format is Format.JSON:
            draft = _Draft(spec, part)
        elif part.format.has_registry:
            draft = self._with_subject(spec, part, type_)
        else:
            source = schema_of(part, type_)
            draft = _Draft(replace(spec, schema=source.text, message=source.message), part)
        compile_encoder(draft.spec, type_)
        if draft.spec.schema is not None and part.format.payload is Format.JSON:
            from spark_kafka_sink.formats.json.json_check_compiler import compile_check

            check = compile_check(draft.spec.schema, type_, draft.references)
            return replace(draft, spec=replace(draft.spec, check=check))
        return draft

    def with_field_numbers(self, draft: _Draft) -> _Draft:
        """Return the draft with a derived Protobuf schema that has the numbers of its subject.

        Raises:
            SchemaRegistryError: see `Registry.protobuf_versions`.
        """
        part, candidate = draft.part, draft.candidate
        if candidate is None or part.format.payload is not Format.PROTOBUF or part.has_schema:
            return draft
        # `mock://` has only the versions of this process, and accepts any schema.
        if self._registry_config.is_mock or self._registry.contains(draft.subject, candidate):
            return draft
        from spark_kafka_sink.formats.protobuf.protobuf_derivation import derive

        versions = self._registry.protobuf_versions(draft.subject)
        type_ = self._struct_type(draft.spec, part)
        text = derive(type_, part.record_name, part.record_namespace, versions).text
        spec = replace(draft.spec, schema=text)
        return replace(draft, spec=spec, candidate=replace(candidate, text=text))

    def check_compatibility(self, drafts: Sequence[_Draft]) -> None:
        """Check the schemas in a dry run, or if there are two, so that none or both are registered.

        Raises:
            SchemaRegistryError: see `Registry.check_compatibility` and `Registry.check_guids`.
        """
        pending = [draft for draft in drafts if draft.candidate is not None]
        if not pending or not self._registry_config.auto_register:
            return
        for unfinished in pending:
            if self._registry_config.part(unfinished.part.part).framing is SchemaIdFraming.HEADER:
                self._registry.check_guids(unfinished.subject)
        if len(pending) > 1 or self._config.dry_run:
            for unfinished in pending:
                self._registry.check_compatibility(
                    unfinished.subject, cast("CandidateSchema", unfinished.candidate)
                )

    def finish(self, draft: _Draft) -> EncoderSpec:
        """Return the spec with the id of its schema, or without an id in a dry run."""
        auto = draft.candidate is not None and self._registry_config.auto_register
        if draft.candidate is None or (auto and self._config.dry_run):
            return draft.spec
        put = self._registry.register if auto else self._registry.lookup
        return self._with_schema_id(draft.spec, draft.part, put(draft.subject, draft.candidate))

    def _struct_type(self, spec: EncoderSpec, part: PartFormat) -> pa.StructType:
        """Return the Arrow type of the structs that are serialized."""
        if spec.column is not None:
            type_ = arrow_type(self._schema.fields[spec.column].dataType, part.part)
        else:
            fields = [self._schema.fields[index] for index in spec.fields or ()]
            type_ = arrow_type(types.StructType(fields), "")
        return cast("pa.StructType", type_)

    def _with_subject(self, spec: EncoderSpec, part: PartFormat, type_: pa.StructType) -> _Draft:
        """Return a spec with a registered schema, or with a schema to register or look up."""
        from spark_kafka_sink.formats.registry.registry_schemas import CandidateSchema

        config, topic = self._registry_config, self._config.topic
        if config.chooses_version:
            subject = subject_of(config, part, topic, None)
            existing = self._registry.fetch_selected_schema(subject, part.format)
            spec = replace(
                spec,
                schema=existing.text,
                message=message_name(part, existing.text),
                subject=subject,
            )
            spec = self._with_schema_id(spec, part, existing)
            return _Draft(spec, part, references=existing.references)
        source = schema_of(part, type_)
        spec = replace(
            spec,
            schema=source.text,
            message=source.message,
            framing=Framing(prefix=_NO_ID),
            subject=subject_of(config, part, topic, source),
        )
        return _Draft(spec, part, CandidateSchema(part.format, source.text, source.texts))

    def _with_schema_id(
        self, spec: EncoderSpec, part: PartFormat, registered: RegisteredSchema
    ) -> EncoderSpec:
        return replace(
            spec,
            schema=registered.text,
            framing=_framing_of(registered, part, self._registry_config, spec.message),
            schema_id=registered.id,
        )

    @property
    def _registry_config(self) -> RegistryConfig:
        return cast("RegistryConfig", self._formats.registry)

    @property
    def _registry(self) -> Registry:
        if self._opened is None:
            from spark_kafka_sink.formats.registry.registry import Registry

            self._opened = Registry(self._registry_config, self._config.producer.security.sasl)
        return self._opened


def _framing_of(
    registered: RegisteredSchema, part: PartFormat, config: RegistryConfig, message: str | None
) -> Framing:
    indexes = b""
    if part.format.payload is Format.PROTOBUF:
        from spark_kafka_sink.formats.protobuf.protobuf_indexes import encode_indexes

        indexes = encode_indexes(registered.text, message)
    if config.part(part.part).framing is SchemaIdFraming.HEADER:
        return Framing(header=(f"__{part.part}_schema_id", registered.header_value + indexes))
    return Framing(prefix=registered.prefix + indexes)
