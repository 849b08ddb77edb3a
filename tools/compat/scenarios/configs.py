"""Scenarios of config changes: of brokers, groups and topics, with both APIs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.protocol.versions import ApiKey
from tools.compat.scenarios.world import SOCKET_SECONDS, Scenario, World, play

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.compat.scenarios.world import Play

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
FLUSH = "log.flush.interval.messages"


def _alter(world: World, resource: tuple[int, str], *changes: tuple[int, str, str | None]) -> None:
    configs = [
        {"name": name, "config_operation": operation, "value": value}
        for operation, name, value in changes
    ]
    one = {"resource_type": resource[0], "resource_name": resource[1], "configs": configs}
    world.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[one])


def _describe(world: World, resource: tuple[int, str], *names: str) -> None:
    world.ask(ApiKey.DESCRIBE_CONFIGS, 4, **_asked(resource, *names))


def _asked(resource: tuple[int, str], *names: str) -> dict[str, Any]:
    kind, name = resource
    keys = list(names) or None
    one = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return {"resources": [one], "include_synonyms": True}


def _until(world: World, resource: tuple[int, str], name: str, value: str | None) -> None:
    """Wait until a value is in effect; None waits until it is unset."""
    deadline = time.monotonic() + SOCKET_SECONDS
    while time.monotonic() < deadline:
        found = world.client.call(ApiKey.DESCRIBE_CONFIGS, 4, **_asked(resource, name)).results[0]
        if {config.value for config in found.configs} == ({value} if value else set()):
            return
        time.sleep(0.02)


def _brokers(world: World) -> None:
    """Change configs of the only broker and of all brokers, and describe a topic."""
    world.create()
    everybody, one, topic = (BROKER, ""), (BROKER, "1"), (TOPIC, world.topic)
    _describe(world, one, "message.max.bytes", "node.id", FLUSH)
    _alter(world, everybody, (SET, FLUSH, "777"))
    _until(world, one, FLUSH, "777")
    _describe(world, everybody, FLUSH)
    _describe(world, one, FLUSH)
    _describe(world, topic, "flush.messages")
    _alter(world, one, (SET, FLUSH, "888"))
    _until(world, one, FLUSH, "888")
    _describe(world, one, FLUSH)
    _describe(world, topic, "flush.messages")
    _alter(world, one, (DELETE, FLUSH, None))
    _until(world, one, FLUSH, "777")
    _alter(world, everybody, (DELETE, FLUSH, None))
    _until(world, everybody, FLUSH, None)
    _until(world, one, FLUSH, str(2**63 - 1))
    _describe(world, one, FLUSH)


@play
def _refused_of_brokers(world: World, name: str) -> None:
    for change in (
        (SET, "node.id", "5"),
        (SET, "num.partitions", "5"),
        (SET, FLUSH, "x"),
        (SET, FLUSH, None),
        (APPEND, FLUSH, "5"),
        (9, FLUSH, "5"),
        (SET, "message.max.bytes", "-1"),
    ):
        _alter(world, (BROKER, name), change)
    _alter(world, (BROKER, name), (SET, FLUSH, "1"), (SET, FLUSH, "2"))


def _others(world: World) -> None:
    """Use resources that do not exist or have no configs."""
    for resource in (
        (BROKER, "9"),
        (BROKER, "x"),
        (LOGGER, "9"),
        (LOGGER, ""),
        (GROUP, ""),
        (TOPIC, "not-there"),
        (TOPIC, "a/b"),
        (77, "x"),
        (0, "x"),
    ):
        _describe(world, resource)
        _alter(world, resource, (SET, FLUSH, "5"))


def _groups(world: World) -> None:
    name = "consumer.session.timeout.ms"
    group = (GROUP, world.topic)
    _describe(world, group)
    _alter(world, group, (SET, name, "50000"))
    _until(world, group, name, "50000")
    _describe(world, group)
    _alter(world, group, (SET, name, "1"))
    _alter(world, group, (SET, name, "x"))
    _alter(world, group, (SET, "no.such", "1"))
    _alter(world, group, (APPEND, name, "1"))
    _alter(world, group, (DELETE, name, None))
    _until(world, group, name, "45000")
    _describe(world, group)


def _legacy(version: int) -> Play:
    """Use AlterConfigs, which replaces all configs."""

    def alter(world: World, kind: int, name: str, **configs: str | None) -> None:
        given = [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()]
        one = {"resource_type": kind, "resource_name": name, "configs": given}
        world.ask(ApiKey.ALTER_CONFIGS, version, resources=[one])

    def play(world: World) -> None:
        world.create(max_message_bytes="5000")
        topic = (TOPIC, world.topic)
        alter(world, *topic, segment_bytes="2000000")
        _until(world, topic, "segment.bytes", "2000000")
        _describe(world, topic, "segment.bytes", "max.message.bytes")
        alter(world, *topic)
        _until(world, topic, "segment.bytes", str(1 << 30))
        _describe(world, topic, "segment.bytes", "max.message.bytes")
        alter(world, *topic, segment_bytes=None)
        alter(world, *topic, segment_bytes="x")
        alter(world, *topic, no_such="x")
        alter(world, TOPIC, "not-there", segment_bytes="5000000")
        alter(world, TOPIC, "a/b", segment_bytes="5000000")
        alter(world, BROKER, "1", log_flush_interval_messages="99")
        _until(world, (BROKER, "1"), FLUSH, "99")
        alter(world, BROKER, "1")
        _until(world, (BROKER, "1"), FLUSH, str(2**63 - 1))
        alter(world, BROKER, "1", node_id="7")
        alter(world, BROKER, "9", log_flush_interval_messages="99")
        alter(world, LOGGER, "1", kafka="INFO")
        alter(world, GROUP, world.topic, consumer_session_timeout_ms="50000")
        alter(world, GROUP, world.topic)
        alter(world, 77, "x")

    return play


def _listed(world: World) -> None:
    """List what can be described; of topics only this one, because others exist."""
    for version, kinds in ((0, []), (1, [BROKER, LOGGER]), (1, [GROUP]), (1, [77]), (1, [16])):
        world.ask(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=kinds)


def config_scenarios() -> Iterator[Scenario]:
    """Return all config scenarios, except those of topics only."""
    yield Scenario("configs of brokers", _brokers)
    for name in ("", "1"):
        yield Scenario(f"configs of broker '{name}', refused", _refused_of_brokers(name))
    yield Scenario("configs of nothing", _others)
    yield Scenario("configs of groups", _groups)
    yield Scenario("configs of all kinds, listed", _listed)
    for version in range(3):
        yield Scenario(f"alter configs {version}", _legacy(version))
