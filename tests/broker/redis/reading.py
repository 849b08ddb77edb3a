"""Read records of a broker with Redis storage, by raw requests and from its streams."""

from datetime import timedelta
from typing import Any, cast

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.kafka.records.record_decoder import Record, decode_batch
from tests.support.redis_server import RedisServer
from tools.support.raw_client import RawClient


def list_offset(raw: RawClient, timestamp: int) -> int:
    topic = {"name": "t", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}
    response = raw.call(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[topic])
    partition = response.topics[0].partitions[0]
    assert partition.error_code is ErrorCode.none
    result: int = partition.offset
    return result


def fetch(raw: RawClient, offset: int, max_bytes: int = 1 << 20) -> Any:
    requested = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    response = raw.call(
        ApiKey.FETCH,
        11,
        max_wait=timedelta(0),
        min_bytes=1,
        max_bytes=1 << 24,
        session_epoch=-1,
        topics=[{"topic": "t", "partitions": [requested]}],
    )
    return response.responses[0].partitions[0]


def batches_of(data: memoryview | bytes | None) -> list[list[Record]]:
    rest, record_lists = memoryview(data or b""), []
    while rest:
        size = BatchHeader.parse(rest).size
        record_lists.append(list(decode_batch(rest[:size])))
        rest = rest[size:]
    return record_lists


def entries(server: RedisServer, key: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Return the IDs and fields of the entries of a stream."""
    return cast("list[tuple[bytes, dict[bytes, bytes]]]", server.client.xrange(key))


def values(server: RedisServer, key: str = "korvet:t:0") -> list[bytes]:
    return [fields[b"value"] for _, fields in entries(server, key)]
