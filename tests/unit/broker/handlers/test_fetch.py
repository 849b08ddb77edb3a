"""Fetch: the size of a response."""

import pytest

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.unit.broker.handlers.in_process import InProcessClient
from tools.support.raw_client import batch, fetch_values, offsets, produce


@pytest.mark.parametrize("max_bytes", [1, len(batch(2)), len(batch(2)) + 1])
def test_only_the_first_batch_may_exceed_the_size(max_bytes: int) -> None:
    client = InProcessClient(topics={"t": 1, "u": 1})
    for topic in ("t", "u"):
        produce(client, topic, batch(2))
    topics = [item for topic in ("t", "u") for item in fetch_values(topic, 0)["topics"]]
    answer = client.call(
        ApiKey.FETCH, 11, **fetch_values("t", 0, topics=topics, max_bytes=max_bytes)
    )
    fetched = [topic.partitions[0].records for topic in answer.responses]
    assert [offsets(records) for records in fetched] == [[0, 1], []]


def test_incremental_sessions_are_not_supported() -> None:
    client = InProcessClient(topics={"t": 1})
    answer = client.call(ApiKey.FETCH, 11, **fetch_values("t", 0, session_id=1, session_epoch=1))
    assert answer.error_code is ErrorCode.fetch_session_id_not_found
