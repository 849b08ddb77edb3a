"""Check the schemas of a write in the registry, without registering them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import KafkaProdError, SchemaRegistryError
from spark_kafka_sink.diagnostics.finding import Finding, Step
from spark_kafka_sink.formats.registry import Candidate, Registry
from spark_kafka_sink.formats.sources import given_source, message_of, subject_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.config.formats import PartFormat
    from spark_kafka_sink.config.model import SinkConfig
    from spark_kafka_sink.config.schema_registry import RegistryConfig


def judge_schemas(config: SinkConfig) -> Iterator[Finding]:
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
                yield _judge(registry, formats.registry, part, config.topic)
    except KafkaProdError as error:
        yield Finding.failure(Step.REGISTRY, error)


def _judge(
    registry: Registry, config: RegistryConfig, part: PartFormat, topic: str | None
) -> Finding:
    if config.chooses_version:
        subject = subject_of(config, part, topic, None)
        found = registry.existing(subject, part.format)
        message_of(part, found.text)
        return Finding.ok(Step.REGISTRY, f"subject {subject} has the schema with id {found.id}")
    source = given_source(part)
    subject = subject_of(config, part, topic, source)
    if source is None:
        return _judge_subject(subject, exists=registry.has_versions(subject), config=config)
    candidate = Candidate(part.format, source.schema)
    if config.auto_register:
        return Finding.ok(Step.REGISTRY, registry.check(subject, candidate))
    found = registry.lookup(subject, candidate)
    return Finding.ok(Step.REGISTRY, f"subject {subject} has the schema with id {found.id}")


def _judge_subject(subject: str, *, exists: bool, config: RegistryConfig) -> Finding:
    """Return the finding for a schema that is derived from columns."""
    if not exists and not config.auto_register:
        error = SchemaRegistryError(
            f"subject {subject} does not exist, and auto.register.schemas is false",
            hint="register the schema, or set auto.register.schemas=true",
        )
        return Finding.failure(Step.REGISTRY, error)
    return Finding.note(
        Step.REGISTRY,
        f"subject {subject} {'exists' if exists else 'does not exist yet'}; a write with "
        "dryRun=true checks the schema of its columns",
    )
