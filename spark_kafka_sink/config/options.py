"""The tables of all options except security options; the classes of `config` declare them."""

from __future__ import annotations

from spark_kafka_sink.config.dead_letters import DEAD_LETTER_OPTIONS
from spark_kafka_sink.config.exactly_once import EXACTLY_ONCE_OPTIONS
from spark_kafka_sink.config.formats import FORMAT_OPTIONS
from spark_kafka_sink.config.model import ProducerConfig, SinkConfig
from spark_kafka_sink.config.option import Option, options_of
from spark_kafka_sink.config.schema_registry import REGISTRY_OPTIONS
from spark_kafka_sink.config.throttling import THROTTLING_OPTIONS
from spark_kafka_sink.config.topic_creation import TOPIC_CREATION_OPTIONS

PRODUCER_OPTIONS = options_of(ProducerConfig)
"""Options that are set as `kafka.<name>`."""
SINK_OPTIONS = (
    *options_of(SinkConfig),
    *FORMAT_OPTIONS,
    *REGISTRY_OPTIONS,
    *TOPIC_CREATION_OPTIONS,
    *EXACTLY_ONCE_OPTIONS,
    *DEAD_LETTER_OPTIONS,
    *THROTTLING_OPTIONS,
)
"""The sink's own options. Their names are case-insensitive."""

DEVIATIONS: tuple[Option, ...] = tuple(row for row in PRODUCER_OPTIONS if row.bulk is not None)
"""Options whose default differs from Java's. With profile=java, they have Java's default."""
