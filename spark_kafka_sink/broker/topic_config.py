"""Configs of a topic: Kafka's names, defaults and types, as far as this broker knows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HOUR_MS = 3_600_000
_MAX_LONG = 2**63 - 1


class ConfigType(IntEnum):
    """Types of config values, with the numbers of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a value comes from, with the numbers of DescribeConfigs."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One config: its type, its default as text, and what values are allowed."""

    type: ConfigType
    default: str
    allowed: Callable[[str], bool]


def _number(low: int, high: int = _MAX_LONG) -> Callable[[str], bool]:
    def allowed(text: str) -> bool:
        return text.lstrip("-").isdecimal() and low <= int(text) <= high

    return allowed


def _one_of(*words: str) -> Callable[[str], bool]:
    return lambda text: text in words


def _policies(text: str) -> bool:
    return bool(text) and set(text.split(",")) <= {"delete", "compact"}


TOPIC_KEYS: Mapping[str, ConfigKey] = {
    "cleanup.policy": ConfigKey(ConfigType.LIST, "delete", _policies),
    "compression.type": ConfigKey(ConfigType.STRING, "producer", _one_of("producer")),
    "max.message.bytes": ConfigKey(ConfigType.INT, "1048588", _number(0, 2**31 - 1)),
    "message.timestamp.type": ConfigKey(
        ConfigType.STRING, "CreateTime", _one_of("CreateTime", "LogAppendTime")
    ),
    "message.timestamp.after.max.ms": ConfigKey(ConfigType.LONG, str(HOUR_MS), _number(0)),
    "message.timestamp.before.max.ms": ConfigKey(ConfigType.LONG, str(_MAX_LONG), _number(0)),
    "min.insync.replicas": ConfigKey(ConfigType.INT, "1", _number(1, 2**31 - 1)),
    "retention.bytes": ConfigKey(ConfigType.LONG, "-1", _number(-1)),
    "retention.ms": ConfigKey(ConfigType.LONG, "604800000", _number(-1)),
    "segment.bytes": ConfigKey(ConfigType.INT, "1073741824", _number(1, 2**31 - 1)),
}
"""Retention and segments are taken and shown; a log in memory keeps everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The configs of one topic: what was set for it, over the broker's defaults."""

    own: Mapping[str, str] = field(default_factory=dict)
    broker_max_bytes: int

    def __getitem__(self, key: str) -> str:
        return self.own[key] if key in self.own else self.default(key)

    def default(self, key: str) -> str:
        """The value where the topic sets none."""
        return str(self.broker_max_bytes) if key == "max.message.bytes" else TOPIC_KEYS[key].default

    def source(self, key: str) -> ConfigSource:
        """Who set the value."""
        if key in self.own:
            return ConfigSource.TOPIC
        is_default = self.default(key) == TOPIC_KEYS[key].default
        return ConfigSource.DEFAULT if is_default else ConfigSource.STATIC_BROKER

    @property
    def is_compacted(self) -> bool:
        """Whether every record needs a key."""
        return "compact" in self["cleanup.policy"].split(",")

    @property
    def stamps_records(self) -> bool:
        """Whether the broker's clock replaces the producer's."""
        return self["message.timestamp.type"] == "LogAppendTime"


def problem_with(configs: Mapping[str, str | None]) -> str | None:
    """Say what is wrong with configs of a topic, None if nothing is."""
    for name, value in configs.items():
        if name not in TOPIC_KEYS:
            return f"Unknown topic config name: {name}"
        if value is None or not TOPIC_KEYS[name].allowed(value):
            return f"Invalid value {value} for configuration {name}"
    return None
