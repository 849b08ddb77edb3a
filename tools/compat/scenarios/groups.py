"""Scenarios with a single group member: sessions, static membership and offsets."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.protocol.versions import ApiKey
from tools.compat.scenarios.world import Scenario, World, play

if TYPE_CHECKING:
    from collections.abc import Iterator


RANGE = ({"name": "range", "metadata": b"m"},)
BOTH = (*RANGE, {"name": "sticky", "metadata": b"s"})


class Member:
    """A group member that uses one JoinGroup version, and matching versions of other requests."""

    def __init__(self, world: World, version: int, instance: str | None = None) -> None:
        self.world = world
        self.version = version
        self.instance = instance
        self.id = ""
        self.generation = -1

    def join(self, protocols: Any = RANGE, **changes: Any) -> None:
        """Join the group. If the response only assigns a member ID, join again with it."""
        values = {
            "group_id": self.world.topic,
            "session_timeout": timedelta(seconds=10),
            "rebalance_timeout": timedelta(seconds=5),
            "protocol_type": "consumer",
            "protocols": protocols,
            "group_instance_id": self.instance,
            "member_id": self.id,
        }
        self.world.ask(ApiKey.JOIN_GROUP, self.version, **values | changes)
        answer = self.world.last
        self.id, self.generation = answer.member_id, answer.generation_id
        if answer.error_code is ErrorCode.member_id_required:
            self.join(protocols, **changes)

    def sync(self, assignment: bytes | None = b"mine", **changes: Any) -> None:
        """Send SyncGroup, with an assignment for this member unless it is None."""
        mine = [{"member_id": self.id, "assignment": assignment}]
        values = {
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [] if assignment is None else mine,
        }
        self.say(ApiKey.SYNC_GROUP, min(self.version, 5), **values | changes)

    def say(self, api: ApiKey, version: int, **changes: Any) -> None:
        """Send a request as this member."""
        values = {
            "group_id": self.world.topic,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "generation_id": self.generation,
            "generation_id_or_member_epoch": self.generation,
        }
        self.world.ask(api, version, **values | changes)

    def heartbeat(self, **changes: Any) -> None:
        self.say(ApiKey.HEARTBEAT, 3, **changes)

    def commit(self, **changes: Any) -> None:
        """Commit an offset."""
        asked = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        topics = [{"name": self.world.topic, "partitions": asked}]
        self.say(ApiKey.OFFSET_COMMIT, 8, topics=topics, **changes)

    def leave(self, member_id: str, instance: str | None) -> None:
        """Remove a member from the group."""
        one = {"member_id": member_id, "group_instance_id": instance}
        self.say(ApiKey.LEAVE_GROUP, 4, members=[one])

    def describe(self) -> None:
        self.world.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=[self.world.topic])


def find(world: World) -> None:
    """Wait until the group's coordinator is available."""
    values = {"key": world.topic, "key_type": 0}
    world.wait_for(ApiKey.FIND_COORDINATOR, 2, ErrorCode.coordinator_not_available, **values)
    for error in (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress):
        world.wait_for(ApiKey.DESCRIBE_GROUPS, 0, error, groups=[world.topic])


@play
def _returns(world: World, version: int, protocols: Any = RANGE) -> None:
    """Let a static member rejoin with its instance ID, then use its former member ID."""
    world.create()
    find(world)
    former = Member(world, version, "i")
    former.join(BOTH if protocols is BOTH else RANGE)
    former.sync()
    back = Member(world, version, "i")
    back.join(protocols)
    back.sync(None)
    back.heartbeat()
    former.heartbeat()
    former.sync(None)
    former.commit()
    former.join()
    former.leave(former.id, "i")
    back.heartbeat(group_instance_id=None)
    back.heartbeat(group_instance_id="other")
    back.commit()
    back.describe()
    back.leave("", "other")
    back.leave("", "i")
    back.describe()


def _returns_early(world: World) -> None:
    """Let a static member rejoin before the first assignment."""
    find(world)
    former, back = Member(world, 9, "i"), Member(world, 9, "i")
    former.join()
    former.describe()
    back.join()
    former.sync()
    back.sync()
    back.describe()


def _joins_again(world: World) -> None:
    find(world)
    member = Member(world, 9)
    member.join()
    member.join()
    member.sync()
    member.join()
    member.describe()
    member.sync()
    member.join([{"name": "other", "metadata": b"o"}])
    member.join(protocol_type="connect")
    member.join(member_id="stranger", protocols=[{"name": "other", "metadata": b"o"}])
    member.join(member_id="stranger")


@play
def _sessions(world: World, version: int) -> None:
    find(world)
    for milliseconds in (-1, 0, 1_000, 5_999, 6_000, 1_800_000, 1_800_001):
        session = timedelta(milliseconds=milliseconds)
        Member(world, version).join(session_timeout=session)
        left = world.last.member_id
        world.client.call(ApiKey.LEAVE_GROUP, 1, group_id=world.topic, member_id=left)


def _commits(world: World) -> None:
    """Commit offsets as a member, as an unknown member, and without a member."""
    world.create()
    find(world)
    nobody = Member(world, 9)
    nobody.commit(generation_id_or_member_epoch=3)
    nobody.commit(member_id="stranger")
    nobody.commit()
    member = Member(world, 9)
    member.join()
    member.commit()
    member.sync()
    member.commit()
    nobody.commit()
    nobody.commit(member_id="stranger")
    member.commit(generation_id_or_member_epoch=9)
    member.commit(generation_id_or_member_epoch=-1)


def _pending(world: World) -> None:
    """Send requests with an assigned member ID that has not joined yet."""
    find(world)
    member = Member(world, 9)
    values: dict[str, Any] = {"protocol_type": "consumer", "protocols": RANGE, "member_id": ""}
    values |= {"session_timeout": timedelta(seconds=10), "rebalance_timeout": timedelta(seconds=5)}
    world.ask(ApiKey.JOIN_GROUP, 9, group_id=world.topic, **values)
    member.id = world.last.member_id
    member.heartbeat()
    member.sync()
    member.describe()
    member.leave(member.id, None)
    member.leave(member.id, None)
    member.join()


def group_scenarios() -> Iterator[Scenario]:
    """Yield all scenarios with a single member."""
    for version in (5, 7, 8, 9):
        yield Scenario(f"static member {version} rejoins", _returns(version))
    yield Scenario("static member 9 rejoins with more protocols", _returns(9, BOTH))
    yield Scenario("static member 9 rejoins early", _returns_early)
    yield Scenario("join group 9, again", _joins_again)
    yield Scenario("join group 9, an id not used yet", _pending)
    for version in (0, 3, 9):
        yield Scenario(f"join group {version}, session timeouts", _sessions(version))
    yield Scenario("offset commit 8, by a member and by others", _commits)
