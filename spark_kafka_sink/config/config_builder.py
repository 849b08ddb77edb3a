"""Parse the user's options for a write, and convert their values to fields of its configuration.

The steps of `parse_options`, in order: split options by name, load the profile, parse values, apply
the rules across options.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from spark_kafka_sink.common.debug_log import parse_contexts
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import reject_credentials
from spark_kafka_sink.common.optional_dependencies import require_extra
from spark_kafka_sink.common.similar_names import did_you_mean
from spark_kafka_sink.config import enums, option_parser, option_tables
from spark_kafka_sink.config.addresses import secured_protocols
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy
from spark_kafka_sink.config.exactly_once import TRANSACTION_TIMEOUT, ExactlyOnceConfig
from spark_kafka_sink.config.formats import FormatsConfig
from spark_kafka_sink.config.known_options import UserOptions, split_options
from spark_kafka_sink.config.option_definition import PREFIX
from spark_kafka_sink.config.profiles import load_profile
from spark_kafka_sink.config.rules import apply_rules, batch_write_linger, max_batched_request_size
from spark_kafka_sink.config.security.security_builder import build_security
from spark_kafka_sink.config.throttling import ThrottlingConfig
from spark_kafka_sink.config.topic_creation import TopicCreation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.common.debug_log import DebugContext
    from spark_kafka_sink.config.security.security_config import SecurityConfig, SecurityProtocol

_BOOTSTRAP = "bootstrap.servers"
BOOTSTRAP_OPTION = PREFIX + _BOOTSTRAP
_FUNCTION = re.compile(r"\w+(\.\w+)*:\w+(\.\w+)*")
_LEVEL_OPTIONS = {
    enums.Codec.GZIP: "compression.gzip.level",
    enums.Codec.LZ4: "compression.lz4.level",
    enums.Codec.ZSTD: "compression.zstd.level",
}
_GENERAL_LEVEL = "compression.level"
_JAVA_LZ4_LEVELS = {0: 9, 1: 9, 2: 9, 9: 8}
"""librdkafka's levels that have different numbers in Java. LZ4F's levels 0 to 2 select the fast
compressor, which is level 9 in Java.
"""


@dataclass(frozen=True, slots=True)
class ParsedOptions:
    """The values of all options, by name, and the options that the user set."""

    producer: Mapping[str, Any]
    """The values of the producer's options, to which the rules have been applied."""
    sink: Mapping[str, Any]
    """The values of the sink's own options."""
    user_options: UserOptions
    """The options that the user set."""
    set_options: frozenset[str]
    """Names of the producer's options that the user or the profile set."""


class ProducerFields(TypedDict):
    """The fields of `ProducerConfig` that do not have the value of an option."""

    bootstrap_servers: tuple[str, ...]
    acks: enums.Acks
    max_batched_request_size: int
    compression_type: enums.Codec
    compression_level: int | None
    debug: tuple[DebugContext, ...]
    partitioner: enums.PartitionerName
    partitioner_function: str | None
    security: SecurityConfig


class SinkFields(TypedDict):
    """The fields of `SinkConfig`, except `producer`, that do not have the value of an option."""

    report_path: str | None
    statistics_path: str | None
    prometheus_textfile: str | None
    prometheus_pushgateway: str | None
    dead_letters: DeadLetterPolicy
    throttling: ThrottlingConfig
    exactly_once: ExactlyOnceConfig
    formats: FormatsConfig | None
    topic_creation: TopicCreation


def parse_options(options: Mapping[str, str], *, batch_write: bool) -> ParsedOptions:
    """Parse all options of a write; see `SinkConfig.parse`."""
    user_options = split_options(options)
    sink = option_parser.parse_values(option_tables.SINK_OPTIONS, user_options.sink, "")
    with_profile = {**load_profile(sink["profile"]), **user_options.producer}
    if _BOOTSTRAP not in with_profile:
        raise ConfigError(
            f"option {BOOTSTRAP_OPTION} is required",
            hint=f'Add .option("{BOOTSTRAP_OPTION}", "host:9092").',
        )
    set_options = frozenset(with_profile)
    producer = apply_rules(
        option_parser.parse_values(option_tables.PRODUCER_OPTIONS, with_profile, PREFIX),
        set_options,
    )
    if batch_write and "linger.ms" not in set_options:
        producer["linger.ms"] = batch_write_linger(producer, option_tables.BATCH_WRITE_LINGER_MS)
    return ParsedOptions(producer, sink, user_options, set_options)


def producer_fields(options: ParsedOptions) -> ProducerFields:
    """Convert values of the producer's options, and check security options.

    Raises:
        ConfigError: see `SinkConfig.parse`.
    """
    values, user_options = options.producer, options.user_options
    partitioner, function = _parse_partitioner(values["partitioner"], values["partitioner.class"])
    codec = enums.Codec.named(values["compression.type"])
    fields = ProducerFields(
        bootstrap_servers=values[_BOOTSTRAP],
        acks=enums.Acks.named(values["acks"]),
        max_batched_request_size=max_batched_request_size(values, options.set_options),
        compression_type=codec,
        compression_level=_compression_level(values, codec, user_options.producer),
        debug=parse_contexts(values["debug"], f"{PREFIX}debug"),
        partitioner=partitioner,
        partitioner_function=function,
        security=build_security(user_options.security),
    )
    _check_address_protocols(user_options.producer[_BOOTSTRAP], fields["security"].protocol)
    return fields


