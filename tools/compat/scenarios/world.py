"""`World`: a raw client of a broker, with a new topic and the responses of one scenario."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeAlias
from uuid import UUID

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.codec import FarTime
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_batch import (
    CRC_OFFSET,
    HEADER_SIZE,
    BatchHeader,
    checksum,
)
from spark_kafka_sink.kafka.records.record_decoder import decode_batch
from tools.support import raw_client
from tools.support.raw_client import (
    TIMEOUT,
    RawClient,
    batch,
    create,
    fetch_values,
    new_producer_id,
)
from tools.support.waiting import poll

_LEFT_OUT = {"throttle_time", "host", "port", "rack", "cluster_id", "documentation", "log_dir"}
_TEXTS = {"error_message", "batch_index_error_message"}
_IDS = {"producer_id", "member_id", "leader", "current_txn_start_offset", "replica_directory_id"}
_TIMES = {"last_timestamp", "transaction_start_time"}
_ORDERED = ("name", "topic", "group_id", "index", "partition_index")
_DAY_MS = 86_400_000
# retention.ms is omitted because the real Kafka is configured not to delete old records.
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
BASE_OFFSET, LENGTH, LEADER_EPOCH, MAGIC, ATTRIBUTES = 0, 8, 12, 16, 21
LAST_DELTA, BASE_TIME, MAX_TIME, PRODUCER, EPOCH, SEQUENCE, COUNT = 23, 27, 35, 43, 51, 53, 57
HOUR_MS = 3_600_000
Action: TypeAlias = Callable[["World"], None]
_P = ParamSpec("_P")
SOCKET_S = 20.0  # A slow machine must not look like a broker that does not respond.
OWN = "own"
"""Name that is replaced by the name of the scenario's topic in all requests."""


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
    known = {c.name: plain(c) for c in configs if c.name in CONFIGS}
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


def changed(offset: int, kind: str, value: int, *, count: int = 2, crc: bool = True) -> bytes:
    """Return a valid batch with one header field replaced."""
    data = batch(count)
    struct.pack_into(kind, data, offset, value)
    if crc and offset > CRC_OFFSET:
        struct.pack_into(">I", data, CRC_OFFSET, checksum(memoryview(data)))
    return bytes(data)


def _body(change: Callable[[bytes], bytes]) -> bytes:
    """Return a batch of two records with a changed body, and with correct length and checksum."""
    data = batch(2)
    data[HEADER_SIZE:] = change(bytes(data[HEADER_SIZE:]))
    struct.pack_into(">i", data, LENGTH, len(data) - 12)
    struct.pack_into(">I", data, CRC_OFFSET, checksum(memoryview(data)))
    return bytes(data)


def _now() -> int:
    return int(time.time() * 1000)


