"""The subjects of schemas in the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.schema_registry import RegistryConfig, SubjectStrategy
from spark_kafka_sink.formats.avro.avro_schema import qualified_name

if TYPE_CHECKING:
    from spark_kafka_sink.config.formats import PartFormat
    from spark_kafka_sink.formats.encoder_spec import UnregisteredSchema


def subject_of(
    config: RegistryConfig, part: PartFormat, topic: str | None, schema: UnregisteredSchema | None
) -> str:
    """Return the subject of the key's or the value's schema.

    Args:
        config: the registry's options.
        part: the key or the value.
        topic: the value of the option `topic`, if set.
        schema: the schema; if None, the record's name is taken from the options.

    Raises:
        ConfigError: the subject contains the topic, and the option `topic` is not set.
    """
    strategy = config.part(part.part).strategy
    if topic is None and strategy is not SubjectStrategy.RECORD_NAME:
        raise ConfigError(
            f"option {part.part}.subject.name.strategy is {strategy.value}, which needs the option "
            "topic: topics of a column are not known before the tasks run",
            hint='Add .option("topic", ...), or use RecordNameStrategy.',
        )
    configured = part.full_name or qualified_name(part.record_name, part.namespace)
    name = configured.partition(",")[0].strip() if schema is None else schema.name
    if not name and strategy is not SubjectStrategy.TOPIC_NAME:
        raise ConfigError(
            f"option {part.part}.subject.name.strategy is {strategy.value}, but the schema of the "
            f"{part.part} is not a record with a name",
            hint="Use the schema of the record alone, in JSON Schema with a title, or "
            "TopicNameStrategy.",
        )
    return format_subject(strategy, topic or "", part.part, name)


def format_subject(strategy: SubjectStrategy, topic: str, part: str, record: str) -> str:
    """Return the subject of a topic's key or value; `record` is the full name of the record."""
    if strategy is SubjectStrategy.TOPIC_NAME:
        return f"{topic}-{part}"
    return record if strategy is SubjectStrategy.RECORD_NAME else f"{topic}-{record}"
