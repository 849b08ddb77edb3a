"""Scenarios with groups, their members and offsets, producer ids and authorized operations."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tools.compat.scenarios.scenario import OWN, Action, Scenario, ScenarioRun, action, asks

RANGE = ({"name": "range", "metadata": b"m"},)
BOTH = (*RANGE, {"name": "sticky", "metadata": b"s"})
_OTHER = ({"name": "other", "metadata": b"o"},)
_JOIN: dict[str, Any] = {
    "group_id": OWN,
    "session_timeout": timedelta(seconds=10),
    "rebalance_timeout": timedelta(seconds=5),
    "protocol_type": "consumer",
    "protocols": RANGE,
    "member_id": "",
}
_PRODUCER_IDS: dict[str, dict[str, Any]] = {
    "a new one": {},
    "an old id": {"producer_id": 5, "producer_epoch": 3},
    "an id without epoch": {"producer_id": 5, "producer_epoch": -1},
    "an empty transactional id": {"transactional_id": ""},
}
_UNKNOWN_MEMBERS = {
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.OFFSET_COMMIT: (2, 8),
}


class Member:
    """A group member that uses one JoinGroup version, and matching versions of other requests."""

    def __init__(self, run: ScenarioRun, version: int, instance: str | None = None) -> None:
        self.run = run
        self.version = version
        self.instance = instance
        self.id = ""
        self.generation = -1

    def join(self, protocols: Any = RANGE, **changes: Any) -> None:
        """Join the group. If the response only assigns a member ID, join again with it."""
        own = {"protocols": protocols, "group_instance_id": self.instance, "member_id": self.id}
        self.run.ask(ApiKey.JOIN_GROUP, self.version, **_JOIN | own | changes)
        answer = self.run.last
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
        self.ask(ApiKey.SYNC_GROUP, min(self.version, 5), **values | changes)

    def ask(self, api: ApiKey, version: int, **changes: Any) -> None:
        """Send a request as this member."""
        values = {
            "group_id": OWN,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "generation_id": self.generation,
            "generation_id_or_member_epoch": self.generation,
        }
        self.run.ask(api, version, **values | changes)

    def heartbeat(self, **changes: Any) -> None:
        self.ask(ApiKey.HEARTBEAT, 3, **changes)

    def commit(self, **changes: Any) -> None:
        """Commit an offset."""
        partitions = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        topics = [{"name": OWN, "partitions": partitions}]
        self.ask(ApiKey.OFFSET_COMMIT, 8, topics=topics, **changes)

    def leave(self, member_id: str, instance: str | None) -> None:
        """Remove a member from the group."""
        member = {"member_id": member_id, "group_instance_id": instance}
        self.ask(ApiKey.LEAVE_GROUP, 4, members=[member])

    def describe(self) -> None:
        self.run.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=[OWN])


@action
def _coordinator(run: ScenarioRun, version: int) -> None:
    values = {"key": OWN, "coordinator_keys": [OWN], "key_type": 0}
    patience = ErrorCode.coordinator_not_available
    run.wait_for(ApiKey.FIND_COORDINATOR, version, patience, **values)
    run.ask(ApiKey.FIND_COORDINATOR, version, **values)
    if version >= 1:
        run.ask(ApiKey.FIND_COORDINATOR, version, **values | {"key_type": 9})
    empty = values | {"key": "", "coordinator_keys": []}
    run.ask(ApiKey.FIND_COORDINATOR, version, **empty)


def _unknown_members(api: ApiKey, version: int) -> Action:
    """Send group requests with unknown member IDs."""
    common = {"generation_id": 3, "topics": []}
    common |= {"protocol_type": "consumer", "protocol_name": "range"}
    requests = (
        common | {"group_id": group, "member_id": member, "members": [{"member_id": member}]}
        for group, member in ((OWN, "x"), (OWN, ""), ("", "x"))
    )
    return asks(api, version, *requests, group=True)


def _joins(version: int) -> Action:
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"member_id": "unknown"},
        {"session_timeout": timedelta(milliseconds=5)},
        {"group_id": ""},
        {"protocols": []},
    )
    return asks(ApiKey.JOIN_GROUP, version, *(_JOIN | change for change in changes), group=True)


@action
def _offsets(run: ScenarioRun, version: int) -> None:
    """Commit offsets of a group without members, and read them back."""
    run.find_group()
    run.create(2)
    partitions = [
        {"partition_index": i, "committed_offset": o, "committed_metadata": m}
        for i, o, m in ((0, 42, "note"), (1, -1, None), (7, 5, ""))
    ]
    topics = [{"name": OWN, "topic_id": run.topic_id(), "partitions": partitions}]
    values = {"group_id": OWN, "member_id": "", "generation_id_or_member_epoch": -1}
    run.ask(ApiKey.OFFSET_COMMIT, version, **values, topics=topics)
    requested_topics = [{"name": OWN, "partition_indexes": [0, 1, 7]}]
    groups = [{"group_id": OWN, "topics": requested_topics}]
    fetched = min(version, 9)
    run.ask(ApiKey.OFFSET_FETCH, fetched, group_id=OWN, topics=requested_topics, groups=groups)
    run.ask(ApiKey.DESCRIBE_GROUPS, min(version, 6), groups=[OWN, "not-there"])
    run.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[OWN, "not-there"])


@action
def _producer_id(run: ScenarioRun, version: int, values: dict[str, Any]) -> None:
    run.producer()
    usual = {"transactional_id": None, "transaction_timeout": timedelta(seconds=9)}
    run.ask(ApiKey.INIT_PRODUCER_ID, version, **usual | values)


@action
def _returns(run: ScenarioRun, version: int, protocols: Any = RANGE) -> None:
    """Let a static member rejoin with its instance ID, then use its former member ID."""
    run.create()
    run.find_group()
    former = Member(run, version, "i")
    former.join(BOTH if protocols is BOTH else RANGE)
    former.sync()
    back = Member(run, version, "i")
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


@action
def _lifecycle(run: ScenarioRun, level: int) -> None:
    """Be the only member of a group, with the version `level` of each API if it exists."""
    run.create()
    run.find_group()
    member, heartbeats = Member(run, level), min(level, 4)
    member.join()
    member.sync()
    member.sync(protocol_name="other")
    member.sync(member_id="stranger")
    member.ask(ApiKey.HEARTBEAT, heartbeats)
    member.ask(ApiKey.HEARTBEAT, heartbeats, generation_id=member.generation + 5)
    member.ask(ApiKey.HEARTBEAT, heartbeats, member_id="stranger")
    partitions = [{"partition_index": 0, "committed_offset": 42, "committed_metadata": "here"}]
    topics = [{"name": OWN, "partitions": partitions}]
    member.ask(ApiKey.OFFSET_COMMIT, max(2, min(level, 9)), topics=topics)
    fetched: list[Any] = [[{"name": OWN, "partition_indexes": [0, 7]}]]
    for topics in fetched + [None] * (level >= 2):
        groups = [{"group_id": OWN, "topics": topics, "member_epoch": -1}]
        member.ask(ApiKey.OFFSET_FETCH, max(1, min(level, 9)), topics=topics, groups=groups)
    for leaves in (False, True):
        if leaves:
            members = [{"member_id": member.id, "group_instance_id": None}]
            member.ask(ApiKey.LEAVE_GROUP, min(level, 5), members=members)
        run.ask(ApiKey.DESCRIBE_GROUPS, min(level, 6), groups=[OWN])
        listed = run.client.call(ApiKey.LIST_GROUPS, min(level, 5)).groups
        run.seen[f"{leaves} listed"] = run.named(OWN) in {group.group_id for group in listed}
        run.ask(ApiKey.DELETE_GROUPS, min(level, 2), groups_names=[OWN])


def _returns_early(run: ScenarioRun) -> None:
    """Let a static member rejoin before the first assignment."""
    run.find_group()
    former, back = Member(run, 9, "i"), Member(run, 9, "i")
    former.join()
    former.describe()
    back.join()
    former.sync()
    back.sync()
    back.describe()


def _joins_again(run: ScenarioRun) -> None:
    run.find_group()
    member = Member(run, 9)
    member.join()
    member.join()
    member.sync()
    member.join()
    member.describe()
    member.sync()
    member.join(_OTHER)
    member.join(protocol_type="connect")
    member.join(_OTHER, member_id="stranger")
    member.join(member_id="stranger")


@action
def _sessions(run: ScenarioRun, version: int) -> None:
    run.find_group()
    for milliseconds in (-1, 0, 1_000, 5_999, 6_000, 1_800_000, 1_800_001):
        session = timedelta(milliseconds=milliseconds)
        Member(run, version).join(session_timeout=session)
        left = run.last.member_id
        run.client.call(ApiKey.LEAVE_GROUP, 1, group_id=run.topic, member_id=left)


def _commits(run: ScenarioRun) -> None:
    """Commit offsets as a member, as an unknown member, and without a member."""
    run.create()
    run.find_group()
    nobody = Member(run, 9)
    nobody.commit(generation_id_or_member_epoch=3)
    nobody.commit(member_id="stranger")
    nobody.commit()
    member = Member(run, 9)
    member.join()
    member.commit()
    member.sync()
    member.commit()
    nobody.commit()
    nobody.commit(member_id="stranger")
    member.commit(generation_id_or_member_epoch=9)
    member.commit(generation_id_or_member_epoch=-1)


def _pending(run: ScenarioRun) -> None:
    """Send requests with an assigned member ID that has not joined yet."""
    run.find_group()
    member = Member(run, 9)
    run.ask(ApiKey.JOIN_GROUP, 9, **_JOIN)
    member.id = run.last.member_id
    member.heartbeat()
    member.sync()
    member.describe()
    member.leave(member.id, None)
    member.leave(member.id, None)
    member.join()


def _delete_offsets(run: ScenarioRun) -> None:
    """Delete offsets of a missing group, a group with offsets, and a group with a member."""
    run.create(2)
    run.find_group()

    def delete(group: str, *places: tuple[str, int]) -> None:
        topics = [{"name": n, "partitions": [{"partition_index": i}]} for n, i in places]
        run.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)

    places = ((OWN, 0), ("not-there", 0))
    delete(OWN, *places)
    delete("", *places)
    nobody = Member(run, 9)
    nobody.commit()
    delete(OWN, *places)
    delete(OWN, (OWN, 9), ("no/name", 0))
    delete(OWN)
    nobody.describe()
    subscription = b"\0\0" + b"\0\0\0\x01" + len(run.topic).to_bytes(2) + run.topic.encode()
    member = Member(run, 9)
    member.join([{"name": "range", "metadata": subscription + b"\xff\xff\xff\xff"}])
    delete(OWN, *places)
    member.sync()
    member.commit()
    delete(OWN, *places)
    member.leave(member.id, None)
    delete(OWN, *places)
    other = Member(run, 9)
    other.join(protocol_type="connect")
    delete(OWN, *places)


def _operations(run: ScenarioRun) -> None:
    """Request the bit fields of authorized operations."""
    run.create()
    run.find_group()
    Member(run, 9).commit()
    both = {
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
        "allow_auto_topic_creation": False,
    }
    for version in (8, 10, 11, 13):
        topics = [{"name": OWN}, {"name": "not-there"}, {"name": "a/b"}]
        run.ask(ApiKey.METADATA, version, topics=topics, **both)
    for version in range(3):
        run.ask(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=1, **both)
    for version in range(3, 7):
        request = {"groups": [OWN, "not-there"], "include_authorized_operations": True}
        run.ask(ApiKey.DESCRIBE_GROUPS, version, **request)
    topics = [{"name": OWN}, {"name": "not-there"}]
    run.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, response_partition_limit=9)


def _member_scenarios() -> Iterator[Scenario]:
    for level in range(10):
        yield Scenario(f"group member {level}, from join to leave", _lifecycle(level))
    for version in (5, 7, 8, 9):
        yield Scenario(f"static member {version} rejoins", _returns(version))


def group_scenarios() -> Iterator[Scenario]:
    """Yield all scenarios of this module."""
    for version in range(7):
        yield Scenario(f"find coordinator {version}", _coordinator(version))
    for api, versions in _UNKNOWN_MEMBERS.items():
        for version in versions:
            name = api.name.lower().replace("_", " ")
            yield Scenario(f"{name} {version}, unknown members", _unknown_members(api, version))
    for version in (0, 3, 4, 5, 9):
        yield Scenario(f"join group {version}", _joins(version))
    for version in (2, 5, 8, 9):
        yield Scenario(f"offset commit {version}", _offsets(version))
    for version in range(6):
        for name, values in _PRODUCER_IDS.items():
            yield Scenario(f"init producer id {version}, {name}", _producer_id(version, values))
    yield from _member_scenarios()
    yield Scenario("static member 9 rejoins with more protocols", _returns(9, BOTH))
    yield Scenario("static member 9 rejoins early", _returns_early)
    yield Scenario("join group 9, again", _joins_again)
    yield Scenario("join group 9, an id not used yet", _pending)
    for version in (0, 3, 9):
        yield Scenario(f"join group {version}, session timeouts", _sessions(version))
    yield Scenario("offset commit 8, by a member and by others", _commits)
    yield Scenario("offset delete 0", _delete_offsets)
    yield Scenario("authorized operations", _operations)
