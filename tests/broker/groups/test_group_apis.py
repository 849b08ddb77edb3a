"""Raw requests of all group API versions to a real Kafka and to the embedded broker."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.waiting import retry
from tools.support.raw_client import RawClient

SESSION = timedelta(seconds=10)
LATEST = {
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.DESCRIBE_GROUPS: 6,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.DELETE_GROUPS: 2,
}
OLDEST = {ApiKey.OFFSET_COMMIT: 2, ApiKey.OFFSET_FETCH: 1}
LOADING = {
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_coordinator,
}


class GroupMember:
    """The only member of a group, which uses version `level` of each API if it exists."""

    def __init__(self, raw: RawClient, group: str, level: int) -> None:
        self.raw, self.group, self.level = raw, group, level
        self.id, self.generation = "", -1

    def call(self, api: ApiKey, **values: Any) -> Any:
        version = min(max(self.level, OLDEST.get(api, 0)), LATEST[api])
        return self.raw.call(api, version, group_id=self.group, **values)

    def find_coordinator(self) -> Any:
        def call() -> Any:
            keys = {"key": self.group, "coordinator_keys": [self.group]}
            response = self.call(ApiKey.FIND_COORDINATOR, **keys)
            return response if self.level < 4 else response.coordinators[0]

        return retry(call, lambda response: response.error_code, LOADING)

    def join(self) -> Any:
        values = {
            "session_timeout": SESSION,
            "rebalance_timeout": SESSION,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"meta"}],
        }
        response = retry(
            lambda: self.call(ApiKey.JOIN_GROUP, member_id=self.id, **values),
            lambda response: response.error_code,
            LOADING,
        )
        self.id, self.generation = response.member_id, response.generation_id
        return response

    def as_member(self, api: ApiKey, **values: Any) -> Any:
        changes = {"member_id": self.id, "generation_id": self.generation} | values
        return self.call(api, generation_id_or_member_epoch=changes["generation_id"], **changes)


@pytest.fixture(params=range(10))
def member(request: pytest.FixtureRequest, any_raw: RawClient, topic: str) -> GroupMember:
    member = GroupMember(any_raw, f"group-{topic}", request.param)
    member.find_coordinator()
    first = member.join()
    if member.level >= 4:
        assert first.error_code is ErrorCode.member_id_required
        first = member.join()
    assert (first.error_code, first.leader) == (ErrorCode.none, member.id)
    assert [one.metadata for one in first.members] == [b"meta"]
    return member


def test_member_lifecycle(member: GroupMember, topic: str) -> None:
    mine = [{"member_id": member.id, "assignment": b"mine"}]
    values = {"protocol_type": "consumer", "protocol_name": "range", "assignments": mine}
    synced = member.as_member(ApiKey.SYNC_GROUP, **values)
    assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"mine")
    assert member.as_member(ApiKey.HEARTBEAT).error_code is ErrorCode.none
    check_offsets(member, topic)
    check_described(member, "Stable", 1)
    check_errors(member)
    left = member.call(ApiKey.LEAVE_GROUP, member_id=member.id, members=[{"member_id": member.id}])
    assert left.error_code is ErrorCode.none
    assert [m.error_code for m in getattr(left, "members", ())] == ([0] if member.level > 2 else [])
    check_described(member, "Empty", 0)
    deleted = member.call(ApiKey.DELETE_GROUPS, groups_names=[member.group])
    assert [result.error_code for result in deleted.results] == [ErrorCode.none]


def check_offsets(member: GroupMember, topic: str) -> None:
    partition = {
        "partition_index": 0,
        "committed_offset": 42,
        "committed_leader_epoch": 0,
        "committed_metadata": "here",
    }
    topics = [{"name": topic, "partitions": [partition]}]
    committed = member.as_member(ApiKey.OFFSET_COMMIT, topics=topics)
    assert committed.topics[0].partitions[0].error_code is ErrorCode.none
    named = [{"name": topic, "partition_indexes": [0]}]
    for requested in (named, None) if member.level >= 2 else (named,):
        found = fetch_offsets(member, requested)
        (partition,) = found.topics[0].partitions
        assert (found.topics[0].name, partition.committed_offset) == (topic, 42)
        assert partition.metadata == "here"
    missing = fetch_offsets(member, [{"name": topic, "partition_indexes": [7]}])
    assert missing.topics[0].partitions[0].committed_offset == -1


def fetch_offsets(member: GroupMember, topics: Sequence[dict[str, Any]] | None) -> Any:
    group = {"group_id": member.group, "topics": topics, "member_epoch": -1}
    found = member.call(ApiKey.OFFSET_FETCH, topics=topics, groups=[group])
    return found if member.level < 8 else found.groups[0]


def check_described(member: GroupMember, state: str, members: int) -> None:
    (found,) = member.call(ApiKey.DESCRIBE_GROUPS, groups=[member.group]).groups
    assert (found.error_code, found.group_state) == (ErrorCode.none, state)
    assert len(found.members) == members
    listed = member.call(ApiKey.LIST_GROUPS).groups
    assert member.group in {group.group_id for group in listed}


def check_errors(member: GroupMember) -> None:
    response = member.as_member(ApiKey.HEARTBEAT, generation_id=member.generation + 5)
    assert response.error_code is ErrorCode.illegal_generation
    response = member.as_member(ApiKey.HEARTBEAT, member_id="stranger")
    assert response.error_code is ErrorCode.unknown_member_id
    named = {"protocol_type": "consumer", "protocol_name": "range"}
    response = member.as_member(ApiKey.SYNC_GROUP, member_id="stranger", **named)
    assert response.error_code is ErrorCode.unknown_member_id
    if member.level >= 5:
        for wrong in ({}, {"protocol_type": "consumer", "protocol_name": "other"}):
            response = member.as_member(ApiKey.SYNC_GROUP, **wrong)
            assert response.error_code is ErrorCode.inconsistent_group_protocol
    deleted = member.call(ApiKey.DELETE_GROUPS, groups_names=[member.group])
    assert [result.error_code for result in deleted.results] == [ErrorCode.non_empty_group]
