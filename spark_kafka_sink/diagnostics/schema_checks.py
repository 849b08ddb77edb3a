"""Check the schemas of key and value in the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import KafkaProdError, SchemaRegistryError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.config.schema_registry import SchemaIdFraming
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding
from spark_kafka_sink.formats.json.json_check_compiler import check_schema
from spark_kafka_sink.formats.registry.configured_schemas import configured_schema, message_name
from spark_kafka_sink.formats.registry.registry import Registry
from spark_kafka_sink.formats.registry.registry_schemas import CandidateSchema, missing_guid_error
from spark_kafka_sink.formats.registry.subjects import subject_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.config.formats import PartFormat
    from spark_kafka_sink.config.schema_registry import RegistryConfig
    from spark_kafka_sink.config.sink_config import SinkConfig


def check_schemas(config: SinkConfig) -> Iterator[Finding]:
    """Yield a finding for the key and for the value if they use the registry.

    A schema in the options is checked as in a dry run. A schema that is derived from columns is not
    known yet, so only its subject is checked.
    """
    formats = config.formats
    if formats is None or formats.registry is None:
        return
    parts = [part for part in (formats.key, formats.value) if part.format.has_registry]
    try:
        with Registry(formats.registry, config.producer.security.sasl) as registry:
            for part in parts:
                yield _check_schema(registry, formats.registry, part, config.topic)
    except KafkaProdError as error:
        yield Finding.failure(CheckStep.REGISTRY, error)


def _check_schema(
    registry: Registry, config: RegistryConfig, part: PartFormat, topic: str | None
) -> Finding:
    needs_guid = config.part(part.part).framing is SchemaIdFraming.HEADER
    source = None if config.chooses_version else configured_schema(part)
    subject = subject_of(config, part, topic, source)
    if config.chooses_version:
        registered = registry.fetch_selected_schema(subject, part.format)
        _check_text(part, registered.text)
    else:
        if needs_guid:
            registry.check_guids(subject)
        if source is None:
            return _check_subject(subject, exists=registry.has_versions(subject), config=config)
        _check_text(part, source.text)
        candidate = CandidateSchema(part.format, source.text, source.texts)
        if config.auto_register:
            return Finding.ok(CheckStep.REGISTRY, registry.check_compatibility(subject, candidate))
        registered = registry.lookup(subject, candidate)
    if needs_guid and registered.guid is None:
        raise missing_guid_error(subject)
    return Finding.ok(
        CheckStep.REGISTRY, f"subject {subject} has the schema with id {registered.id}"
    )


def _check_text(part: PartFormat, text: str) -> None:
    """Check that a text is a schema, and contains the message or record that the options name."""
    message_name(part, text)
    if part.format.payload is Format.JSON:
        check_schema(text)


def _check_subject(subject: str, *, exists: bool, config: RegistryConfig) -> Finding:
    """Return the finding for a schema that is derived from columns."""
    if not exists and not config.auto_register:
        error = SchemaRegistryError(
            f"subject {subject} does not exist, and auto.register.schemas is false",
            hint="Register the schema, or set auto.register.schemas=true.",
        )
        return Finding.failure(CheckStep.REGISTRY, error)
    return Finding.note(
        CheckStep.REGISTRY,
        f"subject {subject} {'exists' if exists else 'does not exist yet'}; a write with "
        "dryRun=true checks the schema of its columns",
    )
