"""Configs of a group, with Kafka's defaults and bounds; all are about protocols not served here."""

from __future__ import annotations

from spark_kafka_sink.broker.topic_config import ConfigKey, ConfigType, number, one_of

_SESSION = number(45_000, 60_000)
_HEARTBEAT = number(5_000, 15_000)
_INTERVAL = number(0, 15_000)


def _int(default: int, low: int, high: int) -> ConfigKey:
    return ConfigKey(ConfigType.INT, str(default), number(low, high))


def _consumers(kind: str) -> dict[str, ConfigKey]:
    return {
        f"{kind}.assignment.interval.ms": ConfigKey(ConfigType.INT, "1000", _INTERVAL),
        f"{kind}.heartbeat.interval.ms": ConfigKey(ConfigType.INT, "5000", _HEARTBEAT),
        f"{kind}.session.timeout.ms": ConfigKey(ConfigType.INT, "45000", _SESSION),
    }


GROUP_KEYS: dict[str, ConfigKey] = {
    **_consumers("consumer"),
    **_consumers("share"),
    "share.auto.offset.reset": ConfigKey(ConfigType.STRING, "latest", one_of("latest", "earliest")),
    "share.delivery.count.limit": _int(5, 2, 10),
    "share.isolation.level": ConfigKey(
        ConfigType.STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted")
    ),
    "share.partition.max.record.locks": _int(2_000, 100, 10_000),
    "share.record.lock.duration.ms": _int(30_000, 15_000, 60_000),
    "share.renew.acknowledge.enable": ConfigKey(
        ConfigType.BOOLEAN, "true", one_of("true", "false")
    ),
    **_consumers("streams"),
    "streams.initial.rebalance.delay.ms": _int(3_000, 0, 2**31 - 1),
    "streams.num.standby.replicas": _int(0, 0, 2),
}
"""Groups of consumers (KIP-848), of shares (KIP-932) and of Kafka Streams (KIP-1071)."""


def broker_name(name: str) -> str:
    """The broker's config behind a group's."""
    own = {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
    return name if name in own else f"group.{name}"
