"""Offsets of a group that has a member."""

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.unit.broker.handlers.in_process import InProcessClient, join_group


def test_only_members_commit() -> None:
    client = InProcessClient(topics={"t": 1})
    join_group(client)
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [partition]}]
    outsider = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}
    committed = client.call(ApiKey.OFFSET_COMMIT, 2, topics=topics, **outsider).topics[0]
    assert committed.partitions[0].error_code is ErrorCode.unknown_member_id


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    client = InProcessClient(topics={"t": 1, "other": 1})
    join_group(client)
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "other")]
    deleted = client.call(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics).topics
    assert [topic.partitions[0].error_code for topic in deleted] == [
        ErrorCode.group_subscribed_to_topic,
        ErrorCode.none,
    ]
