"""Column readers with each type of column, and rows that cannot be written."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.kafka.records.columns import read_bytes
from spark_kafka_sink.producer.bad_rows.row_error import RowError
from spark_kafka_sink.spark.rows.row_checks import RowChecks
from spark_kafka_sink.spark.rows.rows_from_arrow import (
    FirstRow,
    read_chunks,
    read_headers,
    read_rows,
    read_timestamps,
    read_topics,
)
from spark_kafka_sink.spark.writers.task_writer import TaskWriter
from tests.support.column_roles import column_roles

NOW_MS = 1_700_000_000_000
EPOCH = datetime.fromisoformat("1970-01-01T00:00")
NEW_YEAR = datetime.fromisoformat("2024-01-01T00:00")
NOON = datetime.fromisoformat("2024-06-01T12:00")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
LARGE = pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
BAD_UTF8 = [b"\xff", b"a\x80b", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"]
BAD_NAMES = [b"", b".", b"..", b"a/b", b"a b", "tö".encode(), b"x" * 250, b"a\n", *BAD_UTF8]
TEXT = st.sampled_from([b"", b"a", "ü".encode(), b"k" * 1000, None, b"\xff"])
ENTRIES = st.lists(st.tuples(TEXT, st.sampled_from([None, b"", b"v", b"\xff" * 500])), max_size=3)


def text(values: list[bytes | None], kind: pa.DataType | None = None) -> pa.Array[Any]:
    """Create unvalidated strings, as Spark delivers them."""
    array = pa.array(values, pa.binary())
    if kind is not None:
        return array.cast(pa.large_binary()).view(kind)
    return array.view(pa.string())


def checks(rows: int, tolerant: bool = True) -> RowChecks:
    return RowChecks(rows, tolerant)


def errors(row_checks: RowChecks, rows: int) -> list[RowError]:
    return (
        [RowError.NONE] * rows
        if row_checks.errors is None
        else [RowError(code) for code in row_checks.errors]
    )


# --- values


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ],
    ids=str,
)
@pytest.mark.parametrize("start", [0, 1, 3])
@pytest.mark.parametrize("stop", [3, 5, 9])
def test_all_text_types_and_slices(kind: pa.DataType, start: int, stop: int) -> None:
    values = ["a", None, "", "Grüße", None, "e", "", "g", None]
    column = pa.array(values, pa.string()).cast(kind).slice(start, stop - start)
    expected = [None if value is None else value.encode() for value in values[start:stop]]
    converted = read_bytes(column)
    assert converted.type == pa.binary()
    assert converted.to_pylist() == expected
    converted.validate(full=True)


def test_row_numbers_continue_through_a_task() -> None:
    config = SinkConfig.parse({"kafka.bootstrap.servers": "h:9092", "topic": "t"})
    batches = [pa.RecordBatch.from_pydict({"value": [b"a"] * rows}) for rows in (3, 0, 2, 4)]
    task = TaskWriter(config, column_roles())
    assert [rows.first_row for rows in task.read_rows(batches)] == [0, 3, 5]


def test_error_names_row_spark_partition_and_key() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"value": ["a", "b"], "topic": ["t", None], "key": ["x", "y"]}
    )
    first = FirstRow(10_000, 3)
    with pytest.raises(ColumnError, match=r"row 10,001 .*partition 3 \(key 'y'\)"):
        list(read_chunks(batch, column_roles(topic=1, key=2), SystemClock(), first))


def test_error_names_a_key_that_is_not_utf_8() -> None:
    keys = pa.array([b"x", b"\xff\x00"]).view(pa.string())
    columns = [pa.array(["a", "b"]), pa.array(["t", None]), keys]
    batch = pa.RecordBatch.from_arrays(columns, ["value", "topic", "key"])
    with pytest.raises(ColumnError, match=r"row 1 \(key 0xff00\)"):
        list(read_chunks(batch, column_roles(topic=1, key=2), SystemClock()))


# --- topics


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("kind", [None, pa.large_string()])
def test_invalid_topic_name(name: bytes, kind: pa.DataType | None) -> None:
    column = text([b"a", name, b"b", None, name, b"a"], kind)
    row_checks = checks(6)
    topics, topic_indexes = read_topics(column, row_checks)
    bad = RowError.INVALID_TOPIC
    assert errors(row_checks, 6) == [
        RowError.NONE,
        bad,
        RowError.NONE,
        RowError.NULL_TOPIC,
        bad,
        RowError.NONE,
    ]
    assert topics == ("a", "b")
    assert topic_indexes is not None
    assert [topic_indexes[row] for row in (0, 2, 5)] == [0, 1, 0]
    with pytest.raises(ColumnError, match="topic name, first in row 1"):
        read_topics(column.slice(0, 3), checks(3, tolerant=False))


@pytest.mark.parametrize("column", [[None, None], [b"a/b", None], [b"\xff"]])
def test_no_valid_topic(column: list[bytes | None]) -> None:
    row_checks = checks(len(column))
    assert read_topics(text(column), row_checks) == ((), None)
    assert RowError.NONE not in errors(row_checks, len(column))


@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"a/b", b"\xff", None]), min_size=1))
def test_topics_match_a_simple_loop(names: list[bytes | None]) -> None:
    row_checks = checks(len(names))
    topics, topic_indexes = read_topics(text(names), row_checks)
    codes = errors(row_checks, len(names))
    for row, name in enumerate(names):
        if name is None:
            assert codes[row] is RowError.NULL_TOPIC
        elif name in (b"a", b"b", b"c"):
            assert codes[row] is RowError.NONE
            assert topics[0 if topic_indexes is None else topic_indexes[row]] == name.decode()
        else:
            assert codes[row] is RowError.INVALID_TOPIC


# --- headers


def header_column(
    rows: list[list[tuple[bytes | None, bytes | None]] | None], kind: pa.DataType = HEADERS
) -> pa.ListArray[Any]:
    raw = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
    lists = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in rows]
    column = cast("pa.ListArray[Any]", pa.array(lists, raw))
    entries = cast("pa.StructArray", column.values)
    keys, values = entries.field(0).view(pa.string()), entries.field(1)
    if kind is LARGE:
        keys = entries.field(0).cast(pa.large_binary()).view(pa.large_string())  # type: ignore[arg-type]
        values = values.cast(pa.large_binary())
    structs = pa.StructArray.from_arrays([keys, values], names=["key", "value"])
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(column.offsets, structs, mask=mask)


def part(column: pa.ListArray[Any], start: int, size: int | None = None) -> pa.ListArray[Any]:
    return column.slice(start, size)


@pytest.mark.parametrize("key", BAD_UTF8)
@pytest.mark.parametrize("kind", [HEADERS, LARGE], ids=["small", "large"])
def test_header_key_that_is_not_utf_8(key: bytes, kind: pa.DataType) -> None:
    column = header_column(
        [[(b"a", b"1")], None, [], [(b"ok", None), (key, b"2")], [(None, b"3"), (key, b"4")]], kind
    )
    row_checks = checks(5)
    lists = read_headers(column, row_checks)
    none = RowError.NONE
    bad, null = RowError.INVALID_HEADER_KEY, RowError.NULL_HEADER_KEY
    assert errors(row_checks, 5) == [none, none, none, bad, null]
    assert lists is not None
    repaired = key.decode(errors="replace").encode()
    assert lists.to_pylist()[3] == [
        {"key": b"ok", "value": None},
        {"key": repaired, "value": b"2"},
    ]
    with pytest.raises(ColumnError, match="not UTF-8 in row 3"):
        read_headers(part(column, 0, 4), checks(4, tolerant=False))
    with pytest.raises(ColumnError, match="in row 0"):
        read_headers(part(column, 3, 1), checks(1, tolerant=False))


@given(
    st.lists(st.none() | ENTRIES, min_size=1, max_size=20),
    st.integers(0, 5),
    st.sampled_from([HEADERS, LARGE]),
)
def test_headers_match_a_simple_loop(rows: list[Any], start: int, kind: pa.DataType) -> None:
    start = min(start, len(rows))
    column = part(header_column(rows, kind), start)
    row_checks = checks(len(rows) - start)
    lists = read_headers(column, row_checks)
    codes = errors(row_checks, len(rows) - start)
    for row, entries in enumerate(rows[start:]):
        keys = [key for key, _ in entries or ()]
        expected = RowError.NONE
        if b"\xff" in keys:
            expected = RowError.INVALID_HEADER_KEY
        if None in keys:
            expected = RowError.NULL_HEADER_KEY
        assert codes[row] is expected
        if lists is not None:
            headers = [(header["key"], header["value"]) for header in lists[row].as_py() or ()]
            assert headers == [
                ((key or b"").decode(errors="replace").encode(), value)
                for key, value in entries or ()
            ]


# --- timestamps


def millis(column: pa.Array[Any], zone: str | None = None) -> list[int]:
    times: list[int] = read_timestamps(column, checks(len(column)), NOW_MS, zone).tolist()
    return times


def java_offset(local: datetime, zone: str) -> int:
    """Like ZonedDateTime.ofLocal: the earlier of two offsets, and the one before a gap."""
    moment = local.replace(tzinfo=ZoneInfo(zone), fold=0)
    offset = moment.utcoffset()
    assert offset is not None
    return round((local - offset - EPOCH) / timedelta(milliseconds=1))


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
)
def test_local_times_use_the_session_time_zone(zone: str) -> None:
    moments = [NEW_YEAR + timedelta(minutes=15 * step) for step in range(4 * 24 * 366)]
    column = pa.array(moments, pa.timestamp("us"))
    assert millis(column, zone) == [java_offset(moment, zone) for moment in moments]


@pytest.mark.parametrize(
    ("zone", "hours"),
    [
        ("Z", 0),
        ("+08:00", -8),
        ("-03:30", 3.5),
        ("UTC+8", -8),
        ("GMT-2", 2),
        ("UT+01:00", -1),
        ("IST", -5.5),
        ("EST", 5),
        ("Etc/GMT+3", 3),
        ("+1:5", -13 / 12),
    ],
)
def test_offset_time_zones(zone: str, hours: float) -> None:
    column = pa.array([NOON], pa.timestamp("us"))
    moment = NOON + timedelta(hours=hours) - EPOCH
    assert millis(column, zone) == [moment / timedelta(milliseconds=1)]


def test_unknown_time_zone() -> None:
    column = pa.array([NOON], pa.timestamp("us"))
    with pytest.raises(ConfigError, match="'Mars/Olympus'"):
        millis(column, "Mars/Olympus")


def test_without_a_session_the_host_time_zone_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    column = pa.array([NOON], pa.timestamp("us"))
    assert millis(column) == [java_offset(NOON, "Asia/Tokyo")]


@pytest.mark.usefixtures("without_zones")
@pytest.mark.parametrize("zone", ["Asia/Urumqi", ":US/Samoa", "posix/Europe/Skopje"])
def test_zone_that_only_the_jvm_knows(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM has its own database, so the host's present offset would be a wrong value."""
    monkeypatch.setenv("TZ", zone)
    name = zone.removeprefix(":").removeprefix("posix/")
    with pytest.raises(ConfigError, match=rf"'{name}' is unknown on this host.* tzdata"):
        millis(pa.array([NOON]))


