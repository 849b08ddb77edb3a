"""Scenarios with Produce, Fetch, ListOffsets and OffsetForLeaderEpoch."""

import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.compression import compress
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.kafka.records.varint import varint
from tools.compat.scenarios.batches import BATCHES
from tools.compat.scenarios.scenario import OWN, Scenario, ScenarioRun, action, asks
from tools.support.raw_client import batch, produce

HEADER = varint(1) + varint(1) + b"h" + varint(1) + b"v"
WITH_FLAWS = (Codec.NONE, Codec.GZIP, Codec.ZSTD)
"""Codecs for invalid records. Kafka validates uncompressed and compressed records differently."""
MAX = 2**31 - 1
RECORD_TOPICS: dict[str, dict[str, str]] = {
    "cleanup.policy=compact": {"cleanup_policy": "compact"},
    "LogAppendTime": {"message_timestamp_type": "LogAppendTime"},
    "compression.type=lz4": {"compression_type": "lz4"},
    "a time limit": {
        "message_timestamp_before_max_ms": "10000",
        "message_timestamp_after_max_ms": "10000",
    },
}
RECORDS_THERE = (
    "two good records",
    "a null key",
    "null keys",
    "a key of length -2",
    "a value too long",
    "an offset delta left out",
    "a later time",
    "an earlier timestamp",
    "a maximum timestamp that is too small",
    "tomorrow's timestamp",
    "a null key and tomorrow's timestamp",
)
STEPS: dict[str, list[tuple[str, int, int, int]]] = {
    "in order": [("p", 0, 0, 2), ("p", 0, 2, 3), ("p", 0, 5, 1)],
    "a repetition": [("p", 0, 0, 2), ("p", 0, 0, 2)],
    "an old duplicate": [("p", 0, n, 1) for n in range(5)] + [("p", 0, 0, 1)],
    "a duplicate that is too old": [("p", 0, n, 1) for n in range(7)] + [("p", 0, 0, 1)],
    "a duplicate with a different range": [("p", 0, 0, 4), ("p", 0, 0, 2)],
    "the end of a batch again": [("p", 0, 0, 4), ("p", 0, 2, 2)],
    "a gap": [("p", 0, 0, 1), ("p", 0, 2, 1), ("p", 0, 1, 1)],
    "an overlap": [("p", 0, 0, 2), ("p", 0, 1, 2)],
    "not from 0": [("p", 0, 7, 1), ("p", 0, 8, 1)],
    "a first epoch of 5": [("p", 5, 0, 1), ("p", 5, 1, 1)],
    "a first epoch of 5, not from 0": [("p", 5, 3, 1)],
    "a new epoch": [("p", 0, 0, 1), ("p", 1, 0, 1), ("p", 1, 1, 1)],
    "a new epoch, not from 0": [("p", 0, 0, 1), ("p", 1, 1, 1)],
    "an old epoch": [("p", 2, 0, 1), ("p", 1, 1, 1), ("p", 2, 1, 1)],
    "a duplicate of an old epoch": [("p", 0, 0, 1), ("p", 1, 0, 1), ("p", 0, 0, 1)],
    "two producers": [("p", 0, 0, 1), ("q", 0, 0, 1), ("p", 0, 1, 1), ("q", 0, 1, 1)],
    "sequences that wrap": [("p", 0, MAX - 1, 3), ("p", 0, 1, 1)],
    "sequences that wrap, repeated": [("p", 0, MAX, 2), ("p", 0, MAX, 2)],
    "sequences that wrap, a gap": [("p", 0, MAX, 1), ("p", 0, 1, 1)],
    "the highest epoch": [("p", 32767, 0, 1), ("p", 32767, 1, 1)],
    "an epoch of -1": [("p", -1, 0, 1)],
    "a sequence of -1": [("p", 0, -1, 1)],
    "a sequence of -2": [("p", 0, -2, 1)],
    "after a gap and a new epoch": [("p", 0, 0, 1), ("p", 0, 9, 1), ("p", 1, 0, 1)],
}
TOPICS = {
    "LogAppendTime": {"message_timestamp_type": "LogAppendTime"},
    "compact": {"cleanup_policy": "compact"},
    "max.message.bytes=200": {"max_message_bytes": "200"},
    "compression.type=gzip": {"compression_type": "gzip"},
    "compression.type=uncompressed": {"compression_type": "uncompressed"},
    "min.insync.replicas=2": {"min_insync_replicas": "2"},
}
_FETCHES: dict[str, dict[str, object]] = {
    "from the start": {},
    "inside a batch": {"offset": 3},
    "at the end": {"offset": 7},
    "behind the end": {"offset": 8},
    "far after the end": {"offset": 1 << 40},
    "offset -1": {"offset": -1},
    "epoch 0": {"epoch": 0},
    "epoch 7": {"epoch": 7},
    "epoch -5": {"epoch": -5},
    "at most 1 byte": {"max_bytes": 1},
    "at most 0 bytes": {"max_bytes": 0},
    "at most -1 bytes": {"max_bytes": -1},
    "at most 1 byte per partition": {"offset": 2, "partition_max_bytes": 1},
    "at most 200 bytes per partition": {"partition_max_bytes": 200},
    "at most -1 bytes a partition": {"offset": 2, "partition_max_bytes": -1},
    "at least 0 bytes": {"offset": 7, "min_bytes": 0, "max_wait": timedelta(milliseconds=300)},
    "waiting for much": {"min_bytes": 1 << 20, "max_wait": timedelta(milliseconds=100)},
    "read committed": {"isolation_level": 1},
    "isolation level 3": {"isolation_level": 3},
    "an unknown session": {"session_id": 99, "session_epoch": 1},
    "no session, of an id": {"session_id": 99, "session_epoch": -1},
    "the next of no session": {"session_id": 0, "session_epoch": 1},
    "a negative session epoch": {"session_id": 99, "session_epoch": -7},
}
TIMES = (-6, -5, -4, -3, -2, -1, 0, 1_000, 1_500, 2_000, 3_001, 1 << 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """The fields of a record; `size` replaces the length field unless it is None."""

    delta: int = 0
    attributes: int = 0
    time: int = 0
    key: bytes = varint(1) + b"k"
    value: bytes = varint(1) + b"v"
    headers: bytes = varint(0)
    size: int | None = None

    def bytes(self) -> bytes:
        """Return the record, preceded by its length."""
        body = struct.pack("b", self.attributes) + varint(self.time) + varint(self.delta)
        body += self.key + self.value + self.headers
        return varint(len(body) if self.size is None else self.size) + body


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The content of a batch with two records.

    `count` is the record count in the header. `behind` is appended to the records. `change` is
    applied to the compressed bytes.
    """

    first: Raw = Raw()
    second: Raw = Raw(delta=1)
    count: int = 2
    behind: bytes = b""
    max_time: int = 0
    change: Callable[[bytes], bytes] = bytes

    def batch(self, codec: Codec) -> bytes:
        """Return the whole batch with the current time and a correct checksum."""
        section = self.first.bytes() + self.second.bytes() + self.behind
        wire = self.change(compress(codec, section))
        now = int(time.time() * 1000)
        header = BatchHeader(
            attributes=codec,
            last_offset_delta=self.count - 1,
            base_timestamp=now,
            max_timestamp=now + self.max_time,
            record_count=self.count,
        )
        return header.pack([wire]) + wire


SQUEEZED: Mapping[str, Body] = {
    "a payload cut by 1": Body(change=lambda data: data[:-1]),
    "a payload cut by 5": Body(change=lambda data: data[:-5]),
    "half a payload": Body(change=lambda data: data[: len(data) // 2]),
    "no payload": Body(change=lambda _: b""),
    "a payload followed by zeros": Body(change=lambda data: data + bytes(4)),
    "a payload followed by garbage": Body(change=lambda data: data + b"rubbish"),
    "a payload twice": Body(change=lambda data: data + data),
    "a payload in a different format": Body(change=lambda _: b"no such format at all"),
    "a payload with a wrong byte": Body(change=lambda data: data[:-6] + b"\xa5" + data[-5:]),
}


def _second_record(**changes: object) -> Body:
    return Body(second=Raw(**{"delta": 1} | changes))  # type: ignore[arg-type]


BODIES: Mapping[str, Body] = {
    "two good records": Body(),
    "good headers": _second_record(headers=HEADER),
    "a null key": _second_record(key=varint(-1)),
    "null keys": Body(first=Raw(key=varint(-1)), second=Raw(delta=1, key=varint(-1))),
    "a null value": _second_record(value=varint(-1)),
    "a null header value": _second_record(headers=varint(1) + varint(1) + b"h" + varint(-1)),
    "a third record missing": Body(count=3),
    "a second record not counted": Body(count=1),
    "equal offset deltas": _second_record(delta=0),
    "an offset delta left out": _second_record(delta=2),
    "offset deltas from 1": Body(first=Raw(delta=1), second=Raw(delta=2)),
    "a negative offset delta": _second_record(delta=-1),
    "record attributes": _second_record(attributes=7),
    "a record too long": _second_record(size=50),
    "a record one too long": _second_record(size=9),
    "a record one too short": _second_record(size=7),
    "a record of length 0": _second_record(size=0),
    "a record of length -1": _second_record(size=-1),
    "a record of length 2**31-1": _second_record(size=2**31 - 1),
    "a key too long": _second_record(key=varint(90) + b"k"),
    "a key of length -2": _second_record(key=varint(-2)),
    "an overlong varint": _second_record(key=b"\x82\x80\x80\x00" + b"k"),
    "a varint of six bytes": _second_record(key=b"\x82\x80\x80\x80\x80\x00" + b"k"),
    "a value too long": _second_record(value=varint(90) + b"v"),
    "a value too short": _second_record(value=varint(0) + b"v"),
    "a value of length -2": _second_record(value=varint(-2)),
    "too many headers": _second_record(headers=varint(2) + HEADER[1:]),
    "too few headers": _second_record(headers=varint(0) + HEADER[1:]),
    "-1 headers": _second_record(headers=varint(-1)),
    "a header key of length -1": _second_record(headers=varint(1) + varint(-1) + varint(1) + b"v"),
    "a header key too long": _second_record(
        headers=varint(1) + varint(99) + b"h" + varint(1) + b"v"
    ),
    "a header key that is not UTF-8": _second_record(headers=HEADER.replace(b"h", b"\xff")),
    "a header value too long": _second_record(
        headers=varint(1) + varint(1) + b"h" + varint(99) + b"v"
    ),
    "a header value of length -2": _second_record(
        headers=varint(1) + varint(1) + b"h" + varint(-2)
    ),
    "zeros after the records": Body(behind=bytes(5)),
    "garbage after the records": Body(behind=b"\xff\x01rubbish"),
    "a third record after the records": Body(behind=Raw(delta=2).bytes()),
    "a later time": Body(second=Raw(delta=1, time=30_000), max_time=30_000),
    "a maximum timestamp that is too small": Body(second=Raw(delta=1, time=30_000)),
    "a maximum timestamp that is too large": Body(max_time=500),
    "an earlier timestamp": Body(second=Raw(delta=1, time=-30_000)),
    "tomorrow's timestamp": Body(second=Raw(delta=1, time=86_400_000), max_time=86_400_000),
    "tomorrow's timestamp, but not in the header": Body(second=Raw(delta=1, time=86_400_000)),
    "a null key and tomorrow's timestamp": Body(
        first=Raw(key=varint(-1)), second=Raw(delta=1, time=86_400_000), max_time=86_400_000
    ),
    "a timestamp of more than 64 bits": Body(second=Raw(delta=1, time=2**63 - 1)),
}


@action
def _batch_then_valid(run: ScenarioRun, /, name: str, version: int, **configs: str) -> None:
    run.create(1, **configs)
    run.produce(BATCHES[name](), version)
    run.produce(bytes(batch(1)), version)
    run.fetch(0)


@action
def _sequences(run: ScenarioRun, steps: list[tuple[str, int, int, int]]) -> None:
    run.create()
    for name, epoch, sequence, count in steps:
        run.produce(bytes(batch(count, producer=(run.producer(name), epoch, sequence))))
    run.fetch(0)


@action
def _acks(run: ScenarioRun, acks: int, version: int, *, good: bool) -> None:
    run.create()
    records = bytes(batch(2)) if good else BATCHES["a wrong checksum"]()
    run.produce(records, version, acks=acks)
    run.fetch(0)


@action
def _place(run: ScenarioRun, /, version: int, **changes: object) -> None:
    run.create()
    run.produce(bytes(batch(1)), version, **changes)


@action
def _twice(
    run: ScenarioRun, *batches: bytes | None, version: int = 9, one_topic: bool = True
) -> None:
    """Send a request that contains a partition several times, in one or several topic items."""
    run.create()
    data = [{"index": 0, "records": records} for records in batches]
    parts = [data] if one_topic else [[part] for part in data]
    place = {"topic_id": run.topic_id()} if version >= 13 else {"name": run.topic}
    items = [place | {"partition_data": part} for part in parts]
    run.ask(ApiKey.PRODUCE, version, acks=-1, topic_data=items)
    run.fetch(0)


def _twice_scenarios() -> Iterator[Scenario]:
    good, other = bytes(batch(1)), bytes(batch(2))
    crc, magic = BATCHES["a wrong checksum"](), BATCHES["magic 1"]()
    yield Scenario("produce, a topic twice", _twice(good, other, one_topic=False))
    yield Scenario("produce 13, a partition twice", _twice(good, other, version=13))
    repeated: dict[str, tuple[bytes | None, ...]] = {
        "a partition twice": (good, other),
        "a partition three times": (other, good, good + other),
        "good and a wrong checksum": (good, crc),
        "a wrong checksum and good": (crc, good),
        "good and magic 1": (good, magic),
        "magic 1 and good": (magic, good),
        "good and no bytes": (good, b""),
    }
    for name, batches in repeated.items():
        yield Scenario(f"produce, {name}", _twice(*batches))


def _partly(run: ScenarioRun) -> None:
    """Send a valid batch, an invalid batch, and a batch for a missing partition in one request."""
    run.create(2)
    broken = BATCHES["a wrong checksum"]()
    data = [
        {"index": index, "records": records}
        for index, records in ((0, bytes(batch(2))), (1, broken), (2, bytes(batch(1))))
    ]
    item = {"name": run.topic, "partition_data": data}
    run.ask(ApiKey.PRODUCE, 9, acks=-1, topic_data=[item])


def _half_an_old_time(run: ScenarioRun) -> None:
    """Send records with different timestamps, one of which is out of range."""
    run.create(message_timestamp_before_max_ms="1000000")
    data = batch(2)
    struct.pack_into(">q", data, 27, 5)
    run.produce(bytes(data))


@action
def _records(run: ScenarioRun, /, body: Body, codec: Codec, **configs: str) -> None:
    run.create(1, **configs)
    run.produce(body.batch(codec))
    run.fetch(0)


def _record_scenarios() -> Iterator[Scenario]:
    """Yield scenarios that each write a batch with a different kind of record."""
    for name, body in BODIES.items():
        for codec in WITH_FLAWS:
            yield Scenario(f"records, {codec.name.lower()}, {name}", _records(body, codec))
    for name, body in SQUEEZED.items():
        for codec in Codec:
            yield Scenario(f"records, {codec.name.lower()}, {name}", _records(body, codec))
    for config, configs in RECORD_TOPICS.items():
        for name in RECORDS_THERE:
            for codec in WITH_FLAWS:
                action = _records(BODIES[name], codec, **configs)
                yield Scenario(f"records to {config}, {codec.name.lower()}, {name}", action)


def produce_scenarios() -> Iterator[Scenario]:
    for name in BATCHES:
        for version in (9,) if name == "null" else (3, 9, 13):
            yield Scenario(f"produce {version}, {name}", _batch_then_valid(name, version))
    for topic, configs in TOPICS.items():
        for name in ("one record", "100 records", "no key", "time 0", "gzip", "two hours ahead"):
            yield Scenario(f"produce 9 to {topic}, {name}", _batch_then_valid(name, 9, **configs))
    for name, steps in STEPS.items():
        yield Scenario(f"sequences, {name}", _sequences(steps))
    for acks in (-1, 0, 1, 2, -2, 32767):
        for version in (3, 9):
            yield Scenario(f"produce {version}, acks={acks}", _acks(acks, version, good=True))
            name = f"produce {version}, acks={acks}, a wrong checksum"
            yield Scenario(name, _acks(acks, version, good=False))
    for version in range(3, 14):
        yield Scenario(f"produce {version}, zstd's first", _batch_then_valid("zstd", version))
        yield Scenario(f"produce {version}, partition 5 of 1", _place(version, partition=5))
        yield Scenario(f"produce {version}, partition -1", _place(version, partition=-1))
        action = asks(ApiKey.PRODUCE, version, {"acks": -1, "topic_data": []})
        yield Scenario(f"produce {version}, no topics", action)
    for version in (3, 9, 12):
        yield Scenario(f"produce {version}, no such topic", _place(version, topic="not-there"))
    yield Scenario("produce 13, no such topic id", _place(13, topic_id=UUID(int=9)))
    yield from _twice_scenarios()
    yield from _record_scenarios()
    yield Scenario("produce, one partition of three is good", _partly)
    yield Scenario("produce, one old time", _half_an_old_time)


def _filled(run: ScenarioRun) -> None:
    """Write offsets 0 to 1 with timestamp 1000, 2 to 4 with 3000, and 5 to 6 with 2000."""
    run.create()
    for count, timestamp in ((2, 1_000), (3, 3_000), (2, 2_000)):
        produce(run.client, run.topic, batch(count, timestamp=timestamp))


@action
def _fetch(run: ScenarioRun, version: int, changes: dict[str, Any]) -> None:
    _filled(run)
    run.fetch(version=version, **changes)


def _ask_offset(
    run: ScenarioRun, version: int, timestamp: int, *, epoch: int = -1, partition: int = 0
) -> None:
    place = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
    topics = [{"name": OWN, "partitions": [place]}]
    run.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=topics)


@action
def _list(run: ScenarioRun, /, version: int, timestamp: int, **changes: int) -> None:
    _filled(run)
    _ask_offset(run, version, timestamp, **changes)


def _list_empty(run: ScenarioRun) -> None:
    run.create()
    for timestamp in TIMES:
        _ask_offset(run, 9, timestamp)


@action
def _epochs(run: ScenarioRun, version: int) -> None:
    _filled(run)
    for current, epoch in ((-1, 0), (0, 0), (-1, 5), (-1, -1), (7, 0)):
        requested = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
        topics = [{"topic": OWN, "partitions": [requested]}]
        run.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)


@action
def _delete_records(run: ScenarioRun, version: int) -> None:
    _filled(run)
    for offset in (3, 99, -5, 2, -1):
        partitions = [{"partition_index": 0, "offset": offset}]
        topics = [{"name": OWN, "partitions": partitions}]
        run.ask(ApiKey.DELETE_RECORDS, version, topics=topics)
        run.fetch(3)


def _fetch_scenarios() -> Iterator[Scenario]:
    for name, changes in _FETCHES.items():
        for version in (4, 11, 17):
            yield Scenario(f"fetch {version}, {name}", _fetch(version, changes))
    for version in range(4, 18):
        yield Scenario(f"fetch {version}, everything", _fetch(version, {}))
    for version in (4, 12):
        yield Scenario(f"fetch {version}, no such topic", _fetch(version, {"topic": "not-there"}))
    yield Scenario("fetch 13, no such topic id", _fetch(13, {"topic_id": UUID(int=9)}))


def read_scenarios() -> Iterator[Scenario]:
    """Yield all scenarios that read records or offsets."""
    yield from _fetch_scenarios()
    for version in range(1, 11):
        for timestamp in TIMES if version in {1, 5, 7, 8, 9, 10} else (-1, -2, 1_500):
            yield Scenario(f"list offsets {version}, {timestamp}", _list(version, timestamp))
    for epoch in (0, 7):
        yield Scenario(f"list offsets 9, epoch {epoch}", _list(9, -1, epoch=epoch))
    for partition in (-1, 5):
        yield Scenario(f"list offsets 9, partition {partition}", _list(9, -1, partition=partition))
    yield Scenario("list offsets 9, an empty partition", _list_empty)
    for version in (2, 3, 4):
        yield Scenario(f"offset for leader epoch {version}", _epochs(version))
    for version in range(3):
        yield Scenario(f"delete records {version}", _delete_records(version))
