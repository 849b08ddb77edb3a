"""The broker's configs as DescribeConfigs names them, and which topic configs they stand behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.topic_config import TOPIC_KEYS, ConfigSource, ConfigType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_kafka_sink.broker.config import BrokerConfig

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
"""Broker config by topic config, as Kafka's ServerTopicConfigSynonyms has them."""


_WITHOUT_DEFAULT = frozenset({"log.flush.interval.ms", "log.roll.jitter.ms", "log.roll.ms"})
"""Kafka takes their default from another config, which it does not name as a synonym."""
_DEFAULT_NAMES = {"log.retention.ms": ("log.retention.hours", "168")}


def default_synonym(name: str) -> tuple[str, str] | None:
    """The broker config that a broker config has its default from, and the default."""
    if name in _WITHOUT_DEFAULT:
        return None
    return _DEFAULT_NAMES.get(name, (name, TOPIC_KEYS[TOPIC_NAMES[name]].default))


TOPIC_NAMES: Mapping[str, str] = {broker: topic for topic, broker in SYNONYMS.items()}
"""Topic config by broker config: those that can be changed while the broker runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One config of a broker as it was started, its value as text, None if it has none."""

    name: str
    value: str | None
    type: ConfigType
    source: ConfigSource = ConfigSource.STATIC_BROKER


def settings_of(
    config: BrokerConfig, node: int, listener: tuple[str, int], advertised: tuple[str, int]
) -> Iterator[Setting]:
    """All that is told of a broker: what it was started with, and the topics' defaults.

    `listener` and `advertised` are hosts and ports: where it listens, and what clients are told.
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
    own = {name: (str(value), ConfigType.INT) for name, value in numbers.items()} | {
        "advertised.listeners": (_listener(config, advertised), ConfigType.LIST),
        "auto.create.topics.enable": (str(config.auto_create_topics).lower(), ConfigType.BOOLEAN),
        "listeners": (_listener(config, listener), ConfigType.LIST),
        "log.dirs": (config.data_dir or "", ConfigType.LIST),
        "log.retention.check.interval.ms": (str(config.retention_check_ms), ConfigType.LONG),
        "process.roles": ("broker,controller", ConfigType.LIST),
        "replica.lag.time.max.ms": (str(config.replica_lag_time_max_ms), ConfigType.LONG),
    }
    for name, (value, kind) in own.items():
        key = TOPIC_KEYS.get(TOPIC_NAMES.get(name, ""))
        default = key is not None and key.default == value
        source = ConfigSource.DEFAULT if default else ConfigSource.STATIC_BROKER
        yield Setting(name=name, value=value, type=kind, source=source)
    for topic_name, name in SYNONYMS.items():
        if name not in own:
            key = TOPIC_KEYS[topic_name]
            shown = None if name in _WITHOUT_DEFAULT else key.default
            yield Setting(name=name, value=shown, type=key.type, source=ConfigSource.DEFAULT)


def _listener(config: BrokerConfig, address: tuple[str, int]) -> str:
    host, port = address
    return f"{config.security.protocol}://{f'[{host}]' if ':' in host else host}:{port}"
