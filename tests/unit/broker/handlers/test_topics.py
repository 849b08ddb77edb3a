"""Creation, growth and deletion of topics."""

from typing import Any

import pytest

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.unit.broker.handlers.in_process import InProcessClient
from tools.support.raw_client import TIMEOUT, batch, produce

TWICE = [{"partition_index": 0, "broker_ids": [1]}] * 2
UNKNOWN_NODE = [{"partition_index": 0, "broker_ids": [7]}]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, ErrorCode.none),
        ({"name": "t"}, ErrorCode.topic_already_exists),
        ({"name": "a b"}, ErrorCode.invalid_topic_exception),
        ({"num_partitions": 0}, ErrorCode.invalid_partitions),
        ({"replication_factor": 2}, ErrorCode.invalid_replication_factor),
        ({"configs": [{"name": "retention.ms", "value": "x"}]}, ErrorCode.invalid_config),
        ({"configs": [{"name": "no.config", "value": "1"}]}, ErrorCode.invalid_config),
        ({"assignments": TWICE}, ErrorCode.invalid_replica_assignment),
        ({"assignments": UNKNOWN_NODE}, ErrorCode.invalid_replica_assignment),
    ],
)
def test_creation(changes: dict[str, Any], code: ErrorCode) -> None:
    client = InProcessClient(topics={"t": 1})
    new = {"name": "new", "num_partitions": -1, "replication_factor": -1, **changes}
    topics = {"topics": [new], "timeout": TIMEOUT}
    for validate_only in (True, False):
        assert client.cluster.topics.named("new") is None
        created = client.call(ApiKey.CREATE_TOPICS, 7, **topics, validate_only=validate_only)
        assert created.topics[0].error_code is code
    assert (client.cluster.topics.named("new") is not None) == (code is ErrorCode.none)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, ErrorCode.none),
        ({"name": "new"}, ErrorCode.unknown_topic_or_partition),
        ({"count": 2}, ErrorCode.invalid_partitions),
        ({"count": 1}, ErrorCode.invalid_partitions),
        ({"assignments": [{"broker_ids": [1]}] * 2}, ErrorCode.invalid_replica_assignment),
        ({"assignments": [{"broker_ids": [7]}]}, ErrorCode.invalid_replica_assignment),
    ],
)
def test_growth(changes: dict[str, Any], code: ErrorCode) -> None:
    client = InProcessClient(topics={"t": 2})
    item = {"name": "t", "count": 3, "assignments": None, **changes}
    response = client.call(ApiKey.CREATE_PARTITIONS, 3, topics=[item], timeout=TIMEOUT)
    assert response.results[0].error_code is code
    topic = client.cluster.topics.named("t")
    assert topic is not None
    assert len(topic.partitions) == (3 if code is ErrorCode.none else 2)


@pytest.mark.parametrize(
    ("offset", "code", "start"),
    [
        (2, ErrorCode.none, 2),
        (-1, ErrorCode.none, 4),
        (5, ErrorCode.offset_out_of_range, 0),
        (-2, ErrorCode.offset_out_of_range, 0),
    ],
)
def test_deleted_records(offset: int, code: ErrorCode, start: int) -> None:
    client = InProcessClient(topics={"t": 1})
    produce(client, "t", batch(4))
    item = {"name": "t", "partitions": [{"partition_index": 0, "offset": offset}]}
    response = client.call(ApiKey.DELETE_RECORDS, 2, topics=[item], timeout=TIMEOUT)
    assert response.topics[0].partitions[0].error_code is code
    partition = client.cluster.topics.partition("t", 0)
    assert partition is not None
    assert partition.log.start_offset == start
