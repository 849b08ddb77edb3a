"""The validated configuration of a write. It is built once on the driver and sent to every task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spark_kafka_sink.config import enums
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy
from spark_kafka_sink.config.exactly_once import ExactlyOnceConfig
from spark_kafka_sink.config.option_definition import fields_of
from spark_kafka_sink.config.option_tables import ProducerOptions, WriteOptions
from spark_kafka_sink.config.throttling import ThrottlingConfig
from spark_kafka_sink.config.topic_creation import TopicCreation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.config.formats import FormatsConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ProducerOptions):
    """The configuration of a producer, and of its client."""

    max_batched_request_size: int
    """Maximum size of a Produce request with several batches, in bytes."""
    partitioner_function: str | None
    """The user's function as "module:function" if `partitioner` is FUNCTION."""

    @property
    def max_record_size(self) -> int:
        """The maximum size of a record in bytes, including the header of its batch."""
        return min(self.max_request_size, self.buffer_memory)

    def pipeline(self) -> tuple[tuple[str, str], ...]:
        """Return the options that affect how batches are built and sent, sorted by Kafka's name."""
        return (
            ("acks", self.acks.name.lower()),
            ("batch.size", str(self.batch_size)),
            ("buffer.memory", str(self.buffer_memory)),
            ("compression.type", self.compression_type.name.lower()),
            ("linger.ms", str(self.linger_ms)),
            ("max.in.flight.requests.per.connection", str(self.max_in_flight)),
            ("max.request.size", str(self.max_request_size)),
            ("partitioner", self.partitioner.name.lower()),
        )

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ProducerConfig:
        """Parse `kafka.*` options without the sink's own options. See `SinkConfig.parse`."""
        return SinkConfig.parse(options).producer


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConfig(WriteOptions):
    """The configuration of a write: the producer's config and the sink's own options."""

    producer: ProducerConfig
    formats: FormatsConfig | None = None
    """Formats of key and value, or None if both are raw columns."""
    topic_creation: TopicCreation = field(default_factory=TopicCreation)
    dead_letters: DeadLetterPolicy = field(default_factory=DeadLetterPolicy)
    throttling: ThrottlingConfig = field(default_factory=ThrottlingConfig)
    exactly_once: ExactlyOnceConfig = field(default_factory=ExactlyOnceConfig)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, batch_write: bool = False) -> SinkConfig:
        """Parse and validate the options of a write as Spark passes them, with names in any case.

        If `batch_write` is True, the default of linger.ms is higher.

        Raises:
            ConfigError: an option is wrong, missing or unknown, or two options contradict each
                other. The message contains the name, the value and the allowed values. For a typo,
                it contains the most similar name.
        """
        from spark_kafka_sink.config import config_builder  # only for planning

        parsed = config_builder.parse_options(options, batch_write=batch_write)
        producer = ProducerConfig(
            **fields_of(ProducerOptions, parsed.producer), **config_builder.producer_fields(parsed)
        )
        config = cls(
            **fields_of(WriteOptions, parsed.sink),
            producer=producer,
            **config_builder.sink_fields(parsed),
        )
        return config._for_dry_run() if config.dry_run else config

    @property
    def assumed_topics(self) -> tuple[tuple[str, int], ...]:
        """Topics that a write would create, with partition counts; a dry run assumes they exist.

        The dead letter topic is assumed to have one partition.
        """
        creation, dead_letter_topic = self.topic_creation, self.dead_letters.dead_letter_topic
        if not self.dry_run or not creation.create:
            return ()
        topics = () if dead_letter_topic is None else ((dead_letter_topic, 1),)
        if self.topic is None or creation.partitions is None:
            return topics
        return ((self.topic, creation.partitions), *topics)

    def _for_dry_run(self) -> SinkConfig:
        """Return the config for a dry run.

        A dry run requests no producer id, opens no transaction, creates no topic and exports no
        metrics. A preflight error fails a dry run, unless preflight is off.
        """
        return replace(
            self,
            producer=replace(
                self.producer, enable_idempotence=False, allow_auto_create_topics=False
            ),
            preflight=enums.PreflightMode.OFF
            if self.preflight is enums.PreflightMode.OFF
            else enums.PreflightMode.FAIL,
            exactly_once=ExactlyOnceConfig(),
            prometheus_textfile=None,
            prometheus_pushgateway=None,
            opentelemetry=False,
        )
