"""Group membership in the coordinator's state, with a stopped clock."""

from collections.abc import Mapping
from typing import Any, Self

import pytest

from spark_kafka_sink.broker.coordinator.classic_group import (
    ClassicGroup,
    ClassicGroupState,
    JoinRequest,
)
from spark_kafka_sink.broker.coordinator.group_coordinator import GroupCoordinator
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode


def joining(member_id: str = "", **changes: Any) -> JoinRequest:
    fields: dict[str, Any] = {
        "instance_id": None,
        "client_id": "c",
        "client_host": "/h",
        "session_timeout": 10.0,
        "rebalance_timeout": 60.0,
        "protocol_type": "consumer",
        "protocols": {"range": b"r", "sticky": b"s"},
        "needs_known_id": False,
    }
    return JoinRequest(member_id=member_id, **(fields | changes))


class Client:
    """Joins and syncs, and keeps the responses."""

    def __init__(self, group: ClassicGroup, **changes: Any) -> None:
        self.group, self.changes = group, changes
        self.id = ""
        # Fields of the responses; None while they are pending.
        self.joined: Any = None
        self.synced: Any = None

    def join(self, now: float = 0.0) -> Self:
        self.joined = None
        self.group.join(joining(self.id, **self.changes), self._joined, now)
        return self

    def _joined(self, values: Mapping[str, Any]) -> None:
        self.joined = values
        self.id = values["member_id"]

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> ErrorCode:
        self.synced = None
        return self.group.sync(self.id, assignments or {}, self._synced)

    def _synced(self, values: Mapping[str, Any]) -> None:
        self.synced = values


Pair = tuple[Client, Client]


def group_named(groups: GroupCoordinator, name: str) -> ClassicGroup:
    group = groups.find(name)
    assert group is not None
    return group


@pytest.fixture
def group() -> ClassicGroup:
    return ClassicGroup(id="g")


@pytest.fixture
def pair(group: ClassicGroup) -> Pair:
    """Create two members of a stable group; the first is the leader."""
    first, second = Client(group).join(), Client(group)
    second.join()
    first.join()
    assert second.sync() is ErrorCode.none
    assert second.synced is None
    first.sync({first.id: b"1", second.id: b"2"})
    return first, second


def test_assignments_reach_all_members(group: ClassicGroup, pair: Pair) -> None:
    first, second = pair
    assert (first.synced["assignment"], second.synced["assignment"]) == (b"1", b"2")
    assert group.state is ClassicGroupState.STABLE
    assert [m["member_id"] for m in first.joined["members"]] == [first.id, second.id]
    assert second.joined["members"] == []


def test_common_protocol_is_chosen(group: ClassicGroup) -> None:
    first = Client(group).join()
    second = Client(group, protocols={"sticky": b"x"})
    second.join()
    assert first.join().joined["protocol_name"] == "sticky"


def test_other_members_are_notified_of_a_rebalance(group: ClassicGroup, pair: Pair) -> None:
    first, second = pair
    Client(group).join()
    assert group.heartbeat(first.id, 0.0) is ErrorCode.rebalance_in_progress
    assert second.sync() is ErrorCode.rebalance_in_progress
    assert group.check(first.id, 1) is ErrorCode.illegal_generation


def test_rejoining_follower_causes_no_rebalance(group: ClassicGroup, pair: Pair) -> None:
    _, second = pair
    generation = group.generation
    assert second.join().joined["generation_id"] == generation
    assert group.state is ClassicGroupState.STABLE


def test_leader_can_request_a_rebalance(group: ClassicGroup, pair: Pair) -> None:
    first, second = pair
    assert first.join().joined is None
    assert second.join().joined["generation_id"] == group.generation == 3


def test_expired_members_are_removed(group: ClassicGroup, pair: Pair) -> None:
    first, _ = pair
    group.heartbeat(first.id, 8.0)
    group.tick(11.0)
    assert list(group.members) == [first.id]
    assert group.heartbeat(first.id, 11.0) is ErrorCode.rebalance_in_progress
    first.join(12.0)
    assert first.joined["generation_id"] == 3


def test_rebalance_times_out(group: ClassicGroup, pair: Pair) -> None:
    first, second = pair
    third = Client(group).join(now=1.0)
    for now in (5.0, 14.0, 23.0, 32.0, 41.0, 50.0, 59.0):
        group.heartbeat(first.id, now)
        group.heartbeat(second.id, now)
        group.tick(now)
        assert third.joined is None
    group.heartbeat(first.id, 61.5)
    group.heartbeat(second.id, 61.5)
    group.tick(61.5)
    assert third.joined["leader"] == third.id
    assert list(group.members) == [third.id]


def test_last_member_leaves_an_empty_group(group: ClassicGroup, pair: Pair) -> None:
    group.remove([client.id for client in pair], 0.0)
    assert (group.state, group.members) == (ClassicGroupState.EMPTY, {})


