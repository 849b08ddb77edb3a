"""Raw Produce requests to a real Kafka and to the embedded broker."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

import pytest
from kio.schema.errors import ErrorCode

from spark_kafka_sink.kafka.protocol.codec import optional_timestamp
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.decoder import read_records
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

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

MAX_SEQUENCE = 2**31 - 1


def test_offsets_count_records(any_raw: RawClient, topic: str) -> None:
    assert produce(any_raw, topic, batch(3)).base_offset == 0
    assert produce(any_raw, topic, batch(2), acks=1).base_offset == 3
    response = produce(any_raw, topic, batch(1))
    assert (response.base_offset, response.error_code, response.log_start_offset) == (5, 0, 0)
    assert response.log_append_time is None


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_by_name(any_raw: RawClient, topic: str, version: int) -> None:
    response = any_raw.call(ApiKey.PRODUCE, version, **produce_values(topic, batch(2)))
    assert response.responses[0].name == topic
    assert response.responses[0].partition_responses[0].error_code is ErrorCode.none


def test_version_13_by_id(any_raw: RawClient, topic: str) -> None:
    described = any_raw.call(ApiKey.METADATA, 12, topics=[{"name": topic}]).topics[0]
    values = produce_values(topic, batch(2))
    values["topic_data"][0]["topic_id"] = described.topic_id
    response = any_raw.call(ApiKey.PRODUCE, 13, **values).responses[0]
    assert response.topic_id == described.topic_id
    assert response.partition_responses[0].error_code is ErrorCode.none
    values["topic_data"][0]["topic_id"] = type(described.topic_id)(int=7)
    response = any_raw.call(ApiKey.PRODUCE, 13, **values).responses[0]
    assert response.partition_responses[0].error_code is ErrorCode.unknown_topic_id


def test_a_corrupt_batch(any_raw: RawClient, topic: str) -> None:
    broken = batch(2)
    broken[-1] ^= 0xFF
    assert produce(any_raw, topic, broken).error_code is ErrorCode.corrupt_message
    assert produce(any_raw, topic, batch(1)).base_offset == 0


@pytest.mark.parametrize("acks", [2, -2, 7])
def test_invalid_acks(any_raw: RawClient, topic: str, acks: int) -> None:
    response = produce(any_raw, topic, batch(1), acks)
    assert (response.error_code, response.base_offset) == (ErrorCode.invalid_required_acks, -1)


def test_acks_0_has_no_response(any_raw: RawClient, topic: str) -> None:
    any_raw.send(ApiKey.PRODUCE, 9, **produce_values(topic, batch(3), acks=0))
    assert produce(any_raw, topic, batch(1)).base_offset == 3


def test_failed_acks_0_closes_the_connection(any_raw: RawClient, topic: str) -> None:
    broken = batch(3)
    broken[-1] ^= 0xFF
    any_raw.send(ApiKey.PRODUCE, 9, **produce_values(topic, broken, acks=0))
    assert any_raw.closed()


def test_unknown_partitions(any_raw: RawClient, topic: str) -> None:
    missing = ErrorCode.unknown_topic_or_partition
    assert produce(any_raw, topic + "-not", batch(1)).error_code is missing
    values = produce_values(topic, batch(1), partition=1)
    response = any_raw.call(ApiKey.PRODUCE, 9, **values).responses[0].partition_responses[0]
    assert response.error_code is missing


def test_duplicate_partition_in_request(any_raw: RawClient, topic: str) -> None:
    values = produce_values(topic, batch(1))
    values["topic_data"][0]["partition_data"].append({"index": 0, "records": batch(2)})
    values["topic_data"] *= 2
    response = any_raw.call(ApiKey.PRODUCE, 9, **values)
    (only,) = (one for item in response.responses for one in item.partition_responses)
    assert (only.error_code, only.base_offset) == (0, 0)
    assert produce(any_raw, topic, batch(1)).base_offset == 2


def test_too_large(any_raw: RawClient, unique_topic: str) -> None:
    create(any_raw, unique_topic, max_message_bytes="1000")
    fits = batch(1, value=b"x" * (1000 - len(batch(1, value=b"x" * 900)) + 900))
    assert len(fits) == 1000
    assert produce(any_raw, unique_topic, fits).error_code is ErrorCode.none
    response = produce(any_raw, unique_topic, batch(1, value=b"x" * 1000))
    assert response.error_code is ErrorCode.message_too_large


def changed(offset: int, layout: str, value: int, *, fix_crc: bool = True) -> bytearray:
    """Return a batch of two records with a changed header field."""
    import crc32c

    data = batch(2)
    struct.pack_into(layout, data, offset, value)
    if fix_crc:
        struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return data


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (changed(16, ">b", 3, fix_crc=False), ErrorCode.corrupt_message),
        (changed(8, ">i", 5, fix_crc=False), ErrorCode.corrupt_message),
        (changed(57, ">i", 3), ErrorCode.invalid_record),
        (changed(57, ">i", -1), ErrorCode.invalid_record),
        (changed(23, ">i", 7), ErrorCode.invalid_record),
        (changed(0, ">q", 4), ErrorCode.invalid_record),
        (changed(21, ">h", 0x20), ErrorCode.invalid_record),
        (batch(1) + batch(1), ErrorCode.invalid_record),
        (b"", ErrorCode.invalid_record),
    ],
    ids=["magic", "length", "count", "negative", "delta", "base", "control", "two", "none"],
)
def test_invalid_batches(
    any_raw: RawClient, topic: str, records: bytes | bytearray, error: KafkaError | None
) -> None:
    assert produce(any_raw, topic, records).error_code is error
    assert produce(any_raw, topic, batch(1)).base_offset == 0


def test_zstd_needs_version_7(any_raw: RawClient, topic: str) -> None:
    values = produce_values(topic, batch(5, codec=4))
    response = any_raw.call(ApiKey.PRODUCE, 6, **values).responses[0].partition_responses[0]
    assert response.error_code is ErrorCode.unsupported_compression_type
    assert produce(any_raw, topic, batch(5, codec=4)).error_code is ErrorCode.none


def test_compacted_topic_requires_keys(any_raw: RawClient, unique_topic: str) -> None:
    create(any_raw, unique_topic, cleanup_policy="compact")
    response = produce(any_raw, unique_topic, batch(3, key=None))
    assert response.error_code is ErrorCode.invalid_record
    assert [error.batch_index for error in response.record_errors] == [0, 1, 2]
    assert produce(any_raw, unique_topic, batch(3)).error_code is ErrorCode.none


def test_timestamp_in_the_future(any_raw: RawClient, topic: str) -> None:
    tomorrow = int(time.time() * 1000) + 86_400_000
    response = produce(any_raw, topic, batch(2, timestamp=tomorrow))
    assert response.error_code is ErrorCode.invalid_timestamp
    assert [error.batch_index for error in response.record_errors] == [0, 1]


def test_log_append_time(any_raw: RawClient, unique_topic: str) -> None:
    create(any_raw, unique_topic, message_timestamp_type="LogAppendTime")
    before = time.time()
    response = produce(any_raw, unique_topic, batch(2, timestamp=5))
    assert before - 1 < response.log_append_time.timestamp() < time.time() + 1


class TestIdempotence:
    def test_duplicate_batch_returns_original_offset(self, any_raw: RawClient, topic: str) -> None:
        producer = new_producer_id(any_raw)
        for sequence in range(5):
            records = batch(2, producer=(producer, 0, 2 * sequence))
            assert produce(any_raw, topic, records).base_offset == 2 * sequence
        for sequence in range(5):
            records = batch(2, producer=(producer, 0, 2 * sequence))
            response = produce(any_raw, topic, records)
            assert (response.error_code, response.base_offset) == (0, 2 * sequence)
        assert produce(any_raw, topic, batch(1)).base_offset == 10

    def test_duplicates_are_detected_in_five_batches(self, any_raw: RawClient, topic: str) -> None:
        producer = new_producer_id(any_raw)
        for sequence in range(6):
            produce(any_raw, topic, batch(1, producer=(producer, 0, sequence)))
        response = produce(any_raw, topic, batch(1, producer=(producer, 0, 0)))
        assert response.error_code is ErrorCode.out_of_order_sequence_number
        assert produce(any_raw, topic, batch(1, producer=(producer, 0, 1))).base_offset == 1

    def test_content_of_duplicates_is_not_compared(self, any_raw: RawClient, topic: str) -> None:
        producer = new_producer_id(any_raw)
        produce(any_raw, topic, batch(2, producer=(producer, 0, 0)))
        response = produce(any_raw, topic, batch(2, producer=(producer, 0, 0), value=b"other"))
        assert (response.error_code, response.base_offset) == (0, 0)

    @pytest.mark.parametrize(("sequence", "count"), [(3, 1), (1, 1), (0, 1), (1, 2), (0, 3)])
    def test_out_of_order_sequences(
        self, any_raw: RawClient, topic: str, sequence: int, count: int
    ) -> None:
        producer = new_producer_id(any_raw)
        produce(any_raw, topic, batch(2, producer=(producer, 0, 0)))
        response = produce(any_raw, topic, batch(count, producer=(producer, 0, sequence)))
        assert response.error_code is ErrorCode.out_of_order_sequence_number
        assert produce(any_raw, topic, batch(1, producer=(producer, 0, 2))).base_offset == 2

    def test_an_old_epoch(self, any_raw: RawClient, topic: str) -> None:
        producer = new_producer_id(any_raw)
        produce(any_raw, topic, batch(1, producer=(producer, 3, 0)))
        response = produce(any_raw, topic, batch(1, producer=(producer, 2, 1)))
        assert response.error_code is ErrorCode.invalid_producer_epoch

    def test_new_epoch_starts_at_0(self, any_raw: RawClient, topic: str) -> None:
        producer = new_producer_id(any_raw)
        produce(any_raw, topic, batch(1, producer=(producer, 0, 0)))
        response = produce(any_raw, topic, batch(1, producer=(producer, 1, 1)))
        assert response.error_code is ErrorCode.out_of_order_sequence_number
        assert produce(any_raw, topic, batch(1, producer=(producer, 1, 0))).base_offset == 1
        response = produce(any_raw, topic, batch(1, producer=(producer, 0, 1)))
        assert response.error_code is ErrorCode.invalid_producer_epoch

    def test_unknown_producer_can_start_at_any_sequence(
        self, any_raw: RawClient, topic: str
    ) -> None:
        producer = new_producer_id(any_raw)
        response = produce(any_raw, topic, batch(1, producer=(producer, 5, 77)))
        assert (response.error_code, response.base_offset) == (0, 0)

    def test_sequences_wrap(self, any_raw: RawClient, topic: str) -> None:
        producer = new_producer_id(any_raw)
        records = batch(3, producer=(producer, 0, MAX_SEQUENCE - 1))
        assert produce(any_raw, topic, records).base_offset == 0
        assert produce(any_raw, topic, records).base_offset == 0
        response = produce(any_raw, topic, batch(1, producer=(producer, 0, 0)))
        assert response.error_code is ErrorCode.out_of_order_sequence_number
        assert produce(any_raw, topic, batch(1, producer=(producer, 0, 1))).base_offset == 3

    def test_rejected_batch_has_no_effect(self, any_raw: RawClient, topic: str) -> None:
        producer = new_producer_id(any_raw)
        broken = batch(1, producer=(producer, 0, 0))
        broken[-1] ^= 0xFF
        assert produce(any_raw, topic, broken).error_code is ErrorCode.corrupt_message
        assert produce(any_raw, topic, batch(1, producer=(producer, 0, 0))).base_offset == 0

    def test_producer_id_requires_a_sequence(self, any_raw: RawClient, topic: str) -> None:
        producer = new_producer_id(any_raw)
        response = produce(any_raw, topic, batch(1, producer=(producer, 0, -1)))
        assert response.error_code is ErrorCode.invalid_record


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
    one = batch(2, timestamp=time_ms, producer=(new_producer_id(any_raw), 0, 0))
    assert produce(any_raw, topic, batch(1, timestamp=5)).base_offset == 0
    for stamped in (None, optional_timestamp(max(time_ms, -1))):
        response = produce(any_raw, topic, one)
        assert (response.error_code, response.base_offset) == (ErrorCode.none, 1)
        assert response.log_append_time == stamped
    (found,) = batches(fetch(any_raw, topic, 1).records)
    assert [record.timestamp for record in read_records(found)] == [time_ms] * 2
    newest = (1, time_ms) if time_ms > 5 else (0, 5)
    assert list_offset(any_raw, topic, -3) == newest
    assert list_offset(any_raw, topic, 5) == (0, 5)
    assert list_offset(any_raw, topic, 6) == (newest if time_ms > 5 else (-1, -1))
    assert list_offset(any_raw, topic, 2**63 - 1) == (newest if time_ms == 2**63 - 1 else (-1, -1))
