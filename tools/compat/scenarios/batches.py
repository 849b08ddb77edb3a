"""Batches, good and bad, by a name that says what is special about them."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

from spark_kafka_sink.records.record_batch import CRC_OFFSET, checksum
from tools.support.raw_client import batch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BASE_OFFSET, LENGTH, LEADER_EPOCH, MAGIC, ATTRIBUTES = 0, 8, 12, 16, 21
LAST_DELTA, BASE_TIME, MAX_TIME, PRODUCER, EPOCH, SEQUENCE, COUNT = 23, 27, 35, 43, 51, 53, 57
HOUR_MS = 3_600_000


def changed(offset: int, kind: str, value: int, *, count: int = 2, crc: bool = True) -> bytes:
    """A good batch with one field of its header replaced."""
    data = batch(count)
    struct.pack_into(kind, data, offset, value)
    if crc and offset > CRC_OFFSET:
        struct.pack_into(">I", data, CRC_OFFSET, checksum(memoryview(data)))
    return bytes(data)


def _body(change: Callable[[bytearray], None]) -> bytes:
    """A batch of two records with another body, and the right length and checksum."""
    data = batch(2)
    change(data)
    struct.pack_into(">i", data, LENGTH, len(data) - 12)
    struct.pack_into(">I", data, CRC_OFFSET, checksum(memoryview(data)))
    return bytes(data)


def _cut_body(data: bytearray) -> None:
    del data[-3:]


def _lengthen(data: bytearray) -> None:
    data.extend(b"\0\0\0")


def _wrong_record_length(data: bytearray) -> None:
    data[61] = 0x7E


def _now() -> int:
    return int(time.time() * 1000)


def _broken_crc() -> bytes:
    data = batch(2)
    data[-1] ^= 0xFF
    return bytes(data)


BATCHES: Mapping[str, Callable[[], bytes | None]] = {
    "one record": lambda: bytes(batch(1)),
    "100 records": lambda: bytes(batch(100)),
    "null": lambda: None,
    "no bytes": lambda: b"",
    "60 bytes": lambda: bytes(batch(1)[:60]),
    "a header alone": lambda: bytes(batch(1)[:61]),
    "two batches": lambda: bytes(batch(1) + batch(2)),
    "a batch and rubbish": lambda: bytes(batch(1) + b"\0" * 20),
    "a batch cut short": lambda: bytes(batch(5)[:-4]),
    "a wrong checksum": _broken_crc,
    "magic 0": lambda: changed(MAGIC, ">b", 0),
    "magic 1": lambda: changed(MAGIC, ">b", 1),
    "magic 3": lambda: changed(MAGIC, ">b", 3),
    "magic -1": lambda: changed(MAGIC, ">b", -1),
    "a base offset of 7": lambda: changed(BASE_OFFSET, ">q", 7),
    "a leader epoch of 9": lambda: changed(LEADER_EPOCH, ">i", 9),
    "a length of 0": lambda: changed(LENGTH, ">i", 0),
    "a negative length": lambda: changed(LENGTH, ">i", -5),
    "a length too large": lambda: changed(LENGTH, ">i", 10_000),
    "a length one too small": lambda: changed(LENGTH, ">i", len(batch(2)) - 13),
    "codec 5": lambda: changed(ATTRIBUTES, ">h", 5),
    "codec 7": lambda: changed(ATTRIBUTES, ">h", 7),
    "gzip that is none": lambda: changed(ATTRIBUTES, ">h", 1),
    "the log append time bit": lambda: changed(ATTRIBUTES, ">h", 8),
    "the transactional bit": lambda: changed(ATTRIBUTES, ">h", 0x10),
    "the control bit": lambda: changed(ATTRIBUTES, ">h", 0x20),
    "the delete horizon bit": lambda: changed(ATTRIBUTES, ">h", 0x40),
    "an unknown bit": lambda: changed(ATTRIBUTES, ">h", 0x80),
    "a last offset delta too large": lambda: changed(LAST_DELTA, ">i", 5),
    "a last offset delta of -1": lambda: changed(LAST_DELTA, ">i", -1),
    "no records": lambda: changed(COUNT, ">i", 0),
    "-1 records": lambda: changed(COUNT, ">i", -1),
    "more records than there are": lambda: changed(COUNT, ">i", 3),
    "a producer id without sequence": lambda: changed(PRODUCER, ">q", 5),
    "an epoch without producer id": lambda: changed(EPOCH, ">h", 3),
    "a sequence without producer id": lambda: changed(SEQUENCE, ">i", 3),
    "time 0": lambda: bytes(batch(2, timestamp=0)),
    "time -1": lambda: bytes(batch(2, timestamp=-1)),
    "half an hour ahead": lambda: bytes(batch(2, timestamp=_now() + HOUR_MS // 2)),
    "two hours ahead": lambda: bytes(batch(2, timestamp=_now() + 2 * HOUR_MS)),
    "a year ago": lambda: bytes(batch(2, timestamp=_now() - 365 * 24 * HOUR_MS)),
    "a wrong maximum time": lambda: changed(MAX_TIME, ">q", 99),
    "gzip": lambda: bytes(batch(3, codec=1)),
    "snappy": lambda: bytes(batch(3, codec=2)),
    "lz4": lambda: bytes(batch(3, codec=3)),
    "zstd": lambda: bytes(batch(3, codec=4)),
    "no key": lambda: bytes(batch(2, key=None)),
    "900 KB": lambda: bytes(batch(1, value=b"x" * 900_000)),
    "2 MB": lambda: bytes(batch(1, value=b"x" * 2_000_000)),
    "a body cut short": lambda: _body(_cut_body),
    "a body too long": lambda: _body(_lengthen),
    "a wrong record length": lambda: _body(_wrong_record_length),
}
