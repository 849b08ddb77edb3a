"""Configs of brokers and groups that are changed while the broker runs (KIP-226, KIP-848).

What is set of a broker and stands behind a topic's config counts for every topic that has none of
its own. The copies of a partition are one log, so in a cluster of several nodes only what is set
for all of them does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.broker.config_names import TOPIC_NAMES
from spark_kafka_sink.broker.topic_config import TOPIC_KEYS, ConfigSource, Layer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.broker.config import BrokerConfig
    from spark_kafka_sink.broker.storage.journal import Journal

BROKER = "broker config"
GROUP = "group config"
ALL_BROKERS = ""


class DynamicConfigs:
    """Values by kind of resource and its name; `ALL_BROKERS` is that of the cluster's default.

    Args:
        config: what the broker was started with.
        journal: where values are kept across restarts.
    """

    __slots__ = ("_config", "_journal", "_values")

    def __init__(self, config: BrokerConfig, journal: Journal) -> None:
        self._config = config
        self._journal = journal
        self._values: dict[tuple[str, str], dict[str, str]] = {
            (kind, str(name)): dict(own)
            for kind in (BROKER, GROUP)
            for (name,), own in journal.all(kind).items()
        }

    def of(self, kind: str, name: str) -> dict[str, str]:
        """What was set of a resource."""
        return dict(self._values.get((kind, name), {}))

    def names(self, kind: str) -> list[str]:
        """The resources of a kind of which something was set."""
        return sorted(name for (of, name), own in self._values.items() if of == kind and own)

    def set(self, kind: str, name: str, own: Mapping[str, str]) -> None:
        """Replace what was set of a resource."""
        self._journal.put(kind, (name,), dict(own) or None)
        self._values[kind, name] = dict(own)

    def layers(self) -> tuple[Layer, ...]:
        """The brokers' part of every topic's configs."""
        only = self.of(BROKER, "1") if self._config.nodes == 1 else {}
        for_all = self.of(BROKER, ALL_BROKERS)
        layers = [
            Layer(ConfigSource.DYNAMIC_BROKER, _topic_values(only)),
            Layer(ConfigSource.DYNAMIC_DEFAULT_BROKER, _topic_values(for_all)),
        ]
        started = str(self._config.message_max_bytes)
        if started != TOPIC_KEYS["max.message.bytes"].default:
            layers.append(Layer(ConfigSource.STATIC_BROKER, {"max.message.bytes": started}))
        return tuple(layer for layer in layers if layer.values)


def _topic_values(own: Mapping[str, str]) -> dict[str, str]:
    return {TOPIC_NAMES[name]: value for name, value in own.items() if name in TOPIC_NAMES}