class TestStaticMembers:
    """KIP-345 in the coordinator's state; test_static_members.py also uses a real Kafka."""

    @pytest.fixture
    def stable(self, group: ClassicGroup) -> list[Client]:
        """Create a leader `i` and a follower `j` with assignments."""
        members = [Client(group, instance_id="i").join(), Client(group, instance_id="j")]
        members[1].join()
        members[0].join()
        members[0].sync({members[0].id: b"1", members[1].id: b"2"})
        members[1].sync()
        return members

    @pytest.mark.parametrize(("number", "skips"), [(0, True), (0, False), (1, True), (1, False)])
    def test_returning_member_keeps_its_assignment(
        self, group: ClassicGroup, stable: list[Client], number: int, skips: bool
    ) -> None:
        """An old client that led must not notice: it would assign again (KAFKA-13435)."""
        former, generation = stable[number], group.generation
        ids = list(group.members)
        back = Client(group, instance_id="ij"[number], may_skip_assignment=skips).join()
        assert back.id != former.id
        assert (group.state, group.generation) == (ClassicGroupState.STABLE, generation)
        assert back.joined["generation_id"] == generation
        assert back.joined.get("skip_assignment", False) is (skips and number == 0)
        led = stable[0].id if number == 1 or not skips else back.id
        assert back.joined["leader"] == led
        assert len(back.joined["members"]) == (2 if skips and number == 0 else 0)
        assert list(group.members)[number] == back.id
        assert list(group.members)[1 - number] == ids[1 - number]
        assert back.sync() is ErrorCode.none
        assert back.synced["assignment"] == (b"1", b"2")[number]
        assert group.heartbeat(stable[1 - number].id, 0.0) is ErrorCode.none

    def test_replaced_member_is_fenced_everywhere(
        self, group: ClassicGroup, stable: list[Client]
    ) -> None:
        former = stable[1]
        Client(group, instance_id="j").join()
        fenced = ErrorCode.fenced_instance_id
        assert group.check(former.id, group.generation, "j") is fenced
        assert group.leave(former.id, "j", 0.0) is fenced
        former.changes["instance_id"] = "j"
        assert former.join().joined["error_code"] is fenced
        assert group.check(former.id, group.generation) is ErrorCode.unknown_member_id
        assert group.check(former.id, group.generation, "k") is ErrorCode.unknown_member_id

    def test_changed_protocols_cause_a_rebalance(
        self, group: ClassicGroup, stable: list[Client]
    ) -> None:
        back = Client(group, instance_id="j", protocols={"sticky": b"x"}).join()
        assert back.joined is None
        assert group.state is ClassicGroupState.PREPARING_REBALANCE
        stable[0].join()
        assert back.joined["protocol_name"] == "sticky"  # type: ignore[index]

    def test_absent_static_member_survives_a_rebalance(
        self, group: ClassicGroup, stable: list[Client]
    ) -> None:
        """It stays until its session expires, even if the rebalance ends earlier."""
        leader, absent = stable
        Client(group, rebalance_timeout=5.0).join(now=1.0)
        leader.join(2.0)
        group.heartbeat(absent.id, 60.0)
        group.tick(61.5)
        assert absent.id in group.members
        assert leader.joined["generation_id"] == group.generation
        group.tick(200.0)
        assert absent.id not in group.members


def test_pending_member_is_waited_for_and_dropped(group: ClassicGroup, pair: Pair) -> None:
    """A rebalance waits one session timeout for it (KIP-394); it may also leave."""
    late = Client(group, needs_known_id=True).join(now=0.0)
    gone = Client(group, needs_known_id=True).join(now=0.0)
    Client(group).join(now=1.0)
    for client in pair:
        client.join(2.0)
    assert group.leave(gone.id, None, 2.0) is ErrorCode.none
    assert pair[0].joined is None
    group.tick(10.5)
    assert pair[0].joined["generation_id"] == 3  # type: ignore[index]
    assert late.join(11.0).joined["error_code"] is ErrorCode.unknown_member_id


def test_member_that_never_syncs_is_removed(group: ClassicGroup) -> None:
    first, second = Client(group).join(), Client(group)
    second.join()
    first.join()
    for now in (5.0, 14.0, 23.0, 32.0, 41.0, 50.0, 59.0):
        group.heartbeat(first.id, now)
        group.heartbeat(second.id, now)
    first.sync({})
    group.tick(59.5)
    assert len(group.members) == 2
    group.tick(60.5)
    assert list(group.members) == [first.id]


def test_leader_that_joins_twice_before_assigning_changes_nothing(group: ClassicGroup) -> None:
    first, second = Client(group).join(), Client(group)
    second.join()
    generation = first.join().joined["generation_id"]
    again = first.join().joined
    assert (again["generation_id"], len(again["members"])) == (generation, 2)


def test_sessions_are_not_checked_early() -> None:
    groups = GroupCoordinator()
    assert groups.next_deadline() is None
    only = Client(groups.get_or_create("g")).join(now=3.0)
    assert groups.next_deadline() == 13.0
    only.sync({})
    groups.get_or_create("g").heartbeat(only.id, 5.0)
    assert groups.next_deadline() == 15.0
    groups.tick(14.9)
    assert only.id in group_named(groups, "g").members
    groups.tick(15.0)
    assert group_named(groups, "g").state is ClassicGroupState.EMPTY
