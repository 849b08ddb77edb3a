"""Classify option names as known, ignored, rejected or unknown, before any value is parsed.

The tables list names that are valid elsewhere in Kafka or Spark but not supported here. Such a name
is ignored with a warning if that is safe, and rejected otherwise.

Source: Kafka 4.3's ProducerConfig and ConsumerConfig, librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.logs import warn_once
from spark_kafka_sink.common.masking import safe_name
from spark_kafka_sink.common.similar_names import MIN_TYPO_RATIO, nearest
from spark_kafka_sink.config.aliases import ALIASES, NamedOptions
from spark_kafka_sink.config.option_definition import PREFIX, names_in
from spark_kafka_sink.config.option_parser import synonym_error
from spark_kafka_sink.config.option_tables import PRODUCER_OPTIONS, SINK_OPTIONS
from spark_kafka_sink.config.schema_registry import REGISTRY_NAMES, REGISTRY_PREFIX
from spark_kafka_sink.config.security import security_names
from spark_kafka_sink.config.security.security_options import SECURITY_OPTIONS
from spark_kafka_sink.config.topic_creation import CONFIG_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


IGNORED_PRODUCER_KEYS = names_in(
    """
    client.dns.lookup enable.metrics.push metadata.max.idle.ms metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms security.providers
    socket.connection.setup.timeout.max.ms
    """
)
"""Java's producer options that change neither the records nor their guarantees."""

_IGNORED_CONSUMER_KEYS = names_in(
    """
    auto.commit.interval.ms auto.offset.reset check.crcs client.rack default.api.timeout.ms
    enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes
    group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    isolation.level key.deserializer max.partition.fetch.bytes max.poll.interval.ms
    max.poll.records partition.assignment.strategy session.timeout.ms value.deserializer
    """
)
"""Consumer options. They are ignored, because the same options are often used to read and to write.
"""

IGNORED_LIBRDKAFKA_KEYS = names_in(
    """
    api.version.fallback.ms api.version.request api.version.request.timeout.ms
    broker.address.family broker.address.ttl broker.version.fallback builtin.features
    delivery.report.only.error enable.random.seed enabled_events internal.termination.signal
    log.connection.close log.queue log.thread.name log_level message.copy.max.bytes
    produce.offset.report queue.buffering.backpressure.threshold queue.buffering.max.messages
    queuing.strategy receive.message.max.bytes reconnect.backoff.jitter.ms socket.blocking.max.ms
    socket.keepalive.enable socket.max.fails socket.nagle.disable sticky.partitioning.linger.ms
    topic.blacklist topic.metadata.propagation.max.ms topic.metadata.refresh.fast.cnt
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse
    """
)
"""librdkafka's producer options without an equivalent. They change neither the records nor their
guarantees.
"""

_LIBRDKAFKA_CONSUMER_KEYS = names_in(
    """
    auto.commit.enable consume.callback.max.messages coordinator.query.interval.ms
    enable.auto.offset.store enable.partition.eof fetch.error.backoff.ms fetch.message.max.bytes
    fetch.queue.backoff.ms fetch.wait.max.ms group.protocol.type offset.store.method
    offset.store.path offset.store.sync.interval.ms queued.max.messages.kbytes queued.min.messages
    share.acknowledgement.mode
    """
)

IGNORED_KEYS = (
    IGNORED_PRODUCER_KEYS
    | _IGNORED_CONSUMER_KEYS
    | IGNORED_LIBRDKAFKA_KEYS
    | _LIBRDKAFKA_CONSUMER_KEYS
    | names_in(
        """
        auto.include.jmx.reporter id.compatibility.strict latest.compatibility.strict
        max.schemas.per.subject
        """
    )
)

_CALLBACKS = names_in(
    """
    background_event_cb closesocket_cb connect_cb consume_cb default_topic_conf dr_cb dr_msg_cb
    error_cb log_cb msg_order_cmp offset_commit_cb opaque open_cb partitioner_cb rebalance_cb
    resolve_cb socket_cb stats_cb throttle_cb
    """
)
"""Options of librdkafka that can be set only by a program."""

