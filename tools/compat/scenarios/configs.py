"""Scenarios with configs of topics, brokers and groups."""

from collections.abc import Iterator
from typing import Any

from spark_kafka_sink.protocol.versions import ApiKey
from tools.compat.scenarios.world import OWN, SOCKET_SECONDS, Action, Scenario, World, action, asks
from tools.support.waiting import poll

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
FLUSH = "log.flush.interval.messages"
_Resource = tuple[int, str]


def _asked(resource: _Resource, *names: str) -> dict[str, Any]:
    kind, name = resource
    one = {"resource_type": kind, "resource_name": name, "configuration_keys": list(names) or None}
    return {"resources": [one]}


def _changed(resource: _Resource, *changes: tuple[int, str, str | None]) -> dict[str, Any]:
    configs = [
        {"name": name, "config_operation": operation, "value": value}
        for operation, name, value in changes
    ]
    kind, name = resource
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}


def _describe(world: World, resource: _Resource, *names: str) -> None:
    world.ask(ApiKey.DESCRIBE_CONFIGS, 4, **_asked(resource, *names), include_synonyms=True)


def _change(world: World, resource: _Resource, *changes: tuple[int, str, str | None]) -> None:
    world.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **_changed(resource, *changes))


def _until(world: World, resource: _Resource, name: str, value: str | None) -> None:
    """Wait until a config has a value, or until it is unset if `value` is None."""
    asked = _asked((resource[0], world.named(resource[1])), name)

    def is_set() -> bool:
        found = world.client.call(ApiKey.DESCRIBE_CONFIGS, 4, **asked).results[0]
        return {config.value for config in found.configs} == ({value} if value else set())

    poll(is_set, SOCKET_SECONDS)


_DESCRIBED: tuple[tuple[_Resource, tuple[str, ...]], ...] = (
    ((TOPIC, OWN), ("retention.ms", "cleanup.policy", "no.such")),
    ((TOPIC, OWN), ()),
    ((TOPIC, "not-there"), ()),
    ((TOPIC, "a/b"), ()),
    ((BROKER, "1"), ("message.max.bytes",)),
    ((BROKER, "9"), ()),
    ((BROKER, "x"), ()),
    ((3, "x"), ()),
)
_ALTERED = (
    (SET, "retention.ms", "7000"),
    (DELETE, "retention.ms", None),
    (SET, "retention.ms", "x"),
    (SET, "no.such", "x"),
    (APPEND, "cleanup.policy", "compact"),
    (SUBTRACT, "cleanup.policy", "delete"),
    (APPEND, "retention.ms", "5"),
    (9, "retention.ms", "5"),
    (SET, "retention.ms", None),
)


def _described(version: int) -> Action:
    requests = [
        _asked(resource, *names) | {"include_synonyms": False} for resource, names in _DESCRIBED
    ]
    return asks(ApiKey.DESCRIBE_CONFIGS, version, *requests, partitions=1, retention_ms="5000")


def _altered(version: int) -> Action:
    requests = [_changed((TOPIC, OWN), change) for change in _ALTERED]
    requests.append(_changed((TOPIC, "not-there")))
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    return asks(api, version, *requests, partitions=1, retention_ms="5000")


def _brokers(world: World) -> None:
    """Change configs of the only broker and of all brokers, and describe the configs of a topic."""
    world.create()
    everybody, one, topic = (BROKER, ""), (BROKER, "1"), (TOPIC, OWN)
    _describe(world, one, "message.max.bytes", "node.id", FLUSH)
    _change(world, everybody, (SET, FLUSH, "777"))
    _until(world, one, FLUSH, "777")
    _describe(world, everybody, FLUSH)
    _describe(world, one, FLUSH)
    _describe(world, topic, "flush.messages")
    _change(world, one, (SET, FLUSH, "888"))
    _until(world, one, FLUSH, "888")
    _describe(world, one, FLUSH)
    _describe(world, topic, "flush.messages")
    _change(world, one, (DELETE, FLUSH, None))
    _until(world, one, FLUSH, "777")
    _change(world, everybody, (DELETE, FLUSH, None))
    _until(world, everybody, FLUSH, None)
    _until(world, one, FLUSH, str(2**63 - 1))
    _describe(world, one, FLUSH)


