"""Offsets and entry ids; conversion of records to stream entries and back."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.broker.redis.batch_entry import BatchEntry, build_batches
from spark_kafka_sink.broker.redis.entries import EntryIds, write_fields
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.records.record_batch import BatchHeader, checksum
from spark_kafka_sink.kafka.records.record_decoder import Record, decode_batch

IDS = EntryIds()
QUICK = settings(max_examples=200, deadline=None, database=None)
CONTENT = st.none() | st.binary(max_size=20)
NAMES = st.sampled_from(["a", "b", "", "key", "é", "header.x", "\udcff\udc80"])
HEADERS = st.lists(st.tuples(NAMES, CONTENT), max_size=4).map(tuple)
ROWS = st.tuples(st.integers(0, 2**42), CONTENT, CONTENT, HEADERS)
BATCHES = st.lists(st.lists(ROWS, min_size=1, max_size=5), min_size=1, max_size=4)
Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
BITS = st.integers(1, 20)
TIMES = st.integers(0, 2**42)


def records_of(rows: Sequence[Row], base: int) -> list[Record]:
    return [
        Record(offset=base + number, timestamp=time, key=key, value=value, headers=headers)
        for number, (time, key, value, headers) in enumerate(rows)
    ]


def note_of(records: list[Record], **changes: int) -> BatchEntry:
    header = BatchHeader(
        base_offset=records[0].offset,
        leader_epoch=3,
        last_offset_delta=len(records) - 1,
        base_timestamp=records[0].timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=9,
        producer_epoch=1,
        base_sequence=5,
        record_count=len(records),
    )
    return BatchEntry(header=header._replace(**changes), size=0)


def entries_of(records: list[Record]) -> list[list[Any]]:
    return [[IDS.text(record.offset), write_fields(record)] for record in records]


@QUICK
@given(batches=BATCHES, gap=st.integers(0, 3000))
def test_records_round_trip(batches: list[list[Row]], gap: int) -> None:
    base, written = 1795221391222 << 10, []
    for rows in batches:
        written.append(records_of(rows, base))
        base += len(rows) + gap
    notes = [note_of(records) for records in written]
    entries = [entry for records in written for entry in entries_of(records)]
    built = build_batches(notes, entries, IDS)
    assert [list(decode_batch(batch)) for batch in built] == written
    for batch, note in zip(built, notes, strict=True):
        header = BatchHeader.parse(batch)
        assert header.crc == checksum(batch)
        assert header._replace(length=0, crc=0) == note.header


def test_null_and_empty_differ() -> None:
    record = Record(
        offset=0, timestamp=5, key=None, value=b"", headers=(("x", None), ("x", b""), ("x", b"1"))
    )
    assert write_fields(record) == [
        *(b"value", b"", b"timestamp", b"5"),
        *(b"null-header.x", b"", b"header.x", b"", b"header.x", b"1"),
    ]


def test_compressed_batch_with_append_time_is_returned_uncompressed() -> None:
    records = records_of([(7, None, b"v", ()), (7, b"k", None, ())], 100)
    note = note_of(records, attributes=0x08 | 4, base_timestamp=1, max_timestamp=7)
    (built,) = build_batches([note], entries_of(records), IDS)
    assert BatchHeader.parse(built).attributes == 0x08
    assert list(decode_batch(built)) == records


def test_batch_without_entries_is_empty_and_keeps_its_offsets() -> None:
    """Consumers must be able to skip entries that were deleted in Redis."""
    first, second = records_of([(1, None, b"a", ())], 5), records_of([(1, None, b"b", ())] * 3, 9)
    notes = [note_of(first), note_of(second)]
    built = build_batches(notes, entries_of(second[1:2]), IDS)
    assert [list(decode_batch(batch)) for batch in built] == [[], second[1:2]]
    assert [BatchHeader.parse(batch).last_offset for batch in built] == [5, 11]
    assert [list(decode_batch(batch)) for batch in build_batches(notes, [], IDS)] == [[], []]


def test_entries_without_a_batch_are_skipped() -> None:
    records = records_of([(1, None, b"a", ())], 5)
    foreign = [[IDS.text(offset), [b"value", b"x"]] for offset in (4, 6)]
    entries = [foreign[0], *entries_of(records), foreign[1]]
    (built,) = build_batches([note_of(records)], entries, IDS)
    assert list(decode_batch(built)) == records


@pytest.mark.parametrize("fields", [[], [b"header", b"short"], [b"bytes", b"1"]])
def test_invalid_header_entry(fields: list[bytes]) -> None:
    with pytest.raises(ValueError, match="header"):
        BatchEntry.read(fields)


def test_offset_contains_the_milliseconds_and_the_sequence() -> None:
    ids = EntryIds()
    assert ids.offset(1234567890123, 0) == 1234567890123 << 10 == 1264197519485952
    assert ids.offset(1234567890123, 1) == 1264197519485953
    assert ids.text(1264197519485953) == b"1234567890123-1"


@QUICK
@given(bits=BITS, offset=st.integers(0, 2**63 - 1))
def test_every_offset_has_one_id(bits: int, offset: int) -> None:
    ids = EntryIds(bits)
    assert ids.offset(*ids.parts(offset)) == offset
    assert ids.read(ids.text(offset)) == offset


@QUICK
@given(bits=BITS, milliseconds=TIMES, data=st.data())
def test_every_id_that_fits_has_one_offset(
    bits: int, milliseconds: int, data: st.DataObject
) -> None:
    ids = EntryIds(bits)
    sequence = data.draw(st.integers(0, 2**bits - 1))
    offset = ids.offset(milliseconds, sequence)
    assert ids.parts(offset) == (milliseconds, sequence)
    assert 0 <= offset < 2**63
    with pytest.raises(ValueError, match="needs more than"):
        ids.offset(milliseconds, 2**bits)


@QUICK
@given(bits=BITS, first=TIMES, steps=st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 5000))))
def test_batches_never_overlap_at_any_rate(
    bits: int, first: int, steps: list[tuple[int, int]]
) -> None:
    """Thousands of records per millisecond, or a clock set back: ids only grow."""
    ids, now, end, last_id = EntryIds(bits), first, 0, (-1, 0)
    for move, count in steps:
        now = max(0, now + move)
        base = ids.next_offset(end, now)
        assert base >= end
        assert base == end or ids.parts(base) == (now, 0)
        for offset in sorted({base, base + count - 1}):
            assert ids.parts(offset) > last_id
            assert ids.parts(offset)[1] < 2**bits
            last_id = ids.parts(offset)
        end = base + count


@pytest.mark.parametrize("bits", [0, 21, -1])
def test_bits_out_of_range(bits: int) -> None:
    with pytest.raises(ConfigError, match="sequence_bits"):
        EntryIds(bits)