_PROVIDERS = "config.providers"
_COUNTERPARTS = {
    "block.on.buffer.full": "kafka.max.block.ms",
    "broker.list": "kafka.bootstrap.servers",
    "brokers": "kafka.bootstrap.servers",
    "compression": "kafka.compression.type",
    _PROVIDERS: "env:NAME or file:PATH as the value instead of ${provider:...}",
    "dr_cb": "reportPath",
    "dr_msg_cb": "reportPath",
    "metadata.fetch.timeout.ms": "kafka.max.block.ms",
    "partitioner_cb": "kafka.partitioner",
    "queue.enqueue.timeout.ms": "kafka.max.block.ms",
    "stats_cb": "kafka.statistics.interval.ms",
    "timeout.ms": "kafka.request.timeout.ms",
    "topic": "topic",
    "transaction.two.phase.commit.enable": "twoPhaseCommit with deliveryGuarantee=exactly-once",
    "transactional.id": "transactionalIdPrefix with deliveryGuarantee=exactly-once",
}
"""Names used by other clients or by Kafka before 1.0, with the equivalent option of this sink."""

SERIALIZERS = frozenset({"key.serializer", "value.serializer"})

UNSAFE_PREFIXES = (_PROVIDERS, "transactional.")
"""Prefixes of options that are unsafe to ignore: data would be sent without the requested
guarantee, and references such as ${env:NAME} would be used as passwords.
"""

UNSAFE_KEYS = names_in(
    """
    interceptor.classes interceptors plugin.library.paths transaction.two.phase.commit.enable
    """
)
"""Options that are unsafe to ignore: the written data would differ from what was requested."""

UNSAFE_REGISTRY_KEYS = frozenset({"context.name.strategy", "use.latest.with.metadata"})
"""Options of Java's serializers that are unsafe to ignore: they select another schema."""

SPARK_OPTIONS = names_in(
    """
    asyncprogresstrackingcheckpointintervalms asyncprogresstrackingenabled checkpointlocation
    outputmode path queryname
    """
)
"""Options of Spark itself, in lower case. They are never treated as typos."""

_SOURCE_TOPICS = frozenset({"assign", "subscribe", "subscribepattern"})
"""Options of Spark's Kafka source that select the topics to read, in lower case."""

_SOURCE_OPTIONS = _SOURCE_TOPICS | names_in(
    """
    endingoffsets endingoffsetsbytimestamp endingtimestamp failondataloss fetchoffset.numretries
    fetchoffset.retryintervalms groupidprefix kafkaconsumer.polltimeoutms maxoffsetspertrigger
    maxrecordsperpartition maxtriggerdelay minoffsetspertrigger minpartitions startingoffsets
    startingoffsetsbytimestamp startingoffsetsbytimestampstrategy startingtimestamp
    """
)
"""Options of Spark's Kafka source, in lower case. They have no effect, as in Spark's Kafka sink."""
PRODUCER_NAMES = frozenset(option.name for option in PRODUCER_OPTIONS)
SINK_NAMES = {option.name.lower(): option.name for option in SINK_OPTIONS}
KNOWN_NAMES = (
    PRODUCER_NAMES
    | ALIASES.keys()
    | security_names.SECURITY_NAMES
    | security_names.SECURITY_ALIASES.keys()
    | security_names.IGNORED_SECURITY_KEYS
    | IGNORED_KEYS
    | _CALLBACKS
    | _COUNTERPARTS.keys()
)
"""Names that are suggested for a mistyped name."""

