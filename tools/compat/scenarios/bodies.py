"""Batches with a valid header and invalid records: one flaw each, in every codec.

The records are encoded field by field, so that each field can be invalid by itself. Source of
the layout: Kafka's ``DefaultRecord``.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.records.compression import compress
from spark_kafka_sink.records.record_batch import BatchHeader
from spark_kafka_sink.records.varint import varint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HEADER = varint(1) + varint(1) + b"h" + varint(1) + b"v"
WITH_FLAWS = (Codec.NONE, Codec.GZIP, Codec.ZSTD)
"""Codecs to test: Kafka validates plain and compressed records with different code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Fields of a record; `size` overrides the length field unless None."""

    delta: int = 0
    attributes: int = 0
    time: int = 0
    key: bytes = varint(1) + b"k"
    value: bytes = varint(1) + b"v"
    headers: bytes = varint(0)
    size: int | None = None

    def bytes(self) -> bytes:
        """Return the record preceded by its length."""
        body = struct.pack("b", self.attributes) + varint(self.time) + varint(self.delta)
        body += self.key + self.value + self.headers
        return varint(len(body) if self.size is None else self.size) + body


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A batch of two records, the second of which is `second`, and its surroundings.

    `count` is the count in the header; `behind` follows the last record; `change` is applied to the
    compressed bytes.
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


def _second(**changes: object) -> Body:
    return Body(second=Raw(**{"delta": 1} | changes))  # type: ignore[arg-type]


BODIES: Mapping[str, Body] = {
    "two good records": Body(),
    "good headers": _second(headers=HEADER),
    "a null key": _second(key=varint(-1)),
    "null keys": Body(first=Raw(key=varint(-1)), second=Raw(delta=1, key=varint(-1))),
    "a null value": _second(value=varint(-1)),
    "a null header value": _second(headers=varint(1) + varint(1) + b"h" + varint(-1)),
    "a third record promised": Body(count=3),
    "a second record not promised": Body(count=1),
    "equal offset deltas": _second(delta=0),
    "an offset delta left out": _second(delta=2),
    "offset deltas from 1": Body(first=Raw(delta=1), second=Raw(delta=2)),
    "a negative offset delta": _second(delta=-1),
    "record attributes": _second(attributes=7),
    "a record too long": _second(size=50),
    "a record one too long": _second(size=9),
    "a record one too short": _second(size=7),
    "a record of length 0": _second(size=0),
    "a record of length -1": _second(size=-1),
    "a record of length 2**31-1": _second(size=2**31 - 1),
    "a key too long": _second(key=varint(90) + b"k"),
    "a key of length -2": _second(key=varint(-2)),
    "an overlong varint": _second(key=b"\x82\x80\x80\x00" + b"k"),
    "a varint of six bytes": _second(key=b"\x82\x80\x80\x80\x80\x00" + b"k"),
    "a value too long": _second(value=varint(90) + b"v"),
    "a value too short": _second(value=varint(0) + b"v"),
    "a value of length -2": _second(value=varint(-2)),
    "headers too many": _second(headers=varint(2) + HEADER[1:]),
    "headers too few": _second(headers=varint(0) + HEADER[1:]),
    "-1 headers": _second(headers=varint(-1)),
    "a header key of length -1": _second(headers=varint(1) + varint(-1) + varint(1) + b"v"),
    "a header key too long": _second(headers=varint(1) + varint(99) + b"h" + varint(1) + b"v"),
    "a header key that is no UTF-8": _second(headers=HEADER.replace(b"h", b"\xff")),
    "a header value too long": _second(headers=varint(1) + varint(1) + b"h" + varint(99) + b"v"),
    "a header value of length -2": _second(headers=varint(1) + varint(1) + b"h" + varint(-2)),
    "zeros behind the records": Body(behind=bytes(5)),
    "rubbish behind the records": Body(behind=b"\xff\x01rubbish"),
    "a third record behind the records": Body(behind=Raw(delta=2).bytes()),
    "a later time": Body(second=Raw(delta=1, time=30_000), max_time=30_000),
    "a maximum time too small": Body(second=Raw(delta=1, time=30_000)),
    "a maximum time too large": Body(max_time=500),
    "an earlier time": Body(second=Raw(delta=1, time=-30_000)),
    "a time of tomorrow": Body(second=Raw(delta=1, time=86_400_000), max_time=86_400_000),
    "a time of tomorrow that the header hides": Body(second=Raw(delta=1, time=86_400_000)),
    "a null key and a time of tomorrow": Body(
        first=Raw(key=varint(-1)), second=Raw(delta=1, time=86_400_000), max_time=86_400_000
    ),
    "a time of more than 64 bits": Body(second=Raw(delta=1, time=2**63 - 1)),
}
SQUEEZED: Mapping[str, Body] = {
    "a payload cut by 1": Body(change=lambda data: data[:-1]),
    "a payload cut by 5": Body(change=lambda data: data[:-5]),
    "half a payload": Body(change=lambda data: data[: len(data) // 2]),
    "no payload": Body(change=lambda _: b""),
    "a payload with zeros behind it": Body(change=lambda data: data + bytes(4)),
    "a payload with rubbish behind it": Body(change=lambda data: data + b"rubbish"),
    "a payload twice": Body(change=lambda data: data + data),
    "a payload of another format": Body(change=lambda _: b"no such format at all"),
    "a payload with a wrong byte": Body(change=lambda data: data[:-6] + b"\xa5" + data[-5:]),
}
