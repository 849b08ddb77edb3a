"""Scenarios with topics, configs, groups and the cluster."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.api_versions import HANDLERS
from spark_kafka_sink.protocol.versions import ApiKey
from tools.compat.scenarios.groups import find
from tools.compat.scenarios.world import SOCKET_SECONDS, Scenario, World, play
from tools.support.raw_client import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.compat.scenarios.world import Play


def _config(name: str, value: str | None) -> dict[str, Any]:
    return {"configs": [{"name": name, "value": value}]}


def _assigned(partition: int, broker: int, count: int = -1) -> dict[str, Any]:
    given = [{"partition_index": partition, "broker_ids": [broker]}]
    return {"num_partitions": count, "replication_factor": count, "assignments": given}


_TOPICS: dict[str, dict[str, Any]] = {
    "as usual": {},
    "default partitions": {"num_partitions": -1, "replication_factor": -1},
    "0 partitions": {"num_partitions": 0},
    "-2 partitions": {"num_partitions": -2},
    "0 replicas": {"replication_factor": 0},
    "9 replicas": {"replication_factor": 9},
    "a slash in the name": {"name": "a/b"},
    "the name ..": {"name": ".."},
    "an empty name": {"name": ""},
    "a long name": {"name": "x" * 250},
    "an unknown config": _config("no.such.config", "1"),
    "retention.ms=null": _config("retention.ms", None),
    **{
        f"{name}={value}": _config(name, value)
        for name, value in (
            ("retention.ms", "x"),
            ("retention.ms", "-2"),
            ("max.message.bytes", "-1"),
            ("cleanup.policy", "x"),
            ("cleanup.policy", "compact,delete"),
            ("compression.type", "x"),
            ("min.insync.replicas", "0"),
            ("segment.bytes", "1"),
        )
    },
    "an assignment": _assigned(0, 1),
    "an assignment with a gap": _assigned(1, 1),
    "an assignment to no node": _assigned(0, 77),
    "an assignment and a count": _assigned(0, 1, count=1),
}


@play
def _create(world: World, version: int, changes: dict[str, Any], *, validate: bool = False) -> None:
    usual = {"name": world.topic, "num_partitions": 2, "replication_factor": 1}
    values = {"topics": [usual | changes], "timeout": TIMEOUT, "validate_only": validate}
    world.ask(ApiKey.CREATE_TOPICS, version, **values)


@play
def _create_twice(world: World, version: int) -> None:
    new = {"name": world.topic, "num_partitions": 1, "replication_factor": 1}
    for topics in ([new], [new], [new, new]):
        world.ask(ApiKey.CREATE_TOPICS, version, topics=topics, timeout=TIMEOUT)


@play
def _delete(world: World, version: int) -> None:
    world.create()
    for name in (world.topic, "not-there"):
        values = {"topics": [{"name": name}], "topic_names": [name], "timeout": TIMEOUT}
        world.ask(ApiKey.DELETE_TOPICS, version, **values)
    if version >= 6:
        unknown = [{"name": None, "topic_id": UUID(int=9)}]
        world.ask(ApiKey.DELETE_TOPICS, version, topics=unknown, timeout=TIMEOUT)


@play
def _metadata(world: World, /, version: int, topics: Any, **values: Any) -> None:
    world.create(2)
    named = [
        {"name": world.topic if t == "own" else t} if isinstance(t, str) else t for t in topics
    ]
    world.ask(ApiKey.METADATA, version, topics=named, **values)


@play
def _configs(world: World, version: int) -> None:
    world.create(retention_ms="5000")
    for kind, name, keys in (
        (2, world.topic, ["retention.ms", "cleanup.policy", "no.such"]),
        (2, world.topic, None),
        (2, "not-there", None),
        (2, "a/b", None),
        (4, "1", ["message.max.bytes"]),
        (4, "9", None),
        (4, "x", None),
        (3, "x", None),
    ):
        one = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        world.ask(ApiKey.DESCRIBE_CONFIGS, version, resources=[one])


@play
def _alter(world: World, version: int) -> None:
    world.create(retention_ms="5000")
    for change in (
        {"name": "retention.ms", "config_operation": 0, "value": "7000"},
        {"name": "retention.ms", "config_operation": 1, "value": None},
        {"name": "retention.ms", "config_operation": 0, "value": "x"},
        {"name": "no.such", "config_operation": 0, "value": "x"},
        {"name": "cleanup.policy", "config_operation": 2, "value": "compact"},
        {"name": "cleanup.policy", "config_operation": 3, "value": "delete"},
        {"name": "retention.ms", "config_operation": 2, "value": "5"},
        {"name": "retention.ms", "config_operation": 9, "value": "5"},
        {"name": "retention.ms", "config_operation": 0, "value": None},
    ):
        one = {"resource_type": 2, "resource_name": world.topic, "configs": [change]}
        world.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[one])
    one = {"resource_type": 2, "resource_name": "not-there", "configs": []}
    world.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[one])


@play
def _partitions(world: World, version: int) -> None:
    world.create(2)
    for name, count in ((world.topic, 2), (world.topic, 1), ("not-there", 3), (world.topic, 4)):
        topics = [{"name": name, "count": count, "assignments": None}]
        world.ask(ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout=TIMEOUT)


@play
def _coordinator(world: World, version: int) -> None:
    values = {"key": world.topic, "coordinator_keys": [world.topic], "key_type": 0}
    patience = ErrorCode.coordinator_not_available
    world.wait_for(ApiKey.FIND_COORDINATOR, version, patience, **values)
    world.ask(ApiKey.FIND_COORDINATOR, version, **values)
    if version >= 1:
        world.ask(ApiKey.FIND_COORDINATOR, version, **values | {"key_type": 9})
    empty = values | {"key": "", "coordinator_keys": []}
    world.ask(ApiKey.FIND_COORDINATOR, version, **empty)


@play
def _strangers(world: World, api: ApiKey, version: int) -> None:
    """Send group requests with unknown member IDs."""
    find(world)
    for group, member in ((world.topic, "x"), (world.topic, ""), ("", "x")):
        values = {"group_id": group, "member_id": member, "generation_id": 3}
        values |= {"members": [{"member_id": member}], "topics": []}
        values |= {"protocol_type": "consumer", "protocol_name": "range"}
        world.ask(api, version, **values)


@play
def _join(world: World, version: int) -> None:
    find(world)
    values = {
        "group_id": world.topic,
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=5),
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"m"}],
    }
    world.ask(ApiKey.JOIN_GROUP, version, **values, member_id="")
    world.ask(ApiKey.JOIN_GROUP, version, **values, member_id="unknown")
    short = values | {"session_timeout": timedelta(milliseconds=5)}
    world.ask(ApiKey.JOIN_GROUP, version, **short, member_id="")
    world.ask(ApiKey.JOIN_GROUP, version, **values | {"group_id": ""}, member_id="")
    world.ask(ApiKey.JOIN_GROUP, version, **values | {"protocols": []}, member_id="")


@play
def _offsets(world: World, version: int) -> None:
    """Commit offsets of a group without members, and read them back."""
    find(world)
    world.create(2)
    asked = [
        {"partition_index": i, "committed_offset": o, "committed_metadata": m}
        for i, o, m in ((0, 42, "note"), (1, -1, None), (7, 5, ""))
    ]
    topics = [{"name": world.topic, "topic_id": world.topic_id(), "partitions": asked}]
    values = {"group_id": world.topic, "member_id": "", "generation_id_or_member_epoch": -1}
    world.ask(ApiKey.OFFSET_COMMIT, version, **values, topics=topics)
    wanted = [{"name": world.topic, "partition_indexes": [0, 1, 7]}]
    groups = [{"group_id": world.topic, "topics": wanted}]
    fetched = min(version, 9)
    world.ask(ApiKey.OFFSET_FETCH, fetched, group_id=world.topic, topics=wanted, groups=groups)
    world.ask(ApiKey.DESCRIBE_GROUPS, min(version, 6), groups=[world.topic, "not-there"])
    world.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[world.topic, "not-there"])


@play
def _versions(world: World, version: int) -> None:
    software = {"client_software_name": "raw", "client_software_version": "1"}
    found = world.client.call(ApiKey.API_VERSIONS, version, **software)
    ranges = {k.api_key: f"{k.min_version}-{k.max_version}" for k in found.api_keys}
    for api in HANDLERS:
        world.seen[ApiKey(api).name.lower()] = ranges.get(api, "not served")
    world.seen["other APIs"] = sorted(set(ranges) - set(HANDLERS))
    features = getattr(found, "finalized_features", ())
    world.seen["features"] = {
        f.name: f"{f.min_version_level}-{f.max_version_level}" for f in features
    }


@play
def _producer_id(world: World, version: int, values: dict[str, Any]) -> None:
    world.producer()
    usual = {"transactional_id": None, "transaction_timeout": timedelta(seconds=9)}
    world.ask(ApiKey.INIT_PRODUCER_ID, version, **usual | values)


@play
def _cluster(world: World, version: int) -> None:
    for kind in (1, 2, 3) if version >= 1 else (1,):
        world.ask(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=kind)


def _group_scenarios() -> Iterator[Scenario]:
    for version in range(7):
        yield Scenario(f"find coordinator {version}", _coordinator(version))
    for api, versions in (
        (ApiKey.HEARTBEAT, (0, 4)),
        (ApiKey.SYNC_GROUP, (0, 5)),
        (ApiKey.LEAVE_GROUP, (0, 5)),
        (ApiKey.OFFSET_COMMIT, (2, 8)),
    ):
        for version in versions:
            name = api.name.lower().replace("_", " ")
            yield Scenario(f"{name} {version}, unknown members", _strangers(api, version))
    for version in (0, 3, 4, 5, 9):
        yield Scenario(f"join group {version}", _join(version))
    for version in (2, 5, 8, 9):
        yield Scenario(f"offset commit {version}", _offsets(version))
    for version in range(6):
        for name, values in (
            ("a new one", {}),
            ("an old id", {"producer_id": 5, "producer_epoch": 3}),
            ("an id without epoch", {"producer_id": 5, "producer_epoch": -1}),
            ("an empty transactional id", {"transactional_id": ""}),
        ):
            yield Scenario(f"init producer id {version}, {name}", _producer_id(version, values))


def _topic_scenarios() -> Iterator[Scenario]:
    for name, changes in _TOPICS.items():
        for version in (2, 5, 7):
            yield Scenario(f"create topics {version}, {name}", _create(version, changes))
    for name in ("as usual", "default partitions", "9 replicas", "an unknown config"):
        play = _create(7, _TOPICS[name], validate=True)
        yield Scenario(f"create topics 7, only validated, {name}", play)
    for version in (2, 7):
        yield Scenario(f"create topics {version}, again", _create_twice(version))
    for version in range(1, 7):
        yield Scenario(f"delete topics {version}", _delete(version))


def admin_scenarios() -> Iterator[Scenario]:
    """Yield all admin scenarios; these do not write records."""
    yield from _topic_scenarios()
    for version in range(14):
        yield Scenario(f"metadata {version}", _metadata(version, ["own"]))
        yield Scenario(f"metadata {version}, no such topic", _metadata(version, ["own", "nope"]))
    for version in (4, 12):
        play = _metadata(version, ["a/b", ""], allow_auto_topic_creation=True)
        yield Scenario(f"metadata {version}, invalid names", play)
    by_id = [{"name": None, "topic_id": UUID(int=9)}]
    yield Scenario("metadata 12, no such id", _metadata(12, by_id))
    for version in range(1, 5):
        yield Scenario(f"describe configs {version}", _configs(version))
        yield Scenario(f"api versions {version}", _versions(version))
    for version in range(2):
        yield Scenario(f"incremental alter configs {version}", _alter(version))
    for version in range(4):
        yield Scenario(f"create partitions {version}", _partitions(version))
    for version in range(3):
        yield Scenario(f"describe cluster {version}", _cluster(version))
    yield from _group_scenarios()


TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
FLUSH = "log.flush.interval.messages"


def _change(world: World, resource: tuple[int, str], *changes: tuple[int, str, str | None]) -> None:
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
    """Wait until a config has a value, or until it is unset if `value` is None."""
    deadline = time.monotonic() + SOCKET_SECONDS
    while time.monotonic() < deadline:
        found = world.client.call(ApiKey.DESCRIBE_CONFIGS, 4, **_asked(resource, name)).results[0]
        if {config.value for config in found.configs} == ({value} if value else set()):
            return
        time.sleep(0.02)


def _brokers(world: World) -> None:
    """Change configs of the only broker and of all brokers, and describe the configs of a topic."""
    world.create()
    everybody, one, topic = (BROKER, ""), (BROKER, "1"), (TOPIC, world.topic)
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
        _change(world, (BROKER, name), change)
    _change(world, (BROKER, name), (SET, FLUSH, "1"), (SET, FLUSH, "2"))


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
    name = "consumer.session.timeout.ms"
    group = (GROUP, world.topic)
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


def _legacy(version: int) -> Play:
    """Send AlterConfigs, which replaces all configs."""

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
    """List the resources that have configs; ignore the topics of other scenarios."""
    for version, kinds in ((0, []), (1, [BROKER, LOGGER]), (1, [GROUP]), (1, [77]), (1, [16])):
        world.ask(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=kinds)


def config_scenarios() -> Iterator[Scenario]:
    """Yield the config scenarios, except those that only use topics."""
    yield Scenario("configs of brokers", _brokers)
    for name in ("", "1"):
        yield Scenario(f"configs of broker '{name}', refused", _refused_of_brokers(name))
    yield Scenario("configs of missing resources", _others)
    yield Scenario("configs of groups", _groups)
    yield Scenario("configs of all kinds, listed", _listed)
    for version in range(3):
        yield Scenario(f"alter configs {version}", _legacy(version))
