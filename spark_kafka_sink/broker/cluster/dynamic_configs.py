"""Configs of brokers and groups that can change while the broker runs (KIP-226, KIP-848).

Some broker configs are defaults for topic configs, and apply to every topic that does not set the
topic config. All replicas of a partition share one log. Therefore, a cluster of several nodes uses
these defaults only if they are set for all brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.config.topic_config import (
    TOPIC_KEYS,
    TOPIC_NAMES,
    ConfigLayer,
    ConfigSource,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.broker.config.broker_config import BrokerConfig
    from spark_kafka_sink.broker.storage.journal import Journal

BROKER = "broker config"
GROUP = "group config"
ALL_BROKERS = ""


class DynamicConfigs:
    """Dynamic configs by resource kind and name. The name `ALL_BROKERS` applies to all brokers.

    Args:
        config: the settings with which the broker was started.
        journal: stores the values across restarts.
    """

    def __init__(self, config: BrokerConfig, journal: Journal) -> None:
        self._config = config
        self._journal = journal
        self._values: dict[tuple[str, str], Mapping[str, str]] = {
            (kind, str(name)): overrides
            for kind in (BROKER, GROUP)
            for (name,), overrides in journal.all(kind).items()
        }

    def of(self, kind: str, name: str) -> dict[str, str]:
        """Return the configs that are set for a resource."""
        return dict(self._values.get((kind, name), {}))

    def names(self, kind: str) -> list[str]:
        """Return the sorted names of all resources of one kind that have configs."""
        configured = (key for key, overrides in self._values.items() if overrides)
        return sorted(name for key_kind, name in configured if key_kind == kind)

    def set(self, kind: str, name: str, overrides: Mapping[str, str]) -> None:
        """Replace the configs of a resource."""
        self._journal.put(kind, (name,), dict(overrides) or None)
        self._values[kind, name] = dict(overrides)

    def layers(self) -> tuple[ConfigLayer, ...]:
        """Return the broker configs that provide defaults for topics, highest precedence first."""
        only = self.of(BROKER, "1") if self._config.nodes == 1 else {}
        for_all = self.of(BROKER, ALL_BROKERS)
        layers = [
            ConfigLayer(ConfigSource.DYNAMIC_BROKER, _topic_values(only)),
            ConfigLayer(ConfigSource.DYNAMIC_DEFAULT_BROKER, _topic_values(for_all)),
        ]
        started = str(self._config.message_max_bytes)
        if started != TOPIC_KEYS["max.message.bytes"].default:
            layers.append(ConfigLayer(ConfigSource.STATIC_BROKER, {"max.message.bytes": started}))
        return tuple(layer for layer in layers if layer.values)


def _topic_values(overrides: Mapping[str, str]) -> dict[str, str]:
    return {TOPIC_NAMES[name]: value for name, value in overrides.items() if name in TOPIC_NAMES}
