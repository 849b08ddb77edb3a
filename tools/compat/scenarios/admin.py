"""Scenarios of topics, configs, groups and the cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.api_versions import HANDLERS
from spark_kafka_sink.protocol.versions import ApiKey
from tools.compat.scenarios.world import Scenario, World, play
from tools.support.raw_client import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    "an unknown config": {"configs": [{"name": "no.such.config", "value": "1"}]},
    "retention.ms=x": {"configs": [{"name": "retention.ms", "value": "x"}]},
    "retention.ms=-2": {"configs": [{"name": "retention.ms", "value": "-2"}]},
    "retention.ms=null": {"configs": [{"name": "retention.ms", "value": None}]},
    "max.message.bytes=-1": {"configs": [{"name": "max.message.bytes", "value": "-1"}]},
    "cleanup.policy=x": {"configs": [{"name": "cleanup.policy", "value": "x"}]},
    "cleanup.policy=compact,delete": {
        "configs": [{"name": "cleanup.policy", "value": "compact,delete"}]
    },
    "compression.type=x": {"configs": [{"name": "compression.type", "value": "x"}]},
    "min.insync.replicas=0": {"configs": [{"name": "min.insync.replicas", "value": "0"}]},
    "segment.bytes=1": {"configs": [{"name": "segment.bytes", "value": "1"}]},
    "an assignment": {
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": [1]}],
    },
    "an assignment with a gap": {
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 1, "broker_ids": [1]}],
    },
    "an assignment to no node": {
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": [77]}],
    },
    "an assignment and a count": {
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [{"partition_index": 0, "broker_ids": [1]}],
    },
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
    """Use members that no group has."""
    _find(world)
    for group, member in ((world.topic, "x"), (world.topic, ""), ("", "x")):
        values = {"group_id": group, "member_id": member, "generation_id": 3}
        values |= {"members": [{"member_id": member}], "topics": []}
        values |= {"protocol_type": "consumer", "protocol_name": "range"}
        world.ask(api, version, **values)


def _find(world: World) -> None:
    patience = ErrorCode.coordinator_not_available
    values = {"key": world.topic, "key_type": 0}
    world.wait_for(ApiKey.FIND_COORDINATOR, 2, patience, **values)
    for error in (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress):
        world.wait_for(ApiKey.DESCRIBE_GROUPS, 0, error, groups=[world.topic])


@play
def _join(world: World, version: int) -> None:
    _find(world)
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
    """Commit offsets without members and read them back."""
    _find(world)
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
            yield Scenario(f"{name} {version}, strangers", _strangers(api, version))
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
    """Return all scenarios that involve no records."""
    yield from _topic_scenarios()
    for version in range(14):
        yield Scenario(f"metadata {version}", _metadata(version, ["own"]))
        yield Scenario(f"metadata {version}, no such topic", _metadata(version, ["own", "nope"]))
    for version in (4, 12):
        play = _metadata(version, ["a/b", ""], allow_auto_topic_creation=True)
        yield Scenario(f"metadata {version}, names that can't be", play)
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
