"""Conversion of records to stream entries and back, without a server."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.broker.redis.entries import EntryIds, write_fields
from spark_kafka_sink.broker.redis.streams import BatchEntry, build_batches
from spark_kafka_sink.kafka.records.record_batch import BatchHeader, checksum
from spark_kafka_sink.kafka.records.record_decoder import Record, read_records

IDS = EntryIds()
QUICK = settings(max_examples=100, deadline=None, database=None)
CONTENT = st.none() | st.binary(max_size=20)
NAMES = st.sampled_from(["a", "b", "", "key", "é", "header.x"])
HEADERS = st.lists(st.tuples(NAMES, CONTENT), max_size=4).map(tuple)
ROWS = st.tuples(st.integers(0, 2**42), CONTENT, CONTENT, HEADERS)
BATCHES = st.lists(st.lists(ROWS, min_size=1, max_size=5), min_size=1, max_size=4)
Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


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
    assert [list(read_records(batch)) for batch in built] == written
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
    assert list(read_records(built)) == records


def test_batch_without_entries_is_empty_and_keeps_its_offsets() -> None:
    """Consumers must be able to skip entries that were deleted in Redis."""
    first, second = records_of([(1, None, b"a", ())], 5), records_of([(1, None, b"b", ())] * 3, 9)
    notes = [note_of(first), note_of(second)]
    built = build_batches(notes, entries_of(second[1:2]), IDS)
    assert [list(read_records(batch)) for batch in built] == [[], second[1:2]]
    assert [BatchHeader.parse(batch).last_offset for batch in built] == [5, 11]
    assert [list(read_records(batch)) for batch in build_batches(notes, [], IDS)] == [[], []]


def test_entries_without_a_batch_are_skipped() -> None:
    records = records_of([(1, None, b"a", ())], 5)
    foreign = [[IDS.text(offset), [b"value", b"x"]] for offset in (4, 6)]
    entries = [foreign[0], *entries_of(records), foreign[1]]
    (built,) = build_batches([note_of(records)], entries, IDS)
    assert list(read_records(built)) == records


@pytest.mark.parametrize("fields", [[], [b"header", b"short"], [b"bytes", b"1"]])
def test_invalid_header_entry(fields: list[bytes]) -> None:
    with pytest.raises(ValueError, match="header"):
        BatchEntry.read(fields)
