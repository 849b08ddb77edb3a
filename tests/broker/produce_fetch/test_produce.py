"""Raw Produce requests to a real Kafka and to the embedded broker."""

import pytest

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.message_format import optional_timestamp
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from tools.support.raw_client import (
    RawClient,
    batch,
    batches,
    create,
    fetch,
    list_offset,
    new_producer_id,
    old_messages,
    produce,
    produce_values,
)


@pytest.mark.parametrize("version", [3, 7, 8, 12])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_rejected(
    any_raw: RawClient, topic: str, magic: int, count: int, version: int
) -> None:
    values = produce_values(topic, old_messages(magic, count))
    response = any_raw.call(ApiKey.PRODUCE, version, **values).responses[0].partition_responses[0]
    assert (response.error_code, response.base_offset) == (ErrorCode.invalid_record, -1)
    assert produce(any_raw, topic, batch(1)).base_offset == 0


@pytest.mark.parametrize("time_ms", [253_402_300_800_000, 2**62, 2**63 - 1, -2, -(2**62)])
def test_duplicate_batch_with_any_timestamp(
    any_raw: RawClient, unique_topic: str, time_ms: int
) -> None:
    """For a duplicate, Kafka returns the producer's timestamp, or none if it is negative."""
    topic = unique_topic
    create(any_raw, topic, message_timestamp_after_max_ms=str(2**63 - 1))
    data = batch(2, timestamp=time_ms, producer=(new_producer_id(any_raw), 0, 0))
    assert produce(any_raw, topic, batch(1, timestamp=5)).base_offset == 0
    for stamped in (None, optional_timestamp(max(time_ms, -1))):
        response = produce(any_raw, topic, data)
        assert (response.error_code, response.base_offset) == (ErrorCode.none, 1)
        assert response.log_append_time == stamped
    (stored,) = batches(fetch(any_raw, topic, 1).records)
    assert [record.timestamp for record in decode_batch(stored)] == [time_ms] * 2
    newest = (1, time_ms) if time_ms > 5 else (0, 5)
    assert list_offset(any_raw, topic, -3) == newest
    assert list_offset(any_raw, topic, 5) == (0, 5)
    assert list_offset(any_raw, topic, 6) == (newest if time_ms > 5 else (-1, -1))
    assert list_offset(any_raw, topic, 2**63 - 1) == (newest if time_ms == 2**63 - 1 else (-1, -1))
