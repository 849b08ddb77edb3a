"""Topic configs for codecs, timestamps and segments, on a real Kafka and the embedded broker."""

import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.record.memory_records import MemoryRecords

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_batch import checksum
from tools.support.raw_client import RawClient, batch, create, new_producer_id, produce

CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")


def fetch(raw: RawClient, topic: str, offset: int = 0) -> bytes:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    requested = {"topic": topic, "partitions": [partition]}
    values = {"max_bytes": 1 << 20, "min_bytes": 0, "topics": [requested], "replica_id": -1}
    response = raw.call(ApiKey.FETCH, 11, **values)
    return bytes(response.responses[0].partitions[0].records or b"")


def batches(data: bytes) -> Iterator[Any]:
    memory = MemoryRecords(data)
    while memory.has_next():
        record_batch = memory.next_batch()
        assert record_batch.validate_crc()
        yield record_batch


@pytest.mark.parametrize("expected", CODECS)
def test_batches_are_recompressed_with_the_topics_codec(
    any_raw: RawClient, unique_topic: str, expected: str
) -> None:
    create(any_raw, unique_topic, compression_type=expected)
    producer = new_producer_id(any_raw)
    for codec in range(5):
        sent = batch(4, codec=codec, value=b"x" * 500, producer=(producer, 0, 4 * codec))
        assert produce(any_raw, unique_topic, sent).base_offset == 4 * codec
    again = batch(4, codec=2, value=b"x" * 500, producer=(producer, 0, 8))
    assert produce(any_raw, unique_topic, again).base_offset == 8
    stored = list(batches(fetch(any_raw, unique_topic)))
    assert [stored_batch.compression_type for stored_batch in stored] == [
        CODECS.index(expected)
    ] * 5
    assert [stored_batch.producer_id for stored_batch in stored] == [producer] * 5
    records = [(r.offset, r.key, r.value) for stored_batch in stored for r in stored_batch]
    assert records == [(offset, b"key", b"x" * 500) for offset in range(20)]


def test_corrupt_compressed_data(any_raw: RawClient, unique_topic: str) -> None:
    create(any_raw, unique_topic, compression_type="lz4")
    broken = batch(3, codec=1, value=b"x" * 500)
    broken[70:90] = bytes(20)
    struct.pack_into(">I", broken, 17, checksum(bytes(broken)))
    assert produce(any_raw, unique_topic, broken).error_code is not ErrorCode.none
    assert produce(any_raw, unique_topic, batch(1)).base_offset == 0


@pytest.mark.parametrize("expected", ["producer", "gzip"])
def test_log_append_time(any_raw: RawClient, unique_topic: str, expected: str) -> None:
    create(any_raw, unique_topic, message_timestamp_type="LogAppendTime", compression_type=expected)
    before = int(time.time() * 1000)
    response = produce(any_raw, unique_topic, batch(3, timestamp=12345))
    after = int(time.time() * 1000)
    stamped = int(response.log_append_time.timestamp() * 1000 + 0.5)
    assert before <= stamped <= after
    (stored,) = batches(fetch(any_raw, unique_topic))
    assert (stored.timestamp_type, stored.max_timestamp) == (1, stamped)
    assert [record.timestamp for record in stored] == [stamped] * 3


def test_batch_larger_than_a_segment(any_raw: RawClient, unique_topic: str) -> None:
    create(any_raw, unique_topic, internal_segment_bytes="1000")
    response = produce(any_raw, unique_topic, batch(3, value=bytes(500)))
    assert response.error_code is ErrorCode.record_list_too_large
    assert produce(any_raw, unique_topic, batch(3, value=bytes(50))).base_offset == 0
