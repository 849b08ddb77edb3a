"""Topic configs with Kafka's names, types and defaults, and the corresponding broker configs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.config.broker_config import BrokerConfig, address_text
from spark_kafka_sink.common.java_integers import MAX_INT, MAX_LONG
from spark_kafka_sink.config.enums import Codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_HOUR_MS = 3_600_000
_NO_CODEC = {"uncompressed": "none"}
_LEVELS: Mapping[Codec | None, str] = {
    Codec.GZIP: "compression.gzip.level",
    Codec.LZ4: "compression.lz4.level",
    Codec.ZSTD: "compression.zstd.level",
}
SYNONYMS: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Names of broker configs by topic config, as in Kafka's ServerTopicConfigSynonyms."""
_WITHOUT_DEFAULT = frozenset({"log.flush.interval.ms", "log.roll.jitter.ms", "log.roll.ms"})
"""Broker configs whose default is the value of a different config, but which have no synonym in
Kafka.
"""
_DEFAULT_NAMES = {"log.retention.ms": ("log.retention.hours", "168")}
TOPIC_NAMES: Mapping[str, str] = {broker: topic for topic, broker in SYNONYMS.items()}
"""Topic configs by broker config, for all broker configs that can be changed at runtime."""


class ConfigType(IntEnum):
    """Types of config values, with their numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Sources of config values, with their numbers in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    GROUP = 8


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The definition of a config, with type, default as text, and a function that checks values."""

    type: ConfigType
    default: str
    allowed: Callable[[str], bool]


def integer_between(low: int, high: int = MAX_LONG) -> Callable[[str], bool]:
    """Return a function that accepts integers from `low` to `high`."""

    def allowed(text: str) -> bool:
        return text.removeprefix("-").isdecimal() and low <= int(text) <= high

    return allowed


INTERNAL_KEYS: dict[str, ConfigKey] = {
    "internal.segment.bytes": ConfigKey(ConfigType.INT, "0", integer_between(1, MAX_INT))
}
"""Kafka's config for very small segments in tests. It is listed only if it is set."""


def one_of(*words: str) -> Callable[[str], bool]:
    """Return a function that accepts the given words."""
    return lambda text: text in words


_BOOLEAN = one_of("true", "false")
_CODECS = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_TIMES = one_of("CreateTime", "LogAppendTime")


def _is_policy_list(text: str) -> bool:
    return bool(text) and set(text.split(",")) <= {"delete", "compact"}


def _is_gzip_level(text: str) -> bool:
    return text == "-1" or integer_between(1, 9)(text)


def _is_ratio(text: str) -> bool:
    return re.fullmatch(r"0(\.\d+)?|1(\.0+)?", text) is not None


def _is_replica_list(text: str) -> bool:
    return re.fullmatch(r"\*|(\d+:\d+(,\d+:\d+)*)?", text) is not None