def sink_fields(options: ParsedOptions) -> SinkFields:
    """Convert and check values of the sink's own options.

    Raises:
        ConfigError: see `SinkConfig.parse`.
    """
    values, user_options = options.sink, options.user_options.sink
    exactly_once = ExactlyOnceConfig.from_options(
        values,
        is_idempotent=options.producer["enable.idempotence"],
        transaction_timeout_ms=options.producer[TRANSACTION_TIMEOUT],
    )
    _check_write_options(values)
    return SinkFields(
        report_path=values["reportPath"] or None,
        statistics_path=values["statisticsPath"] or None,
        prometheus_textfile=values["metrics.prometheus.textfile"] or None,
        prometheus_pushgateway=values["metrics.prometheus.pushgateway"] or None,
        dead_letters=_dead_letters(values),
        throttling=ThrottlingConfig.from_options(values),
        exactly_once=exactly_once,
        formats=FormatsConfig.from_options(values, user_options),
        topic_creation=TopicCreation.from_options(values, user_options),
    )


def _check_address_protocols(text: str, protocol: SecurityProtocol) -> None:
    """Raise if an address such as SASL_SSL://host:port contradicts the option's protocol.

    Java ignores the protocol of the address, and would connect in plain text.
    """
    others = sorted(secured_protocols(text) - {protocol.value})
    if others:
        raise ConfigError(
            f"option {BOOTSTRAP_OPTION} uses the protocol {others[0]}, but "
            f"{PREFIX}security.protocol is {protocol.value}",
            hint=f"Set {PREFIX}security.protocol={others[0]}, or use host:port without a protocol.",
        )


def _compression_level(
    values: Mapping[str, Any], codec: enums.Codec, user_options: Mapping[str, str]
) -> int | None:
    """Return the compression level, from librdkafka's option or Java's option for the codec."""
    if codec not in _LEVEL_OPTIONS:
        return None
    name = _LEVEL_OPTIONS[codec]
    general_level, codec_level = int(values[_GENERAL_LEVEL]), int(values[name])
    if general_level == -1:
        return codec_level
    option = next(option for option in option_tables.PRODUCER_OPTIONS if option.name == name)
    level = (
        _JAVA_LZ4_LEVELS.get(general_level, general_level)
        if codec is enums.Codec.LZ4
        else general_level
    )
    if not option.accepts(level):
        raise option_parser.wrong_value_error(
            option, str(general_level), f"{PREFIX}{_GENERAL_LEVEL}"
        )
    if name in user_options and codec_level != level:
        raise option_parser.synonym_error(f"{PREFIX}{_GENERAL_LEVEL}", f"{PREFIX}{name}")
    return level


def _parse_partitioner(name: str, java_class: str) -> tuple[enums.PartitionerName, str | None]:
    """Return the partitioner and, if the partitioner is a Python function, its name.

    Raises:
        ConfigError: more than one partitioner is set, or the name is unknown.
    """
    if not name:
        return enums.JAVA_PARTITIONERS[java_class], None
    if java_class:
        raise option_parser.conflict_error(f"{PREFIX}partitioner", f"{PREFIX}partitioner.class")
    allowed = [choice.value for choice in enums.LIBRDKAFKA_PARTITIONERS]
    if name in allowed:
        return enums.PartitionerName(name), None
    if not _FUNCTION.fullmatch(name):
        choices = ", ".join([*allowed, "or module:function"])
        hint = did_you_mean(name, allowed)
        raise option_parser.not_allowed_error(f"{PREFIX}partitioner", name, choices, hint)
    return enums.PartitionerName.FUNCTION, name


def _check_write_options(values: Mapping[str, Any]) -> None:
    """Check the topic, and the paths and addresses for reports and metrics."""
    if values["topic"] is not None:
        option_parser.check_topic("topic", values["topic"])
    for key in ("reportPath", "statisticsPath"):
        if values[key] is not None:
            reject_credentials(values[key], key)
    _check_exporters(values)


def _dead_letters(values: Mapping[str, Any]) -> DeadLetterPolicy:
    policy = DeadLetterPolicy.from_options(values)
    if policy.dead_letter_topic is not None:
        option_parser.check_topic("errors.deadletterqueue.topic.name", policy.dead_letter_topic)
        if policy.dead_letter_topic == values["topic"]:
            raise ConfigError(
                f"option errors.deadletterqueue.topic.name is {policy.dead_letter_topic}, which is "
                "also option topic",
                hint="Use a separate topic for dead letters. In the same topic, consumers would "
                "read dead letters as ordinary records, or as tombstones if they have no value.",
            )
    return policy


def _check_exporters(values: Mapping[str, Any]) -> None:
    """Check that the libraries of the metrics exporters are installed."""
    for option in ("metrics.prometheus.textfile", "metrics.prometheus.pushgateway"):
        if values[option]:
            require_extra("prometheus", f"option {option}")
            reject_credentials(values[option], option)
    if values["metrics.prometheus.pushgateway"]:  # The scheme can be omitted.
        uri = f"http://{values['metrics.prometheus.pushgateway']}"
        reject_credentials(uri, "metrics.prometheus.pushgateway")
    if values["metrics.opentelemetry"]:
        require_extra("opentelemetry", "option metrics.opentelemetry")
