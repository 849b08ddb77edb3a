"""A client that sends requests of any version on a socket, with arbitrary values and batches."""

import contextlib
import socket
import time
from datetime import timedelta
from typing import Any, Self

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kio.serial import entity_reader

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.messages import build, read_response
from spark_kafka_sink.kafka.protocol.versions import ApiKey, request_type, response_type
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE, BatchHeader
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from tools.support.frames import request_frame
from tools.support.waiting import poll

SOCKET_S = 60
TIMEOUT = timedelta(seconds=10)


class RawClient:
    """Sends requests of any version, built from plain values; two decoders parse the responses."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, port = bootstrap_servers.split(",", maxsplit=1)[0].rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), SOCKET_S)
        self.correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, api: ApiKey, version: int, **values: Any) -> int:
        self.correlation_id += 1
        request = build(request_type(api, version), values)
        self.socket.sendall(request_frame(request, self.correlation_id, "raw"))
        return self.correlation_id

    def receive(self, api: ApiKey, version: int) -> Any:
        frame = self.next_frame()
        type_ = response_type(api, version)
        correlation_id, response = read_response(type_, frame)
        assert correlation_id == self.correlation_id
        header_type = type_.__header_schema__
        header, size = entity_reader(header_type)(frame, 0)
        assert header.correlation_id == correlation_id
        if "FarTime(" not in repr(response):  # kio cannot represent these timestamps.
            assert entity_reader(type_)(frame, size) == (response, len(frame) - size)
        return response

    def call(self, api: ApiKey, version: int, **values: Any) -> Any:
        self.send(api, version, **values)
        return self.receive(api, version)

    def closed(self) -> bool:
        """Return True if the broker closes the connection without a response."""
        with contextlib.suppress(ConnectionResetError):
            return self.socket.recv(1) == b""
        return True

    def next_frame(self) -> bytes:
        """Return the bytes of the next response, without its size field."""
        return self.read_exactly(int.from_bytes(self.read_exactly(4), "big"))

    def read_exactly(self, size: int) -> bytes:
        """Read bytes from the connection."""
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker closed the connection")
            data += more
        return data


def batch(
    count: int = 1,
    *,
    producer: tuple[int, int, int] = (-1, -1, -1),
    is_transactional: bool = False,
    codec: int = 0,
    value: bytes = b"value",
    key: bytes | None = b"key",
    timestamp: int | None = None,
) -> bytearray:
    """Return a batch that kafka-python encodes; `producer` is (ID, epoch, first sequence)."""
    builder = DefaultRecordBatchBuilder(2, codec, is_transactional, *producer, 1 << 24)
    now = int(time.time() * 1000) if timestamp is None else timestamp
    for offset in range(count):
        builder.append(offset, now, key, value, [])
    built: bytearray = builder.build()
    return built


def old_messages(magic: int, count: int = 1) -> bytes:
    """Return a message set in format 0 or 1 that kafka-python encodes."""
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for offset in range(count):
        builder.append(offset, 1_000, b"k", b"v")
    return bytes(builder.build())


def produce_values(topic: str, records: bytes | bytearray | None, acks: int = -1) -> Any:
    data = {"index": 0, "records": records}
    return {
        "acks": acks,
        "timeout": TIMEOUT,
        "topic_data": [{"name": topic, "partition_data": [data]}],
    }


def produce(
    client: RawClient, topic: str, records: bytes | bytearray | None, acks: int = -1
) -> Any:
    """Send a Produce request (version 9) for partition 0; return the partition's response."""
    response = client.call(ApiKey.PRODUCE, 9, **produce_values(topic, records, acks))
    return response.responses[0].partition_responses[0]


def new_producer_id(client: RawClient) -> int:
    """Return a new producer id; retry while Kafka allocates its first block of ids."""
    for _ in range(100):
        response = client.call(ApiKey.INIT_PRODUCER_ID, 4, transaction_timeout=TIMEOUT)
        if response.error_code is not ErrorCode.coordinator_load_in_progress:
            break
        time.sleep(0.05)
    assert response.error_code is ErrorCode.none
    assert response.producer_epoch == 0
    producer_id: int = response.producer_id
    return producer_id


def create(client: RawClient, name: str, partitions: int = 1, **configs: str) -> None:
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()],
    }
    response = client.call(ApiKey.CREATE_TOPICS, 5, topics=[topic], timeout=TIMEOUT)
    assert response.topics[0].error_code == 0, response.topics[0].error_message
    if not poll(lambda: _has_leaders(client, name), SOCKET_S):
        raise TimeoutError(name)


def delete_topic(client: RawClient, topic: str) -> ErrorCode:
    response = client.call(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], topics=[], timeout=TIMEOUT)
    code: ErrorCode = response.responses[0].error_code
    return code


def _has_leaders(client: RawClient, name: str) -> bool:
    topic = client.call(ApiKey.METADATA, 8, topics=[{"name": name}]).topics[0]
    return topic.error_code == 0 and all(
        _leads(client, name, partition) for partition in topic.partitions
    )


def _leads(client: RawClient, name: str, described: Any) -> bool:
    """Return True if a partition's leader already serves it; metadata can be slightly ahead."""
    partition = {"partition_index": described.partition_index, "timestamp": -1}
    topic = {"name": name, "partitions": [partition]}
    answer = client.call(ApiKey.LIST_OFFSETS, 2, replica_id=-1, topics=[topic])
    error: int = answer.topics[0].partitions[0].error_code
    leads: bool = described.leader_id >= 0 and error == 0
    return leads


def fetch_values(topic: str | None, offset: int, **changes: Any) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "fetch_offset": offset,
        "current_leader_epoch": changes.pop("epoch", -1),
        "partition_max_bytes": changes.pop("partition_max_bytes", 1 << 20),
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
    }
    item = {"topic": topic, "topic_id": changes.pop("topic_id", None), "partitions": [partition]}
    return {
        "max_wait": timedelta(0),
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "replica_id": -1,
        "session_epoch": -1,
        "topics": [item],
        **changes,
    }


def fetch(client: RawClient, topic: str, offset: int, version: int = 11, **changes: Any) -> Any:
    answer = client.call(ApiKey.FETCH, version, **fetch_values(topic, offset, **changes))
    return answer.responses[0].partitions[0]


def batches(data: bytes | None) -> list[Any]:
    """Return the complete batches in fetched data; Kafka can truncate the last batch."""
    parts = []
    data = bytes(data or b"")
    while len(data) >= HEADER_SIZE and (header := BatchHeader.parse(data)).size <= len(data):
        parts.append(data[: header.size])
        data = data[header.size :]
    return parts


def offsets(data: bytes | None) -> list[int]:
    return [record.offset for part in batches(data) for record in decode_batch(part)]


def list_offset(client: RawClient, topic: str, timestamp: int, version: int = 9) -> tuple[int, int]:
    partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    values = {"replica_id": -1, "topics": [{"name": topic, "partitions": [partition]}]}
    answer = client.call(ApiKey.LIST_OFFSETS, version, **values).topics[0].partitions[0]
    assert answer.error_code is ErrorCode.none
    return answer.offset, answer.timestamp
