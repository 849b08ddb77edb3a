"""Produce: which batches are appended, and the errors of the others."""

from collections.abc import Sequence
from typing import Any

import pytest

from spark_kafka_sink.kafka.protocol.acl import AclOperation
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.unit.broker.handlers.in_process import InProcessClient
from tools.support.raw_client import TIMEOUT, batch, fetch, offsets, produce

SEVERAL = batch(1) * 2
"""Two batches where only one is valid."""


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


@pytest.mark.parametrize(
    ("acks", "code"),
    [(-1, ErrorCode.none), (1, ErrorCode.none), (2, ErrorCode.invalid_required_acks)],
)
def test_acks(acks: int, code: ErrorCode) -> None:
    client = InProcessClient(topics={"t": 1})
    assert produce(client, "t", batch(2), acks).error_code is code


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


@pytest.mark.parametrize(
    ("batches", "code", "appended"),
    [
        ([batch(1), batch(2)], ErrorCode.none, [0, 1]),
        ([batch(2), SEVERAL], ErrorCode.invalid_record, [0, 1]),
        ([SEVERAL, batch(2)], ErrorCode.invalid_record, [0, 1]),
        ([SEVERAL, SEVERAL], ErrorCode.invalid_record, []),
    ],
)
def test_last_valid_batch_of_a_partition_is_appended(
    batches: Sequence[bytearray], code: ErrorCode, appended: list[int]
) -> None:
    """The error of another batch is returned although the last valid one is appended."""
    client = InProcessClient(topics={"t": 1})
    (answer,) = produced(client, *(("t", 0, data) for data in batches))
    assert answer.error_code is code
    assert offsets(fetch(client, "t", 0).records) == appended