TOPIC_KEYS: dict[str, ConfigKey] = {
    "cleanup.policy": ConfigKey(ConfigType.LIST, "delete", _is_policy_list),
    "compression.gzip.level": ConfigKey(ConfigType.INT, "-1", _is_gzip_level),
    "compression.lz4.level": ConfigKey(ConfigType.INT, "9", integer_between(1, 17)),
    "compression.type": ConfigKey(ConfigType.STRING, "producer", _CODECS),
    "compression.zstd.level": ConfigKey(ConfigType.INT, "3", integer_between(-131_072, 22)),
    "delete.retention.ms": ConfigKey(ConfigType.LONG, "86400000", integer_between(0)),
    "file.delete.delay.ms": ConfigKey(ConfigType.LONG, "60000", integer_between(0)),
    "flush.messages": ConfigKey(ConfigType.LONG, str(MAX_LONG), integer_between(1)),
    "flush.ms": ConfigKey(ConfigType.LONG, str(MAX_LONG), integer_between(0)),
    "follower.replication.throttled.replicas": ConfigKey(ConfigType.LIST, "", _is_replica_list),
    "index.interval.bytes": ConfigKey(ConfigType.INT, "4096", integer_between(0, MAX_INT)),
    "leader.replication.throttled.replicas": ConfigKey(ConfigType.LIST, "", _is_replica_list),
    "local.retention.bytes": ConfigKey(ConfigType.LONG, "-2", integer_between(-2)),
    "local.retention.ms": ConfigKey(ConfigType.LONG, "-2", integer_between(-2)),
    "max.compaction.lag.ms": ConfigKey(ConfigType.LONG, str(MAX_LONG), integer_between(1)),
    "max.message.bytes": ConfigKey(ConfigType.INT, "1048588", integer_between(0, MAX_INT)),
    "message.timestamp.after.max.ms": ConfigKey(ConfigType.LONG, str(_HOUR_MS), integer_between(0)),
    "message.timestamp.before.max.ms": ConfigKey(
        ConfigType.LONG, str(MAX_LONG), integer_between(0)
    ),
    "message.timestamp.type": ConfigKey(ConfigType.STRING, "CreateTime", _TIMES),
    "min.cleanable.dirty.ratio": ConfigKey(ConfigType.DOUBLE, "0.5", _is_ratio),
    "min.compaction.lag.ms": ConfigKey(ConfigType.LONG, "0", integer_between(0)),
    "min.insync.replicas": ConfigKey(ConfigType.INT, "1", integer_between(1, MAX_INT)),
    "preallocate": ConfigKey(ConfigType.BOOLEAN, "false", _BOOLEAN),
    "remote.log.copy.disable": ConfigKey(ConfigType.BOOLEAN, "false", _BOOLEAN),
    "remote.log.delete.on.disable": ConfigKey(ConfigType.BOOLEAN, "false", _BOOLEAN),
    "remote.storage.enable": ConfigKey(ConfigType.BOOLEAN, "false", one_of("false")),
    "retention.bytes": ConfigKey(ConfigType.LONG, "-1", integer_between(-MAX_LONG)),
    "retention.ms": ConfigKey(ConfigType.LONG, "604800000", integer_between(-1)),
    "segment.bytes": ConfigKey(ConfigType.INT, "1073741824", integer_between(1 << 20, MAX_INT)),
    "segment.index.bytes": ConfigKey(ConfigType.INT, "10485760", integer_between(4, MAX_INT)),
    "segment.jitter.ms": ConfigKey(ConfigType.LONG, "0", integer_between(0)),
    "segment.ms": ConfigKey(ConfigType.LONG, "604800000", integer_between(1)),
    "unclean.leader.election.enable": ConfigKey(ConfigType.BOOLEAN, "false", _BOOLEAN),
}
"""The topic configs that DescribeConfigs lists.

Configs of compaction, throttling and tiered storage are listed but have no effect.
"""


BROKER_KEYS = {name: TOPIC_KEYS[topic] for name, topic in TOPIC_NAMES.items()}
"""The broker configs that can be changed at runtime."""


_ALL_KEYS = {**TOPIC_KEYS, **INTERNAL_KEYS}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The parsed configs of a topic's logs, in bytes and milliseconds (Kafka's LogConfig).

    A retention of -1 means no limit.
    """

    max_bytes: int
    segment_bytes: int
    segment_ms: int
    index_bytes: int
    index_interval_bytes: int
    retention_ms: int
    retention_bytes: int
    flush_messages: int
    flush_ms: int
    before_max_ms: int
    after_max_ms: int
    min_in_sync: int
    codec: Codec | None
    """None if producers choose the codec."""
    codec_level: int | None
    """None for the codec's default."""
    deletes_records: bool
    """False for cleanup.policy=compact: records are not deleted."""
    is_compacted: bool
    """True if every record must have a key."""
    stamps_records: bool
    """True if the broker replaces the timestamps with its own time."""

    @classmethod
    def of(cls, config: TopicConfig) -> LogConfig:
        """Parse the configs of a topic."""
        name = config["compression.type"]
        codec = None if name == "producer" else Codec[_NO_CODEC.get(name, name).upper()]
        level = int(config[_LEVELS[codec]]) if codec in _LEVELS else None
        policies = config["cleanup.policy"].split(",")
        return cls(
            max_bytes=int(config["max.message.bytes"]),
            segment_bytes=int(config["internal.segment.bytes"]) or int(config["segment.bytes"]),
            segment_ms=int(config["segment.ms"]),
            index_bytes=int(config["segment.index.bytes"]),
            index_interval_bytes=int(config["index.interval.bytes"]),
            retention_ms=int(config["retention.ms"]),
            retention_bytes=max(int(config["retention.bytes"]), -1),
            flush_messages=int(config["flush.messages"]),
            flush_ms=int(config["flush.ms"]),
            before_max_ms=int(config["message.timestamp.before.max.ms"]),
            after_max_ms=int(config["message.timestamp.after.max.ms"]),
            min_in_sync=int(config["min.insync.replicas"]),
            codec=codec,
            codec_level=None if codec is Codec.GZIP and level == -1 else level,
            deletes_records="delete" in policies,
            is_compacted="compact" in policies,
            stamps_records=config["message.timestamp.type"] == "LogAppendTime",
        )


