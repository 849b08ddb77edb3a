"""Scenarios with Fetch, ListOffsets and OffsetForLeaderEpoch."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

from spark_kafka_sink.protocol.versions import ApiKey
from tools.compat.scenarios.world import OWN, Scenario, World, action
from tools.support.raw_client import batch, produce

_FETCHES: dict[str, dict[str, object]] = {
    "from the start": {},
    "inside a batch": {"offset": 3},
    "at the end": {"offset": 7},
    "behind the end": {"offset": 8},
    "far after the end": {"offset": 1 << 40},
    "offset -1": {"offset": -1},
    "epoch 0": {"epoch": 0},
    "epoch 7": {"epoch": 7},
    "epoch -5": {"epoch": -5},
    "at most 1 byte": {"max_bytes": 1},
    "at most 0 bytes": {"max_bytes": 0},
    "at most -1 bytes": {"max_bytes": -1},
    "at most 1 byte per partition": {"offset": 2, "partition_max_bytes": 1},
    "at most -1 bytes a partition": {"offset": 2, "partition_max_bytes": -1},
    "at least 0 bytes": {"offset": 7, "min_bytes": 0, "max_wait": timedelta(milliseconds=300)},
    "waiting for much": {"min_bytes": 1 << 20, "max_wait": timedelta(milliseconds=100)},
    "read committed": {"isolation_level": 1},
    "isolation level 3": {"isolation_level": 3},
    "an unknown session": {"session_id": 99, "session_epoch": 1},
    "no session, of an id": {"session_id": 99, "session_epoch": -1},
    "the next of no session": {"session_id": 0, "session_epoch": 1},
    "a negative session epoch": {"session_id": 99, "session_epoch": -7},
}
TIMES = (-6, -5, -4, -3, -2, -1, 0, 1_000, 1_500, 2_000, 3_001, 1 << 50)


def _filled(world: World) -> None:
    """Write offsets 0 to 1 with timestamp 1000, 2 to 4 with 3000, and 5 to 6 with 2000."""
    world.create()
    for count, time in ((2, 1_000), (3, 3_000), (2, 2_000)):
        produce(world.client, world.topic, batch(count, timestamp=time))


@action
def _fetch(world: World, version: int, changes: dict[str, Any]) -> None:
    _filled(world)
    world.fetch(version=version, **changes)


def _ask_offset(
    world: World, version: int, timestamp: int, *, epoch: int = -1, partition: int = 0
) -> None:
    asked = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
    topics = [{"name": OWN, "partitions": [asked]}]
    world.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=topics)


@action
def _list(world: World, /, version: int, timestamp: int, **changes: int) -> None:
    _filled(world)
    _ask_offset(world, version, timestamp, **changes)


def _list_empty(world: World) -> None:
    world.create()
    for timestamp in TIMES:
        _ask_offset(world, 9, timestamp)


@action
def _epochs(world: World, version: int) -> None:
    _filled(world)
    for current, wanted in ((-1, 0), (0, 0), (-1, 5), (-1, -1), (7, 0)):
        asked = {"partition": 0, "current_leader_epoch": current, "leader_epoch": wanted}
        topics = [{"topic": OWN, "partitions": [asked]}]
        world.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)


@action
def _delete_records(world: World, version: int) -> None:
    _filled(world)
    for offset in (3, 99, -5, 2, -1):
        asked = [{"partition_index": 0, "offset": offset}]
        topics = [{"name": OWN, "partitions": asked}]
        world.ask(ApiKey.DELETE_RECORDS, version, topics=topics)
        world.fetch(3)


def _fetch_scenarios() -> Iterator[Scenario]:
    for name, changes in _FETCHES.items():
        for version in (4, 11, 17):
            yield Scenario(f"fetch {version}, {name}", _fetch(version, changes))
    for version in range(4, 18):
        yield Scenario(f"fetch {version}, everything", _fetch(version, {}))
    for version in (4, 12):
        yield Scenario(f"fetch {version}, no such topic", _fetch(version, {"topic": "not-there"}))
    yield Scenario("fetch 13, no such topic id", _fetch(13, {"topic_id": UUID(int=9)}))


def read_scenarios() -> Iterator[Scenario]:
    """Yield all scenarios that read records or offsets."""
    yield from _fetch_scenarios()
    for version in range(1, 11):
        for timestamp in TIMES if version in {1, 5, 7, 8, 9, 10} else (-1, -2, 1_500):
            yield Scenario(f"list offsets {version}, {timestamp}", _list(version, timestamp))
    for epoch in (0, 7):
        yield Scenario(f"list offsets 9, epoch {epoch}", _list(9, -1, epoch=epoch))
    for partition in (-1, 5):
        yield Scenario(f"list offsets 9, partition {partition}", _list(9, -1, partition=partition))
    yield Scenario("list offsets 9, an empty partition", _list_empty)
    for version in (2, 3, 4):
        yield Scenario(f"offset for leader epoch {version}", _epochs(version))
    for version in range(3):
        yield Scenario(f"delete records {version}", _delete_records(version))
