"""Fetch and ListOffsets by raw requests, and what is in their answers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.protocol.versions import ApiKey
from spark_kafka_sink.records.decoder import read_records
from spark_kafka_sink.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from tests.broker.support.raw import RawClient


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
    """Whole batches; Kafka may cut the last one short."""
    found = []
    data = bytes(data or b"")
    while len(data) > 61 and (header := BatchHeader.parse(data)).size <= len(data):
        found.append(data[: header.size])
        data = data[header.size :]
    return found


def offsets(data: bytes | None) -> list[int]:
    return [record.offset for one in batches(data) for record in read_records(one)]


def list_offset(client: RawClient, topic: str, timestamp: int, version: int = 9) -> tuple[int, int]:
    partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    values = {"replica_id": -1, "topics": [{"name": topic, "partitions": [partition]}]}
    answer = client.call(ApiKey.LIST_OFFSETS, version, **values).topics[0].partitions[0]
    assert answer.error_code is ErrorCode.none
    return answer.offset, answer.timestamp