BATCHES: Mapping[str, Callable[[], bytes | None]] = {
    "one record": lambda: bytes(batch(1)),
    "100 records": lambda: bytes(batch(100)),
    "null": lambda: None,
    "no bytes": lambda: b"",
    "60 bytes": lambda: bytes(batch(1)[:60]),
    "a header alone": lambda: bytes(batch(1)[:61]),
    "two batches": lambda: bytes(batch(1) + batch(2)),
    "a batch and garbage": lambda: bytes(batch(1) + b"\0" * 20),
    "a batch cut short": lambda: bytes(batch(5)[:-4]),
    "a wrong checksum": lambda: bytes(batch(2)[:-1] + b"\xff"),
    "magic 0": lambda: changed(MAGIC, ">b", 0),
    "magic 1": lambda: changed(MAGIC, ">b", 1),
    "magic 3": lambda: changed(MAGIC, ">b", 3),
    "magic -1": lambda: changed(MAGIC, ">b", -1),
    "a base offset of 7": lambda: changed(BASE_OFFSET, ">q", 7),
    "a leader epoch of 9": lambda: changed(LEADER_EPOCH, ">i", 9),
    "a length of 0": lambda: changed(LENGTH, ">i", 0),
    "a negative length": lambda: changed(LENGTH, ">i", -5),
    "a length that is too large": lambda: changed(LENGTH, ">i", 10_000),
    "a length that is too small by one": lambda: changed(LENGTH, ">i", len(batch(2)) - 13),
    "codec 5": lambda: changed(ATTRIBUTES, ">h", 5),
    "codec 7": lambda: changed(ATTRIBUTES, ">h", 7),
    "invalid gzip data": lambda: changed(ATTRIBUTES, ">h", 1),
    "the log append time bit": lambda: changed(ATTRIBUTES, ">h", 8),
    "the transactional bit": lambda: changed(ATTRIBUTES, ">h", 0x10),
    "the control bit": lambda: changed(ATTRIBUTES, ">h", 0x20),
    "the delete horizon bit": lambda: changed(ATTRIBUTES, ">h", 0x40),
    "an unknown bit": lambda: changed(ATTRIBUTES, ">h", 0x80),
    "a last offset delta that is too large": lambda: changed(LAST_DELTA, ">i", 5),
    "a last offset delta of -1": lambda: changed(LAST_DELTA, ">i", -1),
    "no records": lambda: changed(COUNT, ">i", 0),
    "-1 records": lambda: changed(COUNT, ">i", -1),
    "a record count that is too large": lambda: changed(COUNT, ">i", 3),
    "a producer id without a sequence": lambda: changed(PRODUCER, ">q", 5),
    "an epoch without a producer id": lambda: changed(EPOCH, ">h", 3),
    "a sequence without a producer id": lambda: changed(SEQUENCE, ">i", 3),
    "time 0": lambda: bytes(batch(2, timestamp=0)),
    "time -1": lambda: bytes(batch(2, timestamp=-1)),
    "half an hour ahead": lambda: bytes(batch(2, timestamp=_now() + HOUR_MS // 2)),
    "two hours ahead": lambda: bytes(batch(2, timestamp=_now() + 2 * HOUR_MS)),
    "a year ago": lambda: bytes(batch(2, timestamp=_now() - 365 * 24 * HOUR_MS)),
    "a wrong maximum timestamp": lambda: changed(MAX_TIME, ">q", 99),
    "gzip": lambda: bytes(batch(3, codec=1)),
    "snappy": lambda: bytes(batch(3, codec=2)),
    "lz4": lambda: bytes(batch(3, codec=3)),
    "zstd": lambda: bytes(batch(3, codec=4)),
    "no key": lambda: bytes(batch(2, key=None)),
    "900 KB": lambda: bytes(batch(1, value=b"x" * 900_000)),
    "2 MB": lambda: bytes(batch(1, value=b"x" * 2_000_000)),
    "a body cut short": lambda: _body(lambda body: body[:-3]),
    "a body that is too long": lambda: _body(lambda body: body + bytes(3)),
    "a wrong record length": lambda: _body(lambda body: b"\x7e" + body[1:]),
}


def action(function: Callable[Concatenate[World, _P], None]) -> Callable[_P, Action]:
    """Decorate a function so that it binds all arguments except the first, the world."""

    def bind(*args: _P.args, **kwargs: _P.kwargs) -> Action:
        return lambda world: function(world, *args, **kwargs)

    return bind


def asks(
    api: ApiKey,
    version: int,
    *requests: Mapping[str, Any],
    partitions: int = 0,
    group: bool = False,
    **configs: str,
) -> Action:
    """Return an action that sends requests of one API.

    If `partitions` is not 0, the topic is created first. With `group`, it waits for the coordinator
    of the group that has the name of the topic.
    """

    def send(world: World) -> None:
        if partitions:
            world.create(partitions, **configs)
        if group:
            world.find_group()
        for values in requests:
            world.ask(api, version, **values)

    return send


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named sequence of requests, which is sent to both brokers."""

    name: str
    action: Action


class World:
    """A connection to one broker; `seen` contains the responses in comparable form."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self.seen: dict[str, Any] = {}
        self.last: Any = None
        """The last response as it was received, or None."""
        self._servers = bootstrap_servers
        self._connect()
        self._topic_id: Any = None
        self._producers: dict[str, int] = {}

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.client.call(ApiKey.DELETE_TOPICS, 4, topic_names=[self.topic], timeout=TIMEOUT)
        self.client.socket.close()

    def create(self, partitions: int = 1, **configs: str) -> None:
        create(self.client, self.topic, partitions, **configs)

    def producer(self, name: str = "p") -> int:
        """Return the producer ID for a name; create it on first use."""
        if name not in self._producers:
            self._producers[name] = new_producer_id(self.client)
        return self._producers[name]

    def topic_id(self) -> Any:
        if self._topic_id is None:
            metadata = self.client.call(ApiKey.METADATA, 12, topics=[{"name": self.topic}])
            self._topic_id = metadata.topics[0].topic_id
        return self._topic_id

    def ask(self, api: ApiKey, version: int, **values: Any) -> Any:
        """Send a request; record the response, or that the broker closed the connection."""
        label = f"{len(self.seen) + 1} {api.name.lower()}"
        self.last = None
        try:
            self.last = self.client.call(api, version, **self.named({"timeout": TIMEOUT} | values))
            self.seen[label] = plain(self.last)
        except (ConnectionError, TimeoutError) as error:
            timed_out = isinstance(error, TimeoutError)
            self.seen[label] = "no answer" if timed_out else "the connection is closed"
            self._connect()
        return self.seen[label]

    def wait_for(self, api: ApiKey, version: int, error: ErrorCode, **values: Any) -> None:
        """Repeat a request while `error` occurs, because a real broker needs time to update."""
        request = self.named(values)
        poll(lambda: error.name not in repr(self.client.call(api, version, **request)), SOCKET_S)

    def named(self, value: Any) -> Any:
        """Return a copy of a value in which `OWN` is replaced."""
        match value:
            case str():
                return self.topic if value == OWN else value
            case dict():
                return {name: self.named(item) for name, item in value.items()}
            case list() | tuple():
                return [self.named(item) for item in value]
        return value

    def find_group(self) -> None:
        """Wait until the coordinator of the group named after the topic is available."""
        unavailable = ErrorCode.coordinator_not_available
        self.wait_for(ApiKey.FIND_COORDINATOR, 2, unavailable, key=OWN, key_type=0)
        for error in (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress):
            self.wait_for(ApiKey.DESCRIBE_GROUPS, 0, error, groups=[OWN])

    def produce(self, records: bytes | None, version: int = 9, **changes: Any) -> Any:
        """Send a Produce request for partition 0 of the topic; `changes` replace its fields."""
        data = {"index": changes.pop("partition", 0), "records": records}
        item = {"name": changes.pop("topic", self.topic), "partition_data": [data]}
        if version >= 13:
            item["topic_id"] = changes.pop("topic_id", None) or self.topic_id()
        values = {"acks": -1} | changes | {"topic_data": [item]}
        if values["acks"] != 0:
            return self.ask(ApiKey.PRODUCE, version, **values)
        # There is no response: check that the connection is still open.
        self.client.send(ApiKey.PRODUCE, version, **{"timeout": TIMEOUT} | values)
        return self.ask(ApiKey.METADATA, 9, topics=[])

    def fetch(self, offset: int = 0, version: int = 11, **changes: Any) -> Any:
        if version >= 13 and "topic_id" not in changes:
            changes["topic_id"] = self.topic_id()
        values = fetch_values(changes.pop("topic", self.topic), offset, **changes)
        return self.ask(ApiKey.FETCH, version, **values)

    def _connect(self) -> None:
        self.client = RawClient(self._servers)
        self.client.socket.settimeout(SOCKET_S)


def keep_everything(bootstrap_servers: str) -> None:
    """Set log.retention.ms=-1 on the embedded broker, as on the real Kafka."""
    change = {"name": "log.retention.ms", "config_operation": 0, "value": "-1"}
    brokers = {"resource_type": 4, "resource_name": "", "configs": [change]}
    with RawClient(bootstrap_servers) as client:
        answer = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[brokers])
    assert answer.responses[0].error_code == 0


def run(scenario: Scenario, bootstrap_servers: str, number: int) -> dict[str, Any]:
    """Run a scenario on a broker and return the responses. An exception is also recorded."""
    world = World(bootstrap_servers, f"compared-{number:04}")
    try:
        scenario.action(world)
    except Exception as error:  # noqa: BLE001 - reported as a difference
        world.seen["raised"] = f"{type(error).__name__}: {error}"
    finally:
        world.close()
    return world.seen
