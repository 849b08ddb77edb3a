"""Valid and invalid record batches to send to both brokers."""

import struct
import time
from collections.abc import Callable, Mapping

from spark_kafka_sink.kafka.records.record_batch import CRC_OFFSET, HEADER_SIZE, checksum
from tools.support.raw_client import batch

# Offsets of fields of the batch header.
_BASE_OFFSET, _LENGTH, _LEADER_EPOCH, _MAGIC, _ATTRIBUTES = 0, 8, 12, 16, 21
_LAST_DELTA, _MAX_TIME = 23, 35
_PRODUCER, _EPOCH, _SEQUENCE, _COUNT = 43, 51, 53, 57
_HOUR_MS = 3_600_000


def _changed(offset: int, kind: str, value: int, *, count: int = 2, crc: bool = True) -> bytes:
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
    struct.pack_into(">i", data, _LENGTH, len(data) - 12)
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
    "magic 0": lambda: _changed(_MAGIC, ">b", 0),
    "magic 1": lambda: _changed(_MAGIC, ">b", 1),
    "magic 3": lambda: _changed(_MAGIC, ">b", 3),
    "magic -1": lambda: _changed(_MAGIC, ">b", -1),
    "a base offset of 7": lambda: _changed(_BASE_OFFSET, ">q", 7),
    "a leader epoch of 9": lambda: _changed(_LEADER_EPOCH, ">i", 9),
    "a length of 0": lambda: _changed(_LENGTH, ">i", 0),
    "a negative length": lambda: _changed(_LENGTH, ">i", -5),
    "a length that is too large": lambda: _changed(_LENGTH, ">i", 10_000),
    "a length that is too small by one": lambda: _changed(_LENGTH, ">i", len(batch(2)) - 13),
    "codec 5": lambda: _changed(_ATTRIBUTES, ">h", 5),
    "codec 7": lambda: _changed(_ATTRIBUTES, ">h", 7),
    "invalid gzip data": lambda: _changed(_ATTRIBUTES, ">h", 1),
    "the log append time bit": lambda: _changed(_ATTRIBUTES, ">h", 8),
    "the transactional bit": lambda: _changed(_ATTRIBUTES, ">h", 0x10),
    "the control bit": lambda: _changed(_ATTRIBUTES, ">h", 0x20),
    "the delete horizon bit": lambda: _changed(_ATTRIBUTES, ">h", 0x40),
    "an unknown bit": lambda: _changed(_ATTRIBUTES, ">h", 0x80),
    "a last offset delta that is too large": lambda: _changed(_LAST_DELTA, ">i", 5),
    "a last offset delta of -1": lambda: _changed(_LAST_DELTA, ">i", -1),
    "no records": lambda: _changed(_COUNT, ">i", 0),
    "-1 records": lambda: _changed(_COUNT, ">i", -1),
    "a record count that is too large": lambda: _changed(_COUNT, ">i", 3),
    "a producer id without a sequence": lambda: _changed(_PRODUCER, ">q", 5),
    "an epoch without a producer id": lambda: _changed(_EPOCH, ">h", 3),
    "a sequence without a producer id": lambda: _changed(_SEQUENCE, ">i", 3),
    "time 0": lambda: bytes(batch(2, timestamp=0)),
    "time -1": lambda: bytes(batch(2, timestamp=-1)),
    "half an hour ahead": lambda: bytes(batch(2, timestamp=_now() + _HOUR_MS // 2)),
    "two hours ahead": lambda: bytes(batch(2, timestamp=_now() + 2 * _HOUR_MS)),
    "a year ago": lambda: bytes(batch(2, timestamp=_now() - 365 * 24 * _HOUR_MS)),
    "a wrong maximum timestamp": lambda: _changed(_MAX_TIME, ">q", 99),
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
