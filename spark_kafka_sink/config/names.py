"""Check option names before their values: unknown, refused, ignored.

Names that other parts of Kafka know: neither supported here nor a user's mistake.

From Kafka 4.3's ProducerConfig and ConsumerConfig, and from librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.text import CLOSE, nearest, shown_name
from spark_kafka_sink.config.aliases import ALIASES, NamedOptions
from spark_kafka_sink.config.option import PREFIX
from spark_kafka_sink.config.options import PRODUCER_OPTIONS, SINK_OPTIONS
from spark_kafka_sink.config.security.names import (
    IGNORED_SECURITY_KEYS,
    REFUSED_SECURITY_KEYS,
    SECURITY_ALIASES,
    SECURITY_NAMES,
    SECURITY_PREFIXES,
    refuse_misplaced,
    refuse_secret_name,
)
from spark_kafka_sink.config.security.options import SECURITY_OPTIONS
from spark_kafka_sink.config.topic_creation import CONFIG_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping


IGNORED_PRODUCER_KEYS = frozenset(
    {
        "client.dns.lookup",
        "enable.metrics.push",
        "metadata.max.idle.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "security.providers",
        "socket.connection.setup.timeout.max.ms",
    }
)
"""Producer options of Java's that change speed or monitoring alone, so ignoring them is safe."""

IGNORED_CONSUMER_KEYS = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "client.rack",
        "default.api.timeout.ms",
        "enable.auto.commit",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "value.deserializer",
    }
)
"""Consumer options: present where one set of options serves both reading and writing."""

IGNORED_LIBRDKAFKA_KEYS = frozenset(
    {
        "api.version.fallback.ms",
        "api.version.request",
        "api.version.request.timeout.ms",
        "broker.address.family",
        "broker.address.ttl",
        "broker.version.fallback",
        "builtin.features",
        "delivery.report.only.error",
        "enable.random.seed",
        "enabled_events",
        "internal.termination.signal",
        "log.connection.close",
        "log.queue",
        "log.thread.name",
        "log_level",
        "message.copy.max.bytes",
        "produce.offset.report",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.messages",
        "queuing.strategy",
        "receive.message.max.bytes",
        "reconnect.backoff.jitter.ms",
        "socket.blocking.max.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "sticky.partitioning.linger.ms",
        "topic.blacklist",
        "topic.metadata.propagation.max.ms",
        "topic.metadata.refresh.fast.cnt",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.sparse",
    }
)
"""Producer options of librdkafka's without a counterpart; they change speed or monitoring alone."""

_LIBRDKAFKA_CONSUMER_KEYS = frozenset(
    {
        "auto.commit.enable",
        "consume.callback.max.messages",
        "coordinator.query.interval.ms",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "fetch.error.backoff.ms",
        "fetch.message.max.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.protocol.type",
        "offset.store.method",
        "offset.store.path",
        "offset.store.sync.interval.ms",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "share.acknowledgement.mode",
    }
)

IGNORED_KEYS = (
    IGNORED_PRODUCER_KEYS
    | IGNORED_CONSUMER_KEYS
    | IGNORED_LIBRDKAFKA_KEYS
    | _LIBRDKAFKA_CONSUMER_KEYS
)

CALLBACKS = frozenset(
    {
        "background_event_cb",
        "closesocket_cb",
        "connect_cb",
        "consume_cb",
        "default_topic_conf",
        "dr_cb",
        "dr_msg_cb",
        "error_cb",
        "log_cb",
        "msg_order_cmp",
        "offset_commit_cb",
        "opaque",
        "open_cb",
        "partitioner_cb",
        "rebalance_cb",
        "resolve_cb",
        "socket_cb",
        "stats_cb",
        "throttle_cb",
    }
)
"""What librdkafka lists among its options, and only a program can set."""