def test_column_with_time_zone_keeps_the_instant() -> None:
    local = pa.array([NOON], pa.timestamp("us"))
    zoned = pa.array([0], pa.timestamp("us", "America/New_York"))
    batch = pa.RecordBatch.from_arrays([zoned, local], ["other", "timestamp"])
    values = pa.array([b"v"], pa.binary())
    batch = batch.append_column("value", values)
    rows = read_rows(batch, column_roles(value=2, timestamp=1), SystemClock())
    assert rows.columns.timestamps is not None
    expected = java_offset(NOON, "America/New_York")
    assert rows.columns.timestamps.tolist() == [expected]


@pytest.mark.parametrize("micros", [-1, -999, -1000, -1001, -(2**62)])
@pytest.mark.parametrize("tz", ["UTC", None])
def test_timestamps_before_1970_are_rejected(micros: int, tz: str | None) -> None:
    column = pa.array([0, micros, None, 1_999], pa.timestamp("us", tz))
    row_checks = checks(4)
    stamps = read_timestamps(column, row_checks, NOW_MS, "UTC")
    assert stamps.tolist() == [0, NOW_MS, NOW_MS, 1]
    assert errors(row_checks, 4) == [
        RowError.NONE,
        RowError.NEGATIVE_TIMESTAMP,
        RowError.NONE,
        RowError.NONE,
    ]
    with pytest.raises(ColumnError, match=r"before 1970 \(-\d+ ms\) in row 1"):
        read_timestamps(column, checks(4, tolerant=False), NOW_MS, "UTC")


def test_first_error_of_a_row_wins() -> None:
    column = pa.array([-1], pa.timestamp("us", "UTC"))
    row_checks = checks(1)
    read_topics(text([b"a/b"]), row_checks)
    read_timestamps(column, row_checks, NOW_MS, None)
    assert errors(row_checks, 1) == [RowError.INVALID_TOPIC]