def _refused_of_brokers(name: str) -> Action:
    changes = (
        ((SET, "node.id", "5"),),
        ((SET, "num.partitions", "5"),),
        ((SET, FLUSH, "x"),),
        ((SET, FLUSH, None),),
        ((APPEND, FLUSH, "5"),),
        ((9, FLUSH, "5"),),
        ((SET, "message.max.bytes", "-1"),),
        ((SET, FLUSH, "1"), (SET, FLUSH, "2")),
    )
    requests = (_changed((BROKER, name), *each) for each in changes)
    return asks(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, *requests)


def _others(world: World) -> None:
    """Describe and change configs of resources that do not exist or have no configs."""
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
        _change(world, resource, (SET, FLUSH, "5"))


def _groups(world: World) -> None:
    name, group = "consumer.session.timeout.ms", (GROUP, OWN)
    _describe(world, group)
    _change(world, group, (SET, name, "50000"))
    _until(world, group, name, "50000")
    _describe(world, group)
    _change(world, group, (SET, name, "1"))
    _change(world, group, (SET, name, "x"))
    _change(world, group, (SET, "no.such", "1"))
    _change(world, group, (APPEND, name, "1"))
    _change(world, group, (DELETE, name, None))
    _until(world, group, name, "45000")
    _describe(world, group)


@action
def _legacy(world: World, version: int) -> None:
    """Send AlterConfigs, which replaces all configs."""

    def alter(kind: int, name: str, **configs: str | None) -> None:
        given = [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()]
        one = {"resource_type": kind, "resource_name": name, "configs": given}
        world.ask(ApiKey.ALTER_CONFIGS, version, resources=[one])

    world.create(max_message_bytes="5000")
    topic, broker = (TOPIC, OWN), (BROKER, "1")
    alter(*topic, segment_bytes="2000000")
    _until(world, topic, "segment.bytes", "2000000")
    _describe(world, topic, "segment.bytes", "max.message.bytes")
    alter(*topic)
    _until(world, topic, "segment.bytes", str(1 << 30))
    _describe(world, topic, "segment.bytes", "max.message.bytes")
    alter(*topic, segment_bytes=None)
    alter(*topic, segment_bytes="x")
    alter(*topic, no_such="x")
    alter(TOPIC, "not-there", segment_bytes="5000000")
    alter(TOPIC, "a/b", segment_bytes="5000000")
    alter(*broker, log_flush_interval_messages="99")
    _until(world, broker, FLUSH, "99")
    alter(*broker)
    _until(world, broker, FLUSH, str(2**63 - 1))
    alter(*broker, node_id="7")
    alter(BROKER, "9", log_flush_interval_messages="99")
    alter(LOGGER, "1", kafka="INFO")
    alter(GROUP, OWN, consumer_session_timeout_ms="50000")
    alter(GROUP, OWN)
    alter(77, "x")


def _listed(world: World) -> None:
    """List the resources that have configs; ignore the topics of other scenarios."""
    for version, kinds in ((0, []), (1, [BROKER, LOGGER]), (1, [GROUP]), (1, [77]), (1, [16])):
        world.ask(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=kinds)


def config_scenarios() -> Iterator[Scenario]:
    """Yield all scenarios with configs."""
    for version in range(1, 5):
        yield Scenario(f"describe configs {version}", _described(version))
    for version in range(2):
        yield Scenario(f"incremental alter configs {version}", _altered(version))
    yield Scenario("configs of brokers", _brokers)
    for name in ("", "1"):
        yield Scenario(f"configs of broker '{name}', refused", _refused_of_brokers(name))
    yield Scenario("configs of missing resources", _others)
    yield Scenario("configs of groups", _groups)
    yield Scenario("configs of all kinds, listed", _listed)
    for version in range(3):
        yield Scenario(f"alter configs {version}", _legacy(version))
