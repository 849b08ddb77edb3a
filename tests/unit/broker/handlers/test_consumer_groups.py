"""Groups with one member: joining, listing, leaving and deletion."""

from datetime import timedelta
from typing import Any

import pytest

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.unit.broker.handlers.in_process import InProcessClient, join_group


@pytest.fixture
def client() -> InProcessClient:
    return InProcessClient(topics={"t": 1})


@pytest.mark.parametrize("seconds", [5, 1_801])
def test_session_timeout_is_limited(client: InProcessClient, seconds: int) -> None:
    joined = join_group(client, session_timeout=timedelta(seconds=seconds))
    assert joined.error_code is ErrorCode.invalid_session_timeout


def test_group_with_members_is_not_deleted(client: InProcessClient) -> None:
    def delete() -> Any:
        return client.call(ApiKey.DELETE_GROUPS, 1, groups_names=["g"]).results[0].error_code

    member = join_group(client).member_id
    assert delete() is ErrorCode.non_empty_group
    leaving = [{"member_id": member}, {"member_id": "unknown"}]
    left = client.call(ApiKey.LEAVE_GROUP, 3, group_id="g", members=leaving)
    assert [item.error_code for item in left.members] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
    ]
    assert delete() is ErrorCode.none


@pytest.mark.parametrize(("state", "listed"), [("Stable", []), ("CompletingRebalance", ["g"])])
def test_groups_are_listed_by_state(client: InProcessClient, state: str, listed: list[str]) -> None:
    join_group(client)
    groups = client.call(ApiKey.LIST_GROUPS, 4, states_filter=[state]).groups
    assert [group.group_id for group in groups] == listed
