"""Creation of topics and partitions, deletion of records, and reassignments."""

import pytest

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.unit.broker.handlers.in_process import InProcessClient
from tools.support.raw_client import TIMEOUT, batch, create, produce


@pytest.fixture
def client() -> InProcessClient:
    return InProcessClient(topics={"t": 2})


@pytest.mark.parametrize("only_validated", [True, False])
def test_validation_creates_no_topic(client: InProcessClient, only_validated: bool) -> None:
    topic = {"name": "new", "num_partitions": 1, "replication_factor": 1}
    values = {"topics": [topic], "timeout": TIMEOUT, "validate_only": only_validated}
    assert client.call(ApiKey.CREATE_TOPICS, 7, **values).topics[0].error_code is ErrorCode.none
    assert (client.cluster.topics.named("new") is None) == only_validated


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, "has 2 partition(s), more than 1"), (2, "has 2 partition(s)."), (3, None)],
)
def test_only_more_partitions_are_added(
    client: InProcessClient, count: int, expected: str | None
) -> None:
    values = {"topics": [{"name": "t", "count": count}], "timeout": TIMEOUT}
    message = client.call(ApiKey.CREATE_PARTITIONS, 1, **values).results[0].error_message
    assert message is None if expected is None else expected in message


@pytest.mark.parametrize(
    ("policy", "offset", "expected"),
    [
        ("delete", 2, ErrorCode.none),
        ("delete", -1, ErrorCode.none),
        ("delete", 4, ErrorCode.offset_out_of_range),
        ("compact", 2, ErrorCode.policy_violation),
    ],
)
def test_records_below_the_high_watermark_are_deleted(
    client: InProcessClient, policy: str, offset: int, expected: ErrorCode
) -> None:
    create(client, "new", cleanup_policy=policy)
    produce(client, "new", batch(3))
    partitions = [{"partition_index": 0, "offset": offset}]
    values = {"topics": [{"name": "new", "partitions": partitions}], "timeout": TIMEOUT}
    deleted = client.call(ApiKey.DELETE_RECORDS, 1, **values).topics[0].partitions[0]
    assert deleted.error_code is expected


def test_reassignment_keeps_a_fixed_replication_factor(client: InProcessClient) -> None:
    partitions = [{"partition_index": 0, "replicas": [1, 2]}]
    topics = [{"name": "t", "partitions": partitions}]
    values = {"topics": topics, "timeout": TIMEOUT, "allow_replication_factor_change": False}
    reassigned = client.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, **values).responses[0]
    assert reassigned.partitions[0].error_code is ErrorCode.invalid_replication_factor
