"""Scenarios with replica assignments and elections on one node, and authorized operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.protocol.versions import ApiKey
from tools.compat.scenarios.groups import Member, find
from tools.compat.scenarios.world import Scenario, World, play
from tools.support.raw_client import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator


_ASSIGNMENTS: dict[str, list[list[int]]] = {
    "to the node": [[1], [1]],
    "to a missing node": [[1], [77]],
    "to nobody": [[1], []],
    "to a node twice": [[1], [1, 1]],
    "too few": [[1]],
    "too many": [[1], [1], [1]],
    "none at all": [],
}


@play
def _grow(world: World, version: int, assignments: list[list[int]], *, validate: bool) -> None:
    world.create(2)
    given = [{"broker_ids": nodes} for nodes in assignments]
    topics = [{"name": world.topic, "count": 4, "assignments": given}]
    values = {"topics": topics, "timeout": TIMEOUT, "validate_only": validate}
    world.ask(ApiKey.CREATE_PARTITIONS, version, **values)


@play
def _create(world: World, assignments: list[tuple[int, list[int]]]) -> None:
    given = [{"partition_index": i, "broker_ids": nodes} for i, nodes in assignments]
    new = {"name": world.topic, "num_partitions": -1, "replication_factor": -1}
    topics = [new | {"assignments": given}]
    world.ask(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=TIMEOUT)


@play
def _reassign(world: World, version: int) -> None:
    world.create(2)
    for name, index, replicas in (
        (world.topic, 0, [1]),
        (world.topic, 1, [77]),
        (world.topic, 1, []),
        (world.topic, 1, [1, 1]),
        (world.topic, 0, None),
        (world.topic, 9, [1]),
        (world.topic, 9, None),
        ("not-there", 0, [1]),
    ):
        asked = [{"partition_index": index, "replicas": replicas}]
        topics = [{"name": name, "partitions": asked}]
        values = {"topics": topics, "timeout": TIMEOUT}
        world.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, **values)
    world.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, topics=[], timeout=TIMEOUT)


def _list(world: World) -> None:
    world.create(2)
    for topics in (
        None,
        [],
        [{"name": world.topic, "partition_indexes": [0, 9]}],
        [{"name": "not-there", "partition_indexes": [0]}],
    ):
        world.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=topics, timeout=TIMEOUT)


@play
def _elect(world: World, version: int, kind: int) -> None:
    world.create(2)
    for topics in (
        [{"topic": world.topic, "partitions": [0, 1]}],
        [{"topic": world.topic, "partitions": [9]}],
        [{"topic": "not-there", "partitions": [0]}],
        [],
    ):
        values: dict[str, Any] = {"topic_partitions": topics, "timeout": TIMEOUT}
        world.ask(ApiKey.ELECT_LEADERS, version, **values, election_type=kind)


def _delete_offsets(world: World) -> None:
    """Delete offsets of a missing group, a group with offsets, and a group with a member."""
    world.create(2)
    find(world)

    def delete(group: str, *places: tuple[str, int]) -> None:
        topics = [{"name": n, "partitions": [{"partition_index": i}]} for n, i in places]
        world.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)

    places = ((world.topic, 0), ("not-there", 0))
    delete(world.topic, *places)
    delete("", *places)
    nobody = Member(world, 9)
    nobody.commit()
    delete(world.topic, *places)
    delete(world.topic, (world.topic, 9), ("no/name", 0))
    delete(world.topic)
    nobody.describe()
    subscription = b"\0\0" + b"\0\0\0\x01" + len(world.topic).to_bytes(2) + world.topic.encode()
    member = Member(world, 9)
    member.join([{"name": "range", "metadata": subscription + b"\xff\xff\xff\xff"}])
    delete(world.topic, *places)
    member.sync()
    member.commit()
    delete(world.topic, *places)
    member.leave(member.id, None)
    delete(world.topic, *places)
    other = Member(world, 9)
    other.join(protocol_type="connect")
    delete(world.topic, *places)


def _operations(world: World) -> None:
    """Request the bit fields of authorized operations."""
    world.create()
    find(world)
    nobody = Member(world, 9)
    nobody.commit()
    both = {
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
        "allow_auto_topic_creation": False,
    }
    for version in (8, 10, 11, 13):
        topics = [{"name": world.topic}, {"name": "not-there"}, {"name": "a/b"}]
        world.ask(ApiKey.METADATA, version, topics=topics, **both)
    for version in range(3):
        world.ask(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=1, **both)
    for version in range(3, 7):
        groups = [world.topic, "not-there"]
        asked = {"groups": groups, "include_authorized_operations": True}
        world.ask(ApiKey.DESCRIBE_GROUPS, version, **asked)
    topics = [{"name": world.topic}, {"name": "not-there"}]
    world.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, response_partition_limit=9)


def placement_scenarios() -> Iterator[Scenario]:
    """Yield the scenarios with assignments, reassignments, elections and deleted offsets."""
    for name, assignments in _ASSIGNMENTS.items():
        for version in (0, 3):
            play = _grow(version, assignments, validate=False)
            yield Scenario(f"create partitions {version}, {name}", play)
        play = _grow(3, assignments, validate=True)
        yield Scenario(f"create partitions 3, only validated, {name}", play)
    wrong: dict[str, list[tuple[int, list[int]]]] = {
        "to a node twice": [(0, [1, 1])],
        "to nobody": [(0, [])],
        "one of a partition twice": [(0, [1]), (0, [1])],
        "of different sizes": [(0, [1]), (1, [1, 77])],
    }
    for name, given in wrong.items():
        yield Scenario(f"create topics 7, assignments {name}", _create(given))
    for version in range(2):
        yield Scenario(f"alter partition reassignments {version}", _reassign(version))
    yield Scenario("list partition reassignments 0", _list)
    for version in range(3):
        yield Scenario(f"elect leaders {version}", _elect(version, 0))
    for kind in (1, 7):
        yield Scenario(f"elect leaders 2, of type {kind}", _elect(2, kind))
    yield Scenario("offset delete 0", _delete_offsets)
    yield Scenario("authorized operations", _operations)
