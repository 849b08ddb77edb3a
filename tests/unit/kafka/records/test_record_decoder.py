"""Batches are read as by record-by-record code; invalid batches raise only ProtocolError."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.records.compression import compress
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE, BatchHeader, checksum
from spark_kafka_sink.kafka.records.record_decoder import (
    FieldColumns,
    RecordFields,
    decode_batch,
    read_columns,
    read_few,
    read_fields,
)
from spark_kafka_sink.kafka.records.varint import varint
from tests.support import reference
from tests.support.reference import Message, Producer
from tools.compat.scenarios.produce import BODIES, HEADER, Raw

FLAWS = (
    "a third record missing",
    "a second record not counted",
    "a record too long",
    "a record one too long",
    "a record one too short",
    "a record of length 0",
    "a record of length -1",
    "a record of length 2**31-1",
    "a key too long",
    "a varint of six bytes",
    "a value too long",
    "a value too short",
    "too many headers",
    "too few headers",
    "-1 headers",
    "a header key of length -1",
    "a header key too long",
    "a header value too long",
    "zeros after the records",
    "garbage after the records",
    "a third record after the records",
)
COUNTS = (0, 7, 40, 2000)
"""Numbers of valid records before and after the flaw: few are read one by one, many as columns."""
texts = st.one_of(st.none(), st.binary(max_size=300))
records = st.lists(
    st.builds(
        lambda delta, key, value, headers: Raw(
            time=delta, key=sized(key), value=sized(value), headers=encoded_headers(headers)
        ),
        st.integers(-(2**62), 2**62),
        texts,
        texts,
        st.lists(st.tuples(st.text(max_size=5), texts), max_size=3),
    ),
    min_size=1,
    max_size=60,
)
MESSAGES = [
    Message(b"value", key=b"key", headers=((b"h", b"w"), (b"", None)), timestamp=5),
    Message(None, timestamp=-70),
    Message(b"x" * 300, key=b"", timestamp=9),
]


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def encoded_headers(pairs: list[tuple[str, bytes | None]]) -> bytes:
    return varint(len(pairs)) + b"".join(sized(k.encode()) + sized(v) for k, v in pairs)


def section_of(raws: list[Raw]) -> bytes:
    return b"".join(replace(raw, delta=index).bytes() for index, raw in enumerate(raws))


def as_batch(section: bytes, count: int) -> bytes:
    header = BatchHeader(
        last_offset_delta=count - 1, base_timestamp=0, max_timestamp=0, record_count=count
    )
    return header.pack([section]) + section


@given(records)
def test_equals_record_by_record_reading(raws: list[Raw]) -> None:
    section = section_of(raws)
    fields = read_fields(section, len(raws))
    one_by_one = list(decode_batch(as_batch(section, len(raws))))
    assert fields.time_deltas.tolist() == [record.timestamp for record in one_by_one]
    assert fields.offset_deltas.tolist() == [record.offset for record in one_by_one]
    sizes = [-1 if record.key is None else len(record.key) for record in one_by_one]
    assert fields.key_sizes.tolist() == sizes


@pytest.mark.parametrize("longest", [0, 3, 40, 500])
def test_many_records_are_read_like_few(longest: int) -> None:
    sizes = random.Random(longest)
    keys = [bytes(sizes.randint(0, longest)) for _ in range(5000)]
    raws = [
        Raw(key=sized(key), headers=HEADER if index % 7 == 0 else varint(0))
        for index, key in enumerate(keys)
    ]
    fields = read_fields(section_of(raws), len(raws))
    assert fields.offset_deltas.tolist() == list(range(5000))
    assert fields.key_sizes.tolist() == [len(key) for key in keys]


@pytest.mark.parametrize("around", COUNTS)
@pytest.mark.parametrize("name", FLAWS)
def test_flaw_is_found_at_any_position(name: str, around: int) -> None:
    data = BODIES[name].batch(Codec.NONE)
    good = Raw(headers=HEADER).bytes() * around
    count = BatchHeader.parse(data).record_count
    with pytest.raises(ProtocolError):
        read_fields(good + data[HEADER_SIZE:] + good, count + 2 * around)


@pytest.mark.parametrize("around", COUNTS)
def test_unusual_but_valid_records(around: int) -> None:
    good = Raw().bytes() * around
    for name in ("an overlong varint", "a key of length -2", "a header value of length -2"):
        data = BODIES[name].batch(Codec.NONE)
        fields = read_fields(good + data[HEADER_SIZE:] + good, 2 + 2 * around)
        assert (fields.key_sizes[around + 1] < 0) == (name == "a key of length -2")


@given(st.binary(max_size=400), st.integers(1, 60))
def test_garbage_is_rejected_or_read(data: bytes, count: int) -> None:
    try:
        fields = read_fields(data, count)
    except ProtocolError:
        return
    assert len(fields.key_sizes) == count


def rows(
    read: Callable[[memoryview | bytes, int], list[RecordFields] | FieldColumns],
    section: memoryview | bytes,
    count: int,
) -> list[RecordFields] | None:
    """Return the result of a reader, or None if it rejects the section."""
    try:
        decoded = read(section, count)
    except ProtocolError:
        return None
    if isinstance(decoded, list):
        return decoded
    columns = (decoded.time_deltas, decoded.offset_deltas, decoded.key_sizes)
    return [RecordFields(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]


@given(records, st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=3))
def test_few_records_are_read_like_columns(raws: list[Raw], changes: list[tuple[int, int]]) -> None:
    section = bytearray(section_of(raws))
    for place, byte in changes:
        section[place % len(section)] = byte
    for data in (bytes(section), bytes(section[:-1])):
        few = rows(read_few, memoryview(data), len(raws))
        assert few == rows(read_columns, data, len(raws))
        assert (few is None) or (len(few) == len(raws))


@given(st.binary(max_size=60), st.integers(1, 4))
def test_small_garbage_is_rejected_or_read(data: bytes, count: int) -> None:
    assert rows(read_few, data, count) == rows(read_columns, data, count)


@pytest.mark.parametrize("around", COUNTS)
def test_every_truncation_is_found(around: int) -> None:
    section = Raw().bytes() * around + Raw(headers=HEADER, time=10**12).bytes()
    for cut in range(1, 20):
        with pytest.raises(ProtocolError):
            read_fields(section[:-cut], around + 1)


def batch(codec: Codec = Codec.NONE) -> bytes:
    section = compress(codec, reference.records(MESSAGES))
    return reference.batch(MESSAGES, int(codec), section, Producer())


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_undefined_codecs_are_rejected(codec: int) -> None:
    data = bytearray(batch())
    data[22] |= codec
    with pytest.raises(ProtocolError, match=f"codec {codec}"):
        list(decode_batch(bytes(data)))


@given(st.sampled_from(list(Codec)), st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_batches_are_rejected(codec: Codec, data: st.DataObject) -> None:
    damaged = bytearray(batch(codec))
    for _ in range(data.draw(st.integers(1, 4))):
        # The codec and the record count stay, as any of them may be valid.
        at = data.draw(st.integers(HEADER_SIZE, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    del damaged[len(damaged) - data.draw(st.integers(0, 20)) :]
    try:
        records = list(decode_batch(bytes(damaged)))
    except ProtocolError:
        return
    assert len(records) == 3


@given(st.binary(max_size=80))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    with suppress(ProtocolError):
        assert list(decode_batch(data)) == []


def test_header_fields_equal_the_references() -> None:
    data = reference.batch(MESSAGES, 0, reference.records(MESSAGES), Producer(7, 3, 99))
    header = BatchHeader.parse(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 99)
    assert (header.record_count, header.last_offset_delta, header.last_offset) == (3, 2, 2)
    assert (header.base_timestamp, header.max_timestamp) == (5, 9)
    assert header.size == len(data)
    assert header.crc == checksum(data) == reference.crc32c(data[21:])
    flags = (header.is_control, header.is_transactional, header.is_log_append_time)
    assert flags == (False, False, False)
