"""Group membership on the state itself, with a clock that stands still."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.groups import Group, GroupState
from spark_kafka_sink.broker.members import Joining


def joining(member_id="", **changes):
    fields = {
        "instance_id": None,
        "client_id": "c",
        "client_host": "/h",
        "session_timeout": 10.0,
        "rebalance_timeout": 60.0,
        "protocol_type": "consumer",
        "protocols": {"range": b"r", "sticky": b"s"},
        "needs_known_id": False,
    }
    return Joining(member_id=member_id, **(fields | changes))


class Client:
    """Joins and syncs, and keeps the answers."""

    def __init__(self, group, **changes):
        self.group, self.changes = group, changes
        self.id, self.joined, self.synced = "", None, None

    def join(self, now=0.0):
        self.joined = None
        self.group.join(joining(self.id, **self.changes), self._joined, now)
        return self

    def _joined(self, values):
        self.joined = values
        self.id = values["member_id"]

    def sync(self, assignments=None):
        self.synced = None
        return self.group.sync(self.id, assignments or {}, self._synced)

    def _synced(self, values):
        self.synced = values


@pytest.fixture
def group():
    return Group(id="g")


@pytest.fixture
def pair(group):
    """Two members of a stable group; the first leads."""
    first, second = Client(group).join(), Client(group)
    second.join()
    first.join()
    assert second.sync() is ErrorCode.none
    assert second.synced is None
    first.sync({first.id: b"1", second.id: b"2"})
    return first, second


def test_the_only_member_leads_at_once(group):
    only = Client(group).join()
    assert (only.joined["generation_id"], only.joined["leader"]) == (1, only.id)
    assert only.joined["protocol_name"] == "range"
    assert [m["metadata"] for m in only.joined["members"]] == [b"r"]


def test_assignments_reach_everybody(group, pair):
    first, second = pair
    assert (first.synced["assignment"], second.synced["assignment"]) == (b"1", b"2")
    assert group.state is GroupState.STABLE
    assert [m["member_id"] for m in first.joined["members"]] == [first.id, second.id]
    assert second.joined["members"] == []


def test_an_id_comes_first_where_the_client_knows_how(group):
    client = Client(group, needs_known_id=True).join()
    assert client.joined["error_code"] is ErrorCode.member_id_required
    assert not group.members
    client.join()
    assert client.joined["generation_id"] == 1


def test_ids_that_nobody_gave_out(group):
    client = Client(group)
    client.id = "stranger"
    assert client.join().joined["error_code"] is ErrorCode.unknown_member_id
    assert group.check("stranger", 0) is ErrorCode.unknown_member_id


def test_protocols_need_something_in_common(group):
    Client(group).join()
    for changes in ({"protocols": {"other": b""}}, {"protocols": {}}, {"protocol_type": "connect"}):
        refused = Client(group, **changes).join()
        assert refused.joined["error_code"] is ErrorCode.inconsistent_group_protocol


def test_the_protocol_that_all_know_wins(group):
    first = Client(group).join()
    second = Client(group, protocols={"sticky": b"x"})
    second.join()
    assert first.join().joined["protocol_name"] == "sticky"


def test_others_hear_of_a_rebalance(group, pair):
    first, second = pair
    Client(group).join()
    assert group.heartbeat(first.id, 0.0) is ErrorCode.rebalance_in_progress
    assert second.sync() is ErrorCode.rebalance_in_progress
    assert group.check(first.id, 1) is ErrorCode.illegal_generation


def test_a_follower_that_joins_again_disturbs_nobody(group, pair):
    _, second = pair
    generation = group.generation
    assert second.join().joined["generation_id"] == generation
    assert group.state is GroupState.STABLE


def test_the_leader_can_ask_for_a_rebalance(group, pair):
    first, second = pair
    assert first.join().joined is None
    assert second.join().joined["generation_id"] == group.generation == 3


def test_silent_members_are_removed(group, pair):
    first, _ = pair
    group.heartbeat(first.id, 8.0)
    group.tick(11.0)
    assert list(group.members) == [first.id]
    assert group.heartbeat(first.id, 11.0) is ErrorCode.rebalance_in_progress
    first.join(12.0)
    assert first.joined["generation_id"] == 3


def test_a_rebalance_does_not_wait_for_ever(group, pair):
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


def test_the_last_member_leaves_an_empty_group(group, pair):
    group.remove([client.id for client in pair], 0.0)
    assert (group.state, group.members) == (GroupState.EMPTY, {})


def test_a_static_member_takes_its_own_place(group):
    former = Client(group, instance_id="i").join()
    latter = Client(group, instance_id="i").join()
    assert latter.joined["leader"] == latter.id != former.id
    assert list(group.members) == [latter.id]
