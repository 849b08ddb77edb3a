"""Responses and logs of brokers in a form that can be compared, and their differences."""

import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.message_format import FarTime
from spark_kafka_sink.kafka.records.record_batch import BatchHeader, checksum
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from tools.support import raw_client

_LEFT_OUT = {"throttle_time", "host", "port", "rack", "cluster_id", "documentation", "log_dir"}
_TEXTS = {"error_message", "batch_index_error_message"}
_IDS = {"producer_id", "member_id", "leader", "current_txn_start_offset", "replica_directory_id"}
_TIMES = {"last_timestamp", "transaction_start_time"}
_ORDERED = ("name", "topic", "group_id", "index", "partition_index")
_DAY_MS = 86_400_000
# retention.ms is omitted because the real Kafka is configured not to delete old records.
_CONFIGS = (
    "cleanup.policy",
    "consumer.session.timeout.ms",
    "log.flush.interval.messages",
    "message.max.bytes",
    "node.id",
    "compression.type",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "segment.bytes",
)


def plain(value: Any, name: str = "") -> Any:
    """Convert a value of a response to a form that can be compared between brokers."""
    if name in _TEXTS:
        return "text" if value else "no text"
    if name == "records":
        return batches(bytes(value or b""))
    if name == "configs":
        return _configs(value)
    if name in _IDS and not is_dataclass(value):
        return _id(value)
    if name in _TIMES and isinstance(value, int):
        return moment(value)
    if is_dataclass(value):
        return {
            f.name: plain(getattr(value, f.name), f.name)
            for f in fields(value)
            if f.name not in _LEFT_OUT
        }
    return _scalar(value)


def _scalar(value: Any) -> Any:
    match value:
        case ErrorCode():
            return value.name.upper()
        case tuple() | list():
            return sorted((plain(item) for item in value), key=_place)
        case UUID():
            return "an id" if value.int else "no id"
        case datetime() | FarTime():
            return moment(round(value.timestamp() * 1000))
        case timedelta():
            return round(value.total_seconds() * 1000)
        case bytes() | memoryview():
            return bytes(value).hex()
        case _:
            return value


def _place(value: Any) -> tuple[Any, ...]:
    """Return a sort key for an item of a response. The order of items is arbitrary."""
    if not isinstance(value, dict):
        return ()
    return tuple(str(value.get(name)) for name in _ORDERED)


def _id(value: Any) -> str:
    if isinstance(value, str):
        return "an id" if value else "no id"
    return "an id" if value is not None and value >= 0 else "no id"


def moment(milliseconds: int) -> str | int:
    """Return `milliseconds` (since 1970), or a placeholder if it is close to the current time."""
    near = abs(milliseconds - time.time() * 1000) < _DAY_MS
    return "now" if near else milliseconds


def _configs(configs: Any) -> Any:
    if configs is None:
        return None
    known = {c.name: plain(c) for c in configs if c.name in _CONFIGS}
    return known | {"names": sorted(c.name for c in configs)}


def batches(data: bytes) -> list[Any]:
    """Return the batches of a fetched log in comparable form, without a truncated last batch."""
    return [_batch(part, BatchHeader.parse(part)) for part in raw_client.batches(data)]


def _batch(data: bytes, header: BatchHeader) -> dict[str, Any]:
    values: dict[str, Any] = {
        "base_offset": header.base_offset,
        "leader_epoch": header.leader_epoch,
        "attributes": header.attributes,
        "count": header.record_count,
        "last_offset_delta": header.last_offset_delta,
        "base_timestamp": moment(header.base_timestamp),
        "max_timestamp": moment(header.max_timestamp),
        "producer": _id(header.producer_id),
        "epoch": header.producer_epoch,
        "sequence": header.base_sequence,
        "crc": checksum(memoryview(data)) == header.crc,
    }
    if not header.is_control:
        try:
            records = list(decode_batch(memoryview(data)))
        except ProtocolError:
            return values | {"records": "can't be read"}
        values["offsets"] = [record.offset for record in records]
        values["times"] = [moment(record.timestamp) for record in records]
    return values


def differing(kafka: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (path, Kafka's value, our value) for each difference."""
    if isinstance(kafka, dict) and isinstance(ours, dict) and kafka.keys() == ours.keys():
        for key in kafka:
            yield from differing(kafka[key], ours[key], f"{path}.{key}" if path else str(key))
    elif _are_deep(kafka, ours) and len(kafka) == len(ours):
        for index, (left, right) in enumerate(zip(kafka, ours, strict=True)):
            yield from differing(left, right, f"{path}[{index}]")
    elif kafka != ours:
        yield path, kafka, ours


def _are_deep(kafka: Any, ours: Any) -> bool:
    """Return True if both values are lists, and Kafka's list has nested values."""
    lists = isinstance(kafka, list) and isinstance(ours, list)
    return lists and any(isinstance(value, dict | list) for value in kafka)
