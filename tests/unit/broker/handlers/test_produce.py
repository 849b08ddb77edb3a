"""Produce: which batches are appended, and the errors of the others."""

from typing import Any

from spark_kafka_sink.kafka.protocol.acl import AclOperation
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.unit.broker.handlers.in_process import InProcessClient
from tools.support.raw_client import TIMEOUT, batch


def produced(
    client: InProcessClient, *partitions: tuple[str, int, bytearray], acks: int = -1
) -> list[Any]:
    """Send one request with these topics, partitions and batches; return the responses."""
    topics = [
        {"name": topic, "partition_data": [{"index": index, "records": bytes(records)}]}
        for topic, index, records in partitions
    ]
    values = {"acks": acks, "timeout": TIMEOUT, "topic_data": topics}
    response = client.call(ApiKey.PRODUCE, 9, **values)
    return [answer for topic in response.responses for answer in topic.partition_responses]


def test_partitions_fail_independently() -> None:
    client = InProcessClient(topics={"t": 1, "denied": 1})
    client.deny(AclOperation.WRITE, "denied")
    parts = [("t", 0, batch(2)), ("t", 7, batch(1)), ("denied", 0, batch(1)), ("new", 0, batch(1))]
    answers = {answer.error_code: answer.base_offset for answer in produced(client, *parts)}
    assert answers == {
        ErrorCode.none: 0,
        ErrorCode.unknown_topic_or_partition: -1,
        ErrorCode.topic_authorization_failed: -1,
    }
