"""Committed offsets with topic IDs: OffsetCommit 10, OffsetFetch 10."""

from typing import Any
from uuid import UUID

import pytest

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.waiting import retry, wait_until
from tools.support.raw_client import TIMEOUT, RawClient

UNKNOWN_TOPIC_ID = UUID(int=77)
NOT_YET = {
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_load_in_progress,
}


def commit(
    raw: RawClient, group: str, topic_id: UUID, offset: int, metadata: str = "m"
) -> ErrorCode:
    """Commit without a member ID; retry until Kafka's coordinator is available."""
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": 0,
        "committed_metadata": metadata,
    }
    request = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"topic_id": topic_id, "partitions": [partition]}],
    }

    def call() -> Any:
        raw.call(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=[group], key_type=0)
        return raw.call(ApiKey.OFFSET_COMMIT, 10, **request).topics[0]

    committed = retry(call, lambda topic: topic.partitions[0].error_code, NOT_YET)
    assert committed.topic_id == topic_id
    result: ErrorCode = committed.partitions[0].error_code
    return result


def fetch(raw: RawClient, group: str, *topic_ids: UUID) -> dict[UUID, tuple[ErrorCode, int, str]]:
    topics = [{"topic_id": topic_id, "partition_indexes": [0]} for topic_id in topic_ids] or None
    groups = [{"group_id": group, "topics": topics}]
    response = raw.call(ApiKey.OFFSET_FETCH, 10, groups=groups)
    return {
        topic.topic_id: (
            topic.partitions[0].error_code,
            topic.partitions[0].committed_offset,
            topic.partitions[0].metadata,
        )
        for topic in response.groups[0].topics
    }


def with_topic(value: Any, topic: str) -> Any:
    """Insert the name of a topic into a request."""
    if isinstance(value, dict):
        return {key: with_topic(item, topic) for key, item in value.items()}
    if isinstance(value, list):
        return [with_topic(item, topic) for item in value]
    return value.format(topic=topic) if isinstance(value, str) else value


def next_transaction(raw: RawClient, topic: str) -> dict[str, Any]:
    """Return ID and epoch of a producer that can start a transaction."""
    request = {"transactional_id": f"id-{topic}", "transaction_timeout": TIMEOUT}

    def call() -> Any:
        raw.call(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=[f"id-{topic}"], key_type=1)
        return raw.call(ApiKey.INIT_PRODUCER_ID, 4, **request, producer_id=-1, producer_epoch=-1)

    retried = {*NOT_YET, ErrorCode.concurrent_transactions}
    response = retry(call, lambda response: response.error_code, retried)
    assert response.error_code is ErrorCode.none
    return {
        "transactional_id": f"id-{topic}",
        "producer_id": response.producer_id,
        "producer_epoch": response.producer_epoch,
    }


def begin(raw: RawClient, group: str, topic: str) -> dict[str, Any]:
    """Start a transaction that contains an offset of the group."""
    producer = next_transaction(raw, topic)
    added = raw.call(ApiKey.ADD_OFFSETS_TO_TXN, 3, **producer, group_id=group)
    assert added.error_code is ErrorCode.none
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    pending = raw.call(
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        **producer,
        group_id=group,
        generation_id=-1,
        member_id="",
        topics=[{"name": topic, "partitions": [partition]}],
    )
    assert pending.topics[0].partitions[0].error_code is ErrorCode.none
    return producer


def committed(raw: RawClient, group: str) -> list[str]:
    """Return the topics with committed offsets of a group."""
    response = raw.call(ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": group, "topics": None}])
    return [topic.name for topic in response.groups[0].topics]


def test_deleted_topic_has_no_offsets(any_raw: RawClient, topic: str) -> None:
    """Otherwise a group would skip the first records of a new topic with the same name."""
    group = f"group-{topic}"
    topic_id = any_raw.call(ApiKey.METADATA, 12, topics=[{"name": topic}]).topics[0].topic_id
    assert commit(any_raw, group, topic_id, 5) is ErrorCode.none
    deleted = any_raw.call(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout=TIMEOUT)
    assert deleted.responses[0].error_code is ErrorCode.none
    wait_until(lambda: not committed(any_raw, group))


@pytest.mark.parametrize(
    ("api", "version", "deleted"),
    [
        (ApiKey.DELETE_TOPICS, 5, {"topic_names": ["{topic}"], "timeout": TIMEOUT}),
        (
            ApiKey.OFFSET_DELETE,
            0,
            {
                "group_id": "group-{topic}",
                "topics": [{"name": "{topic}", "partitions": [{"partition_index": 0}]}],
            },
        ),
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": ["group-{topic}"]}),
    ],
)
def test_transaction_does_not_restore_deleted_offsets(
    any_raw: RawClient, topic: str, api: ApiKey, version: int, deleted: dict[str, Any]
) -> None:
    group = f"group-{topic}"
    topic_id = any_raw.call(ApiKey.METADATA, 12, topics=[{"name": topic}]).topics[0].topic_id
    assert commit(any_raw, group, topic_id, 1) is ErrorCode.none
    producer = begin(any_raw, group, topic)
    any_raw.call(api, version, **with_topic(deleted, topic))
    wait_until(lambda: not committed(any_raw, group))
    ended = any_raw.call(ApiKey.END_TXN, 3, **producer, committed=True)
    assert ended.error_code is ErrorCode.none
    next_transaction(any_raw, topic)  # This succeeds when the last transaction has completed.
    assert committed(any_raw, group) == []


def test_offsets_by_id(any_raw: RawClient, topic: str) -> None:
    group = f"group-{topic}"
    topic_id = any_raw.call(ApiKey.METADATA, 12, topics=[{"name": topic}]).topics[0].topic_id
    assert commit(any_raw, group, topic_id, 5) is ErrorCode.none
    good = (ErrorCode.none, 5, "m")
    assert fetch(any_raw, group, topic_id) == {topic_id: good}
    assert fetch(any_raw, group) == {topic_id: good}
    missing = (ErrorCode.unknown_topic_id, -1, "")
    assert fetch(any_raw, group, topic_id, UNKNOWN_TOPIC_ID) == {
        topic_id: good,
        UNKNOWN_TOPIC_ID: missing,
    }
    assert commit(any_raw, group, UNKNOWN_TOPIC_ID, 5) is ErrorCode.unknown_topic_id
    long = commit(any_raw, group, topic_id, 6, "x" * 4097)
    assert long is ErrorCode.offset_metadata_too_large
    assert fetch(any_raw, group, topic_id) == {topic_id: good}