_KAFKA = PREFIX.removesuffix(".")
_LOW_SIMILARITY = 0.7
"""Minimum similarity of a suggestion; low enough to match `saslmechanism` to `sasl.mechanism`, and
`acsk` to `acks`.
"""
_SHORT = 5
"""Length up to which one wrong letter makes a name less similar than `MIN_TYPO_RATIO`."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UserOptions:
    """The options that the user set, stored under their names in the tables.

    They are excluded from repr, because some are passwords.
    """

    producer: NamedOptions = field(repr=False)
    security: NamedOptions = field(repr=False)
    sink: dict[str, str] = field(repr=False)


def is_kafka_option(name: str) -> bool:
    """Return True if a name without prefix is an option, including ignored and rejected options."""
    return (
        name in KNOWN_NAMES | security_names.REJECTED_SECURITY_KEYS.keys() | UNSAFE_KEYS
        or name in SERIALIZERS
        or name.startswith(UNSAFE_PREFIXES)
    )


def registry_name(name: str) -> str | None:
    """Return the unprefixed name of a schema registry option, or None for any other option.

    As in Java's client of the registry, names may begin with `schema.registry.`.
    """
    plain = name.removeprefix(PREFIX)
    spellings = (plain, plain.removeprefix(REGISTRY_PREFIX))
    return next((spelling for spelling in spellings if spelling in REGISTRY_NAMES), None)


def table_name(name: str) -> str:
    """Return the name in the tables of a `kafka.` option without prefix, which can be an alias."""
    alias = ALIASES.get(name) or security_names.SECURITY_ALIASES.get(name)
    return name if alias is None else alias.option


def split_options(options: Mapping[str, str]) -> UserOptions:
    """Split options into the options of the producer, of security and of the sink.

    librdkafka's aliases are replaced by the corresponding options. Only options in the tables are
    returned. The values of all other options are dropped without being read, so that no secret
    among them is passed on.

    Raises:
        ConfigError: a name is unknown or rejected, or an option is set to different values by two
            names.
    """
    user_options = UserOptions(
        NamedOptions(PRODUCER_OPTIONS, ALIASES),
        NamedOptions(SECURITY_OPTIONS, security_names.SECURITY_ALIASES),
        {},
    )
    names = {key.lower() for key in options}
    for key, value in options.items():
        security_names.reject_secret_name(key)
        name = key.lower()
        registry_option = registry_name(name)
        if registry_option is not None:
            _add_registry_option(user_options, registry_option, key, value)
        elif name.startswith(PREFIX):
            _add_kafka_option(user_options, name.removeprefix(PREFIX), value)
        elif name in SINK_NAMES:
            security_names.reject_misplaced(SINK_NAMES[name], SINK_NAMES[name], value)
            user_options.sink[SINK_NAMES[name]] = value
        elif name.startswith(CONFIG_PREFIX):
            security_names.reject_misplaced(name, name, value)
            user_options.sink[name] = value
        else:
            _check_unprefixed_name(name, is_repeated=f"{PREFIX}{name}" in names)
    return user_options


def _add_registry_option(user_options: UserOptions, name: str, key: str, value: str) -> None:
    """Add an option of the schema registry.

    Raises:
        ConfigError: the option is set to different values with and without the prefix.
    """
    security_names.reject_misplaced(name, key, value)
    if user_options.sink.setdefault(name, value) != value:
        raise synonym_error(name, f"{PREFIX}{name}")


def _add_kafka_option(user_options: UserOptions, name: str, value: str) -> None:
    """Add a `kafka.` option to its table, or drop an ignored option with a warning.

    Raises:
        ConfigError: the name is unknown, or ignoring it would be unsafe.
    """
    option = table_name(name)
    if option in PRODUCER_NAMES | security_names.SECURITY_NAMES:
        security_names.reject_misplaced(option, f"{PREFIX}{name}", value)
    if name in PRODUCER_NAMES or name in ALIASES:
        user_options.producer.add(name, value)
    elif name in security_names.SECURITY_NAMES or name in security_names.SECURITY_ALIASES:
        user_options.security.add(name, value)
    else:
        _reject_unsafe(name)
        if name not in IGNORED_KEYS | security_names.IGNORED_SECURITY_KEYS:
            raise unknown_option_error(name, PREFIX)
        warn_once(_LOG, "Option %s%s is not supported and has no effect", PREFIX, name)


def unknown_option_error(name: str, prefix: str, names: Iterable[str] = KNOWN_NAMES) -> ConfigError:
    """Return the error for an unknown option; its hint suggests the most similar of `names`."""
    known = nearest(name, names, _LOW_SIMILARITY if len(name) <= _SHORT else MIN_TYPO_RATIO)
    hint = "It is not a Kafka producer option."
    if known is not None:
        hint = _replacement_hint(known) or f"Did you mean {prefix}{known}?"
    return ConfigError(f"unknown option {prefix}{safe_name(name)}", hint=hint)


def _replacement_hint(name: str) -> str | None:
    """Return the hint for a name used by other or older clients, or None if there is no hint."""
    other = _COUNTERPARTS.get(name)
    return None if other is None else f"Use {other}."


def _reject_unsafe(name: str) -> None:
    if name in _CALLBACKS:
        raise ConfigError(
            f"option {PREFIX}{name} is not supported: it requires a pointer or callback of a C "
            "program",
            hint=_replacement_hint(name) or "Remove it.",
        )
    if name in SERIALIZERS:
        raise ConfigError(
            f"option {PREFIX}{name} is not allowed",
            hint="Cast key and value to string or binary, or set value.format or key.format, such "
            "as avro-confluent.",
        )
    if name in security_names.REJECTED_SECURITY_KEYS:
        raise ConfigError(
            f"option {PREFIX}{name} is not supported",
            hint=f"{security_names.REJECTED_SECURITY_KEYS[name]}.",
        )
    if name.startswith(UNSAFE_PREFIXES) or name in UNSAFE_KEYS | UNSAFE_REGISTRY_KEYS:
        raise ConfigError(
            f"option {PREFIX}{safe_name(name)} is not supported by this version",
            hint=_replacement_hint(_PROVIDERS if name.startswith(_PROVIDERS) else name)
            or "It cannot be ignored safely. Remove it to write without it.",
        )


def _check_unprefixed_name(name: str, *, is_repeated: bool) -> None:
    """Raise if a name without a prefix is a likely typo of one of the sink's options.

    Spark passes on all options of a write, so any other unknown name only causes a warning. Such an
    option has no effect, as in Spark's Kafka sink. `is_repeated` is True if the same name with the
    prefix is set, too.
    """
    if name in SPARK_OPTIONS:
        return
    if is_repeated:
        printable_name = safe_name(name)
        warn_once(
            _LOG, "Option %s has no effect; %s%s is used", printable_name, PREFIX, printable_name
        )
        return
    if name in UNSAFE_REGISTRY_KEYS:
        raise ConfigError(
            f"option {name} is not supported",
            hint="Select the schema with use.latest.version or use.schema.id.",
        )
    if name in _SOURCE_OPTIONS:
        instead = "; the option for writing is topic" if name in _SOURCE_TOPICS else ""
        warn_once(_LOG, "Option %s applies to reading and has no effect%s", name, instead)
        return
    unknown = f"unknown option {safe_name(name)}"
    if (
        name in PRODUCER_NAMES
        or name in ALIASES
        or name.startswith(security_names.SECURITY_PREFIXES)
    ):
        raise ConfigError(unknown, hint=f"Did you mean {PREFIX}{safe_name(name)}?")
    match = nearest(name, SINK_NAMES, MIN_TYPO_RATIO)
    if match is not None:
        raise ConfigError(unknown, hint=f"Did you mean {SINK_NAMES[match]}?")
    if name.startswith(_KAFKA):
        raise ConfigError(unknown, hint=_prefix_hint(name))
    warn_once(_LOG, "Option %s is unknown and has no effect", safe_name(name))


def _prefix_hint(name: str) -> str:
    """Return the hint for a name that starts with `kafka`, but not with `kafka.`."""
    known = nearest(name.removeprefix(_KAFKA).lstrip("_-"), KNOWN_NAMES, _LOW_SIMILARITY)
    example = f" Did you mean {PREFIX}{known}?" if known else ""
    return f"Kafka options start with {PREFIX!r} and use Java's names with dots.{example}"