@dataclass(frozen=True, slots=True)
class ConfigLayer:
    """The topic config values of one source."""

    source: ConfigSource
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The configs of one topic."""

    overrides: Mapping[str, str] = field(default_factory=dict)
    """The configs that are set for the topic."""
    broker: tuple[ConfigLayer, ...] = ()
    """The broker configs that provide defaults, highest precedence first."""
    log: LogConfig = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "log", LogConfig.of(self))

    def __getitem__(self, key: str) -> str:
        return self.overrides[key] if key in self.overrides else self.default(key)

    def default(self, key: str) -> str:
        """Return the value that applies if the config is not set for the topic."""
        values = (layer.values[key] for layer in self.broker if key in layer.values)
        return next(values, _ALL_KEYS[key].default)

    def source(self, key: str) -> ConfigSource:
        """Return the source of the current value."""
        if key in self.overrides:
            return ConfigSource.TOPIC
        sources = (layer.source for layer in self.broker if key in layer.values)
        return next(sources, ConfigSource.DEFAULT)


DEFAULT_LOG_CONFIG = TopicConfig().log
"""The log configs of a topic that sets no configs."""


def problem_with(
    configs: Mapping[str, str | None],
    keys: Mapping[str, ConfigKey] = _ALL_KEYS,
    kind: str = "topic",
) -> str | None:
    """Return why configs of a topic or group are invalid, or None if they are valid."""
    for name, value in configs.items():
        if name not in keys:
            return f"Unknown {kind} config name: {name}"
        if value is None or not keys[name].allowed(value):
            return f"Invalid value {value} for configuration {name}"
    return None


def default_synonym(name: str) -> tuple[str, str] | None:
    """Return the broker config that provides a broker config's default, and the default.

    Return None if the default is unknown.
    """
    if name in _WITHOUT_DEFAULT:
        return None
    return _DEFAULT_NAMES.get(name, (name, BROKER_KEYS[name].default))


@dataclass(frozen=True, slots=True, kw_only=True)
class StartConfig:
    """A config with which the broker was started. The value is text, or None if it is not set."""

    name: str
    value: str | None
    type: ConfigType
    source: ConfigSource = ConfigSource.STATIC_BROKER


def start_configs(
    config: BrokerConfig, node: int, listener: tuple[str, int], advertised: tuple[str, int]
) -> Iterator[StartConfig]:
    """Yield all configs of a broker: its start configs, and the defaults of topic configs.

    `listener` is the host and port of the listener. `advertised` is the advertised host and port.
    """
    numbers = {
        "broker.session.timeout.ms": config.session_timeout_ms,
        "default.replication.factor": config.replication_factor,
        "group.max.session.timeout.ms": config.group_max_session_timeout_ms,
        "group.min.session.timeout.ms": config.group_min_session_timeout_ms,
        "message.max.bytes": config.message_max_bytes,
        "node.id": node,
        "num.partitions": config.default_partitions,
        "transaction.max.timeout.ms": config.transaction_max_timeout_ms,
        "transactional.id.expiration.ms": config.transactional_id_expiration_ms,
    }
    start_values = {name: (str(value), ConfigType.INT) for name, value in numbers.items()} | {
        "advertised.listeners": (_listener_text(config, advertised), ConfigType.LIST),
        "auto.create.topics.enable": (str(config.auto_create_topics).lower(), ConfigType.BOOLEAN),
        "listeners": (_listener_text(config, listener), ConfigType.LIST),
        "log.dirs": (config.data_dir or "", ConfigType.LIST),
        "log.retention.check.interval.ms": (str(config.retention_check_ms), ConfigType.LONG),
        "process.roles": ("broker,controller", ConfigType.LIST),
        "replica.lag.time.max.ms": (str(config.replica_lag_time_max_ms), ConfigType.LONG),
    }
    for name, (value, kind) in start_values.items():
        known = BROKER_KEYS.get(name)
        is_default = known is not None and known.default == value
        source = ConfigSource.DEFAULT if is_default else ConfigSource.STATIC_BROKER
        yield StartConfig(name=name, value=value, type=kind, source=source)
    for name, key in BROKER_KEYS.items():
        if name not in start_values:
            default_value = None if name in _WITHOUT_DEFAULT else key.default
            yield StartConfig(
                name=name, value=default_value, type=key.type, source=ConfigSource.DEFAULT
            )


def _listener_text(config: BrokerConfig, address: tuple[str, int]) -> str:
    return f"{config.protocol}://{address_text(*address)}"