COUNTERPARTS = {
    "block.on.buffer.full": "kafka.max.block.ms",
    "broker.list": "kafka.bootstrap.servers",
    "brokers": "kafka.bootstrap.servers",
    "compression": "kafka.compression.type",
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
"""Names of other clients and of Java's before 1.0, and the option that does that here."""

SERIALIZERS = frozenset({"key.serializer", "value.serializer"})

UNSAFE_PREFIXES = ("transactional.",)
"""Ignoring these would send data without the guarantee asked for."""

UNSAFE_KEYS = frozenset(
    {
        "config.providers",
        "interceptor.classes",
        "interceptors",
        "plugin.library.paths",
        "transaction.two.phase.commit.enable",
    }
)
"""Ignoring these would write other data than was asked for."""

SPARK_OPTIONS = frozenset(
    {
        "asyncprogresstrackingcheckpointintervalms",
        "asyncprogresstrackingenabled",
        "checkpointlocation",
        "outputmode",
        "path",
        "queryname",
    }
)
"""Options that Spark itself uses, in lower case; never taken for a typo."""

SOURCE_TOPICS = frozenset({"assign", "subscribe", "subscribepattern"})
"""Options of Spark's Kafka source that say which topics are read, in lower case."""

SOURCE_OPTIONS = SOURCE_TOPICS | {
    "endingoffsets",
    "endingoffsetsbytimestamp",
    "endingtimestamp",
    "failondataloss",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
    "groupidprefix",
    "kafkaconsumer.polltimeoutms",
    "maxoffsetspertrigger",
    "maxrecordsperpartition",
    "maxtriggerdelay",
    "minoffsetspertrigger",
    "minpartitions",
    "startingoffsets",
    "startingoffsetsbytimestamp",
    "startingoffsetsbytimestampstrategy",
    "startingtimestamp",
}
"""Options of Spark's Kafka source, in lower case: without effect, as in its own sink."""


PRODUCER_NAMES = frozenset(option.name for option in PRODUCER_OPTIONS)
SINK_NAMES = {option.name.lower(): option.name for option in SINK_OPTIONS}
RECOGNISED = (
    PRODUCER_NAMES
    | ALIASES.keys()
    | SECURITY_NAMES
    | SECURITY_ALIASES.keys()
    | IGNORED_SECURITY_KEYS
    | IGNORED_KEYS
    | CALLBACKS
    | COUNTERPARTS.keys()
)
"""What a mistyped name may have been."""

_KAFKA = PREFIX.removesuffix(".")
_LOOSELY = 0.7
"""How alike `saslmechanism` and `sasl.mechanism` are, and more."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """What was given, by the names of the tables; not for any text, as passwords are in it."""

    producer: NamedOptions = field(repr=False)
    security: NamedOptions = field(repr=False)
    sink: dict[str, str] = field(repr=False)


def is_kafka_option(name: str) -> bool:
    """Whether a name without its prefix is one that `split_options` has a word about."""
    return (
        name in RECOGNISED | REFUSED_SECURITY_KEYS.keys() | UNSAFE_KEYS
        or name in SERIALIZERS
        or name.startswith(UNSAFE_PREFIXES)
    )


def split_options(options: Mapping[str, str]) -> GivenOptions:
    """Split options into the producer's, those of security and the sink's.

    An alias of librdkafka's counts as the option that it stands for.

    Only options of the tables are returned: the value of any other key is dropped unread, so that a
    secret among them goes nowhere.

    Raises:
        ConfigError: a name is unknown or refused, or two names for the same contradict.
    """
    given = GivenOptions(
        NamedOptions(PRODUCER_OPTIONS, ALIASES),
        NamedOptions(SECURITY_OPTIONS, SECURITY_ALIASES),
        {},
    )
    for key, value in options.items():
        refuse_secret_name(key)
        name = key.lower()
        if name.startswith(PREFIX):
            _add(given, name.removeprefix(PREFIX), value)
        elif name in SINK_NAMES:
            refuse_misplaced(SINK_NAMES[name], SINK_NAMES[name], value)
            given.sink[SINK_NAMES[name]] = value
        elif name.startswith(CONFIG_PREFIX):
            refuse_misplaced(name, name, value)
            given.sink[name] = value
        else:
            _check_foreign_name(name)
    return given


def _add(given: GivenOptions, name: str, value: str) -> None:
    """Take a `kafka.` option to where it belongs; one that is ignored is dropped with a warning.

    Raises:
        ConfigError: the name is unknown, or ignoring it would not be safe.
    """
    alias = ALIASES.get(name) or SECURITY_ALIASES.get(name)
    option = name if alias is None else alias.option
    if option in PRODUCER_NAMES | SECURITY_NAMES:
        refuse_misplaced(option, f"{PREFIX}{name}", value)
    if name in PRODUCER_NAMES or name in ALIASES:
        given.producer.add(name, value)
    elif name in SECURITY_NAMES or name in SECURITY_ALIASES:
        given.security.add(name, value)
    else:
        _refuse_unsafe(name)
        if name not in IGNORED_KEYS | IGNORED_SECURITY_KEYS:
            raise ConfigError(f"unknown option {PREFIX}{shown_name(name)}", hint=_hint(name))
        warn_ignored(name)


@cache
def warn_ignored(name: str) -> None:
    """Say once per process, by name alone, that an option has no effect."""
    _logger.warning("Option %s%s is not supported and has no effect", PREFIX, name)


@cache
def warn_unknown(name: str) -> None:
    """Say once per process, by name alone, that nobody knows an option."""
    _logger.warning("Option %s is unknown and has no effect", name)


@cache
def warn_of_source_option(name: str) -> None:
    """Say once per process that an option is for reading."""
    instead = "; the topic to write to is option topic" if name in SOURCE_TOPICS else ""
    _logger.warning("Option %s is for reading and has no effect%s", name, instead)


def _hint(name: str) -> str:
    known = nearest(name, RECOGNISED, CLOSE)
    if known is None:
        return "It is not a Kafka producer option."
    return _use(known) or f"Did you mean {PREFIX}{known}?"


def _use(name: str) -> str | None:
    """The hint for a name that other clients, or older ones, have for something that is here."""
    other = COUNTERPARTS.get(name)
    return None if other is None else f"Use {other}."


def _refuse_unsafe(name: str) -> None:
    if name in CALLBACKS:
        raise ConfigError(
            f"option {PREFIX}{name} is not supported: no option can hold what a program in C sets",
            hint=_use(name) or "Leave it out.",
        )
    if name in SERIALIZERS:
        raise ConfigError(
            f"option {PREFIX}{name} is not allowed",
            hint="Keys and values are written as they are: cast the columns to string or binary.",
        )
    if name in REFUSED_SECURITY_KEYS:
        raise ConfigError(
            f"option {PREFIX}{name} is not supported", hint=f"{REFUSED_SECURITY_KEYS[name]}."
        )
    if name.startswith(UNSAFE_PREFIXES) or name in UNSAFE_KEYS:
        raise ConfigError(
            f"option {PREFIX}{shown_name(name)} is not supported by this version",
            hint=_use(name)
            or "It is refused because ignoring it would not be safe. Remove it to go without.",
        )


def _check_foreign_name(name: str) -> None:
    """Spark passes any option on, so only a likely typo of ours is an error.

    Any other name has no effect, as with Spark's own sink, and a warning says so.
    """
    if name in SPARK_OPTIONS:
        return
    if name in SOURCE_OPTIONS:
        warn_of_source_option(name)
        return
    unknown = f"unknown option {shown_name(name)}"
    if name in PRODUCER_NAMES or name in ALIASES or name.startswith(SECURITY_PREFIXES):
        raise ConfigError(unknown, hint=f"Did you mean {PREFIX}{shown_name(name)}?")
    match = nearest(name, SINK_NAMES, CLOSE)
    if match is not None:
        raise ConfigError(unknown, hint=f"Did you mean {SINK_NAMES[match]}?")
    if name.startswith(_KAFKA):
        raise ConfigError(unknown, hint=_like_kafka(name))
    warn_unknown(shown_name(name))


def _like_kafka(name: str) -> str:
    """The hint for a name that begins as the producer's options do, but without the dot."""
    known = nearest(name.removeprefix(_KAFKA).lstrip("_-"), RECOGNISED, _LOOSELY)
    example = f" Did you mean {PREFIX}{known}?" if known else ""
    return f"Kafka's options begin with {PREFIX!r}, and have dots as in Java.{example}"
