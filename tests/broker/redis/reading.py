"""What a broker with its storage in Redis holds: by raw requests, and in its streams."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.errors import ErrorCode

from spark_kafka_sink.protocol.versions import ApiKey
from spark_kafka_sink.records.decoder import read_records
from spark_kafka_sink.records.record_batch import BatchHeader


def list_offset(raw, timestamp):
    topic = {"name": "t", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}
    response = raw.call(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[topic])
    found = response.topics[0].partitions[0]
    assert found.error_code is ErrorCode.none
    return found.offset


def fetch(raw, offset, max_bytes=1 << 20):
    asked = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    response = raw.call(
        ApiKey.FETCH,
        11,
        max_wait=timedelta(0),
        min_bytes=1,
        max_bytes=1 << 24,
        session_epoch=-1,
        topics=[{"topic": "t", "partitions": [asked]}],
    )
    return response.responses[0].partitions[0]


def batches_of(data):
    data, found = memoryview(data or b""), []
    while data:
        size = BatchHeader.parse(data).size
        found.append(list(read_records(data[:size])))
        data = data[size:]
    return found


def values(server, key="korvet:t:0"):
    return [fields[b"value"] for _, fields in server.client.xrange(key)]
