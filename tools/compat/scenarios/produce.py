"""Scenarios of Produce."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from uuid import UUID

from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.protocol.versions import ApiKey
from tools.compat.scenarios.bodies import BODIES, SQUEEZED, WITH_FLAWS, Body
from tools.compat.scenarios.plain import BATCHES
from tools.compat.scenarios.world import Scenario, World, play
from tools.support.raw_client import TIMEOUT, batch

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    "an earlier time",
    "a maximum time too small",
    "a time of tomorrow",
    "a null key and a time of tomorrow",
)
STEPS: dict[str, list[tuple[str, int, int, int]]] = {
    "in order": [("p", 0, 0, 2), ("p", 0, 2, 3), ("p", 0, 5, 1)],
    "a repetition": [("p", 0, 0, 2), ("p", 0, 0, 2)],
    "an old repetition": [("p", 0, n, 1) for n in range(5)] + [("p", 0, 0, 1)],
    "a repetition too old": [("p", 0, n, 1) for n in range(7)] + [("p", 0, 0, 1)],
    "a repetition cut differently": [("p", 0, 0, 4), ("p", 0, 0, 2)],
    "the end of a batch again": [("p", 0, 0, 4), ("p", 0, 2, 2)],
    "a gap": [("p", 0, 0, 1), ("p", 0, 2, 1), ("p", 0, 1, 1)],
    "an overlap": [("p", 0, 0, 2), ("p", 0, 1, 2)],
    "not from 0": [("p", 0, 7, 1), ("p", 0, 8, 1)],
    "a first epoch of 5": [("p", 5, 0, 1), ("p", 5, 1, 1)],
    "a first epoch of 5, not from 0": [("p", 5, 3, 1)],
    "a new epoch": [("p", 0, 0, 1), ("p", 1, 0, 1), ("p", 1, 1, 1)],
    "a new epoch, not from 0": [("p", 0, 0, 1), ("p", 1, 1, 1)],
    "an old epoch": [("p", 2, 0, 1), ("p", 1, 1, 1), ("p", 2, 1, 1)],
    "an old epoch's repetition": [("p", 0, 0, 1), ("p", 1, 0, 1), ("p", 0, 0, 1)],
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


@play
def _one(world: World, /, name: str, version: int, **configs: str) -> None:
    world.create(1, **configs)
    world.produce(BATCHES[name](), version)
    world.produce(bytes(batch(1)), version)
    world.fetch(0)


@play
def _sequences(world: World, steps: list[tuple[str, int, int, int]]) -> None:
    world.create()
    for name, epoch, sequence, count in steps:
        world.produce(bytes(batch(count, producer=(world.producer(name), epoch, sequence))))
    world.fetch(0)


@play
def _acks(world: World, acks: int, version: int, *, good: bool) -> None:
    world.create()
    records = bytes(batch(2)) if good else BATCHES["a wrong checksum"]()
    world.produce(records, version, acks=acks)
    world.fetch(0)


@play
def _place(world: World, /, version: int, **changes: object) -> None:
    world.create()
    world.produce(bytes(batch(1)), version, **changes)


@play
def _none(world: World, /, version: int, **values: object) -> None:
    world.ask(ApiKey.PRODUCE, version, **{"acks": -1, "timeout": TIMEOUT} | values)


@play
def _twice(world: World, *batches: bytes | None, version: int = 9, one_topic: bool = True) -> None:
    """Send the same partition twice in a request, or in several items of its topic."""
    world.create()
    data = [{"index": 0, "records": records} for records in batches]
    parts = [data] if one_topic else [[one] for one in data]
    place = {"topic_id": world.topic_id()} if version >= 13 else {"name": world.topic}
    items = [place | {"partition_data": part} for part in parts]
    world.ask(ApiKey.PRODUCE, version, acks=-1, timeout=TIMEOUT, topic_data=items)
    world.fetch(0)


def _twice_scenarios() -> Iterator[Scenario]:
    good, other = bytes(batch(1)), bytes(batch(2))
    crc, magic = BATCHES["a wrong checksum"](), BATCHES["magic 1"]()
    yield Scenario("produce, a partition twice", _twice(good, other))
    yield Scenario("produce, a topic twice", _twice(good, other, one_topic=False))
    yield Scenario("produce 13, a partition twice", _twice(good, other, version=13))
    yield Scenario("produce, a partition thrice", _twice(other, good, good + other))
    yield Scenario("produce, good and a wrong checksum", _twice(good, crc))
    yield Scenario("produce, a wrong checksum and good", _twice(crc, good))
    yield Scenario("produce, good and magic 1", _twice(good, magic))
    yield Scenario("produce, magic 1 and good", _twice(magic, good))
    yield Scenario("produce, good and no bytes", _twice(good, b""))


def _partly(world: World) -> None:
    """Send one valid, one broken, and one missing partition."""
    world.create(2)
    broken = BATCHES["a wrong checksum"]()
    data = [
        {"index": index, "records": records}
        for index, records in ((0, bytes(batch(2))), (1, broken), (2, bytes(batch(1))))
    ]
    item = {"name": world.topic, "partition_data": data}
    world.ask(ApiKey.PRODUCE, 9, acks=-1, timeout=TIMEOUT, topic_data=[item])


def _half_an_old_time(world: World) -> None:
    """Send records with different times, one of them not allowed."""
    world.create(message_timestamp_before_max_ms="1000000")
    data = batch(2)
    struct.pack_into(">q", data, 27, 5)
    world.produce(bytes(data))


TOPICS = {
    "LogAppendTime": {"message_timestamp_type": "LogAppendTime"},
    "compact": {"cleanup_policy": "compact"},
    "max.message.bytes=200": {"max_message_bytes": "200"},
    "compression.type=gzip": {"compression_type": "gzip"},
    "compression.type=uncompressed": {"compression_type": "uncompressed"},
    "min.insync.replicas=2": {"min_insync_replicas": "2"},
}


@play
def _records(world: World, /, body: Body, codec: Codec, **configs: str) -> None:
    world.create(1, **configs)
    world.produce(body.batch(codec))
    world.fetch(0)


def _record_scenarios() -> Iterator[Scenario]:
    """Return scenarios of the records in a batch."""
    for name, body in BODIES.items():
        for codec in WITH_FLAWS:
            yield Scenario(f"records, {codec.name.lower()}, {name}", _records(body, codec))
    for name, body in SQUEEZED.items():
        for codec in Codec:
            yield Scenario(f"records, {codec.name.lower()}, {name}", _records(body, codec))
    for config, configs in RECORD_TOPICS.items():
        for name in RECORDS_THERE:
            for codec in WITH_FLAWS:
                play = _records(BODIES[name], codec, **configs)
                yield Scenario(f"records to {config}, {codec.name.lower()}, {name}", play)


def produce_scenarios() -> Iterator[Scenario]:
    for name in BATCHES:
        for version in (9,) if name == "null" else (3, 9, 13):
            yield Scenario(f"produce {version}, {name}", _one(name, version))
    for topic, configs in TOPICS.items():
        for name in ("one record", "100 records", "no key", "time 0", "gzip", "two hours ahead"):
            yield Scenario(f"produce 9 to {topic}, {name}", _one(name, 9, **configs))
    for name, steps in STEPS.items():
        yield Scenario(f"sequences, {name}", _sequences(steps))
    for acks in (-1, 0, 1, 2, -2, 32767):
        for version in (3, 9):
            yield Scenario(f"produce {version}, acks={acks}", _acks(acks, version, good=True))
            name = f"produce {version}, acks={acks}, a wrong checksum"
            yield Scenario(name, _acks(acks, version, good=False))
    for version in range(3, 14):
        yield Scenario(f"produce {version}, zstd's first", _one("zstd", version))
        yield Scenario(f"produce {version}, partition 5 of 1", _place(version, partition=5))
        yield Scenario(f"produce {version}, partition -1", _place(version, partition=-1))
        yield Scenario(f"produce {version}, no topics", _none(version, topic_data=[]))
    for version in (3, 9, 12):
        yield Scenario(f"produce {version}, no such topic", _place(version, topic="not-there"))
    yield Scenario("produce 13, no such topic id", _place(13, topic_id=UUID(int=9)))
    yield from _twice_scenarios()
    yield from _record_scenarios()
    yield Scenario("produce, one partition of three is good", _partly)
    yield Scenario("produce, one old time", _half_an_old_time)
