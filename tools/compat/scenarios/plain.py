"""Answers as plain values that two brokers can be compared by: no ids, addresses or texts."""

from __future__ import annotations

import time
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol.codec import FarTime
from spark_kafka_sink.records.decoder import read_records
from spark_kafka_sink.records.record_batch import HEADER_SIZE, BatchHeader, checksum

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEFT_OUT = {"throttle_time", "host", "port", "rack", "cluster_id", "documentation", "log_dir"}
_TEXTS = {"error_message", "batch_index_error_message"}
_IDS = {"producer_id", "member_id", "leader", "current_txn_start_offset", "replica_directory_id"}
_TIMES = {"last_timestamp", "transaction_start_time"}
_ORDERED = ("name", "topic", "group_id", "index", "partition_index")
_DAY_MS = 86_400_000
# Not retention.ms: the Kafka that is compared with keeps everything.
CONFIGS = (
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
    """A value of a response, comparable."""
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
            return sorted((plain(one) for one in value), key=_place)
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
    """The order of an answer's items means nothing."""
    if not isinstance(value, dict):
        return ()
    return tuple(str(value.get(name)) for name in _ORDERED)


def _id(value: Any) -> str:
    if isinstance(value, str):
        return "an id" if value else "no id"
    return "an id" if value is not None and value >= 0 else "no id"


def moment(milliseconds: int) -> str | int:
    """A time in milliseconds since 1970, where it is not that of the test's own run."""
    near = abs(milliseconds - time.time() * 1000) < _DAY_MS
    return "now" if near else milliseconds


def _configs(configs: Any) -> Any:
    if configs is None:
        return None
    known = {c.name: plain(c) for c in configs if c.name in CONFIGS}
    return known | {"names": sorted(c.name for c in configs)}


def batches(data: bytes) -> list[Any]:
    """What a fetched log holds; a last batch that is cut short does not count."""
    found = []
    while len(data) >= HEADER_SIZE and (header := BatchHeader.parse(data)).size <= len(data):
        found.append(_batch(data[: header.size], header))
        data = data[header.size :]
    return found


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
            records = list(read_records(memoryview(data)))
        except ProtocolError:
            return values | {"records": "can't be read"}
        values["offsets"] = [record.offset for record in records]
        values["times"] = [moment(record.timestamp) for record in records]
    return values


def differing(kafka: Any, ours: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two plain values differ: path, theirs, ours; what has another shape differs as one."""
    if isinstance(kafka, dict) and isinstance(ours, dict) and kafka.keys() == ours.keys():
        for key in kafka:
            yield from differing(kafka[key], ours[key], f"{path}.{key}" if path else str(key))
    elif _are_lists(kafka, ours) and len(kafka) == len(ours):
        for index, (left, right) in enumerate(zip(kafka, ours, strict=True)):
            yield from differing(left, right, f"{path}[{index}]")
    elif kafka != ours:
        yield path, kafka, ours


def _are_lists(kafka: Any, ours: Any) -> bool:
    return isinstance(kafka, list) and isinstance(ours, list) and any(map(_is_deep, kafka))


def _is_deep(value: Any) -> bool:
    return isinstance(value, dict | list)
