"""Branches of Avro unions, read with fastavro."""

from __future__ import annotations

import datetime as dt
import io
import json
from dataclasses import replace
from decimal import Decimal
from itertools import permutations
from typing import Any, cast

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.avro_schema import without_comments
from spark_kafka_sink.formats.plan import FieldPlan, Framing, compile_encoder
from spark_kafka_sink.formats.row_faults import RowFaults
from tests.unit.formats.test_avro import encode, read, record, try_to_encode

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
OTHER_ENUM = {"type": "enum", "name": "E2", "symbols": ["B", "C"]}
FOUR = {"type": "fixed", "name": "F4", "size": 4}
TWO = {"type": "fixed", "name": "F2", "size": 2}
NARROW = {
    "type": "fixed",
    "name": "D",
    "size": 2,
    "logicalType": "decimal",
    "precision": 4,
    "scale": 2,
}
WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}
DATE = {"type": "int", "logicalType": "date"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
TIME_MILLIS = {"type": "int", "logicalType": "time-millis"}
TIME_MICROS = {"type": "long", "logicalType": "time-micros"}
NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)


def chosen(type_: pa.DataType, values: list[Any], union: list[Any]) -> list[int]:
    """Return the number of the branch of each value, after checking what fastavro reads."""
    array = pa.array([{"v": value} for value in values], pa.struct([("v", type_)]))
    schema = record(("v", union))
    encoded = encode(array, schema)
    assert [read(schema, data)["v"] for data in encoded] == values
    return [data[0] // 2 for data in encoded if data is not None]


@pytest.mark.parametrize(
    ("type_", "values", "union", "branches"),
    [
        (pa.int64(), [2**53 + 1, None, 1], ["null", "double", "long"], [2, 0, 2]),
        (pa.int64(), [2**40, 3], ["int", "long"], [1, 1]),
        (pa.int64(), [2**40, 3, 2**53], ["double", "int", "float"], [0, 1, 0]),
        (pa.int64(), [2**24, 2**24 + 1], ["float", "double"], [0, 1]),
        (pa.int32(), [2**24 + 1], ["null", "float", "int"], [2]),
        (pa.int32(), [2**24 + 1], ["float", "double", "null"], [1]),
        (pa.int16(), [7], ["double", "float", "long"], [2]),
        (pa.int32(), [7], [DATE, "long"], [1]),
        (pa.int64(), [7], [MILLIS, "double"], [1]),
        (pa.float32(), [0.5], ["double", "float"], [1]),
        (pa.float64(), [0.1], ["float", "double"], [1]),
        (pa.string(), ["abcd", None], ["null", "bytes", FOUR, "string"], [3, 0]),
        (pa.string(), ["A", "C", "B"], [ENUM, "string"], [0, 1, 0]),
        (pa.string(), ["A", "C"], ["string", ENUM], [0, 0]),
        (pa.string(), ["A", "C", None, "B"], ["null", ENUM, OTHER_ENUM], [1, 2, 0, 1]),
        (pa.binary(), [b"\xff\0"], ["null", "string", "bytes"], [2]),
        (pa.binary(), [b"abcd", b"abcde"], [FOUR, "bytes"], [1, 1]),
        (pa.binary(), [b"abcd", b"ab"], [TWO, FOUR], [1, 0]),
        (pa.decimal128(6, 2), [Decimal("99.99"), Decimal("100.00")], [NARROW, WIDE], [0, 1]),
        (pa.decimal128(6, 2), [Decimal("9.99"), None], ["null", "bytes", NARROW], [2, 0]),
        (pa.decimal128(6, 3), [Decimal("9.999")], [NARROW, WIDE], [1]),
        (pa.binary(), [b"ab"], [NARROW, "bytes"], [1]),
        (pa.date32(), [dt.date(2024, 2, 29)], ["long", DATE], [1]),
        (pa.timestamp("us", "UTC"), [NOON], ["string", DATE, MILLIS], [2]),
        (pa.time64("ns"), [dt.time(1, 2, 3, 4)], ["long", TIME_MILLIS, TIME_MICROS], [2]),
        (pa.time64("ns"), [dt.time(1, 2, 3, 4)], [TIME_MICROS, TIME_MILLIS], [0]),
        (pa.list_(pa.int32()), [[1], []], ["string", {"type": "array", "items": "int"}], [1, 1]),
        (pa.null(), [None], ["string", "null"], [1]),
        (
            pa.list_(pa.null()),
            [[]],
            [{"type": "array", "items": {"type": "map", "values": ENUM}}],
            [0],
        ),
    ],
)
def test_closest_branch(
    type_: pa.DataType, values: list[Any], union: list[Any], branches: list[int]
) -> None:
    assert chosen(type_, values, union) == branches


def in_arrays(union: list[Any]) -> list[Any]:
    return [{"type": "array", "items": branch} for branch in union]


def micros(unit: str, data: bytes) -> int:
    number = read("long", data)
    return int(number * 1000 if unit == "millis" else number // (1000 if unit == "nanos" else 1))


@pytest.mark.parametrize("start", ["timestamp", "local-timestamp"])
@pytest.mark.parametrize("count", [2, 3])
def test_timestamps_keep_microseconds_if_a_branch_does(start: str, count: int) -> None:
    type_ = pa.list_(pa.timestamp("us", "UTC" if start == "timestamp" else None))
    for units in permutations(("millis", "micros", "nanos"), count):
        union = [{"type": "long", "logicalType": f"{start}-{unit}"} for unit in units]
        for instant in (1_709_208_000_123_456, -1, 2**63 // 1000 + 1, 253_402_300_799_999_999):
            array = pa.array([{"v": [instant]}], pa.struct([("v", type_)]))
            inner = encode(array, record(("v", {"type": "array", "items": union})))[0] or b""
            outer = encode(array, record(("v", in_arrays(union))))[0] or b""
            is_exact = "micros" in units or abs(instant) * 1000 < 2**63
            expected = instant if is_exact else instant // 1000 * 1000
            assert micros(units[inner[1] // 2], inner[2:-1]) == expected
            assert micros(units[outer[0] // 2], outer[2:-1]) == expected


@pytest.mark.parametrize("time", [DATE, TIME_MILLIS, TIME_MICROS, MILLIS])
@pytest.mark.parametrize("number", ["int", "long", "float", "double", None])
@pytest.mark.parametrize("type_", [pa.int32(), pa.int64()])
def test_integers_are_times_only_without_a_number_branch(
    type_: pa.DataType, number: str | None, time: Any
) -> None:
    values = [5, 2**24 + 1, *([2**40, 2**53 + 1] if type_ == pa.int64() else [])]
    array = pa.array([{"v": [value]} for value in values], pa.struct([("v", pa.list_(type_))]))
    (plain,) = in_arrays([number or time])
    expected, bad = try_to_encode(array, record(("v", plain)))
    for union in permutations(["string", time, *([number] if number else [])]):
        branch = bytes([2 * union.index(number or time)])
        outer, outer_bad = try_to_encode(array, record(("v", in_arrays([*union]))))
        inner, inner_bad = try_to_encode(array, record(("v", {"type": "array", "items": union})))
        assert list(outer_bad) == [fault._replace(path="v[]") for fault in bad] == list(inner_bad)
        for row in {*range(len(values))} - {*bad.rows.tolist()}:
            data = expected[row] or b""
            assert outer[row] == branch + data
            assert inner[row] == data[:1] + branch + data[1:]


def test_integers_are_written_to_one_of_several_times() -> None:
    array = pa.array([{"v": 5}, {"v": 2**40}])
    expected = encode(array, record(("v", MILLIS)))
    assert encode(array, record(("v", [DATE, MILLIS]))) == [
        b"\2" + data for data in expected if data
    ]


BRANCHES = (
    "null",
    "int",
    "long",
    "float",
    "double",
    "string",
    "bytes",
    ENUM,
    OTHER_ENUM,
    TWO,
    FOUR,
)
COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 2**25),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.sampled_from(["A", "B", "C", "D", "abcd"]),
    pa.binary(): st.sampled_from([b"A", b"ab", b"abcd", b"\xff\xff", b"\xff"]),
}


def fits(branch: Any, value: Any) -> bool:
    """Return True if a branch represents a value exactly."""
    kind = branch if isinstance(branch, str) else branch["type"]
    match value:
        case None:
            return bool(kind == "null")
        case bytes():
            is_text = value.decode(errors="replace").encode() == value
            sized = isinstance(branch, dict) and branch.get("size") == len(value)
            return kind == "bytes" or (kind == "string" and is_text) or sized
        case str():
            return kind in ("string", "bytes") or (kind == "enum" and value in branch["symbols"])
        case float():
            return bool(kind == "double")
    if kind in ("float", "double"):
        number = np.float32(value) if kind == "float" else np.float64(value)
        return bool(int(number) == value)
    return kind == "long" or (kind == "int" and -(2**31) <= value < 2**31)


def as_bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@given(st.data())
def test_each_value_that_fits_a_branch_is_written_exactly(data: st.DataObject) -> None:
    union = data.draw(st.lists(st.sampled_from(BRANCHES), min_size=1, unique_by=json.dumps))
    type_ = data.draw(st.sampled_from([*COLUMNS]))
    values = data.draw(st.lists(st.none() | COLUMNS[type_], max_size=6))
    schema = record(("v", {"type": "array", "items": union}))
    array = pa.array([{"v": [value]} for value in values], pa.struct([("v", pa.list_(type_))]))
    fitting = [any(fits(branch, value) for branch in union) for value in values]
    try:
        encoded, faults = try_to_encode(array, schema)
    except ColumnError:
        fitting = [fit for fit, value in zip(fitting, values, strict=True) if value is not None]
        assert not any(fitting)
        return
    assert faults.rows.tolist() == [row for row, fit in enumerate(fitting) if not fit]
    for row in np.flatnonzero(fitting):
        value, item = values[row], read(schema, encoded[row])["v"][0]
        assert as_bytes(item) == as_bytes(value)


CREATED = {
    "type": "record",
    "name": "a.Created",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
CANCELLED = {"type": "record", "name": "a.Cancelled", "fields": [{"name": "id", "type": "string"}]}
COUNTED = {"type": "record", "name": "a.Counted", "fields": [{"name": "id", "type": "long"}]}
MEASURED = {"type": "record", "name": "b.Counted", "fields": [{"name": "id", "type": "double"}]}
LISTED = {
    "type": "record",
    "name": "b.Listed",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}
EVENTS = ["null", CREATED, CANCELLED, LISTED, COUNTED, MEASURED]


def event_of(row: dict[str, Any], union: Any, name: str | None = None) -> tuple[str, Any]:
    """Return the record that is written at the top level, and the same when it is nested."""
    whole: Any = pa.array([row])
    deep = record(("e", {"type": "array", "items": {"type": "map", "values": union}}))
    type_ = pa.struct([("e", pa.list_(pa.map_(pa.string(), whole.type)))])
    results: list[Any] = []
    for schema, array in ((union, whole), (deep, pa.array([{"e": [[("k", row)]]}], type_))):
        plan = FieldPlan(format=Format.AVRO, schema=json.dumps(schema), message=name)
        (data,) = encoded_by(plan, array)
        source, parsed = io.BytesIO(data or b""), fastavro.parse_schema(schema)
        results.append(fastavro.schemaless_reader(source, parsed, None, return_record_name=True))
    assert results[1]["e"][0]["k"] == results[0]
    return cast("tuple[str, Any]", results[0])


def encoded_by(plan: FieldPlan, array: Any) -> list[bytes | None]:
    return compile_encoder(plan, array.type).encode(array, RowFaults(len(array))).to_pylist()


@pytest.mark.parametrize(
    ("row", "name", "expected"),
    [
        ({"id": "1"}, None, "a.Cancelled"),
        ({"id": "1", "note": "n"}, None, "a.Created"),
        ({"note": "n", "id": "1"}, None, "a.Created"),
        ({"id": 1}, None, "a.Counted"),
        ({"id": 1.5}, None, "b.Counted"),
        ({"id": "1", "tags": ["x"]}, None, "b.Listed"),
        ({"id": "1"}, "Created", "a.Created"),
        ({"id": "1"}, "a.Created", "a.Created"),
        ({"id": 1}, "b.Counted", "b.Counted"),
    ],
)
def test_record_of_an_event(row: dict[str, Any], name: str | None, expected: str) -> None:
    written, event = event_of(row, EVENTS, name)
    assert (written, {part: event[part] for part in row}) == (expected, row)


@pytest.mark.parametrize(
    ("row", "union", "name", "message"),
    [
        (
            {"id": "1"},
            ["null", CREATED, LISTED],
            None,
            "several records of the Avro union: a.Created, b.Listed",
        ),
        ({"id": 1}, EVENTS, "Counted", "several records of the Avro union: a.Counted, b.Counted"),
        (
            {"id": "1", "x": 1},
            EVENTS,
            None,
            "fits no branch of the Avro union; column `.*x` is not a field of a.Created",
        ),
        ({"id": "1", "tags": []}, EVENTS, "Created", "tags` is not a field of a.Created"),
        (
            {"id": "1"},
            EVENTS,
            "Deleted",
            "no record 'Deleted'.*Choose one of: a.Cancelled, a.Counted, a.Created",
        ),
        ({"id": "1"}, CREATED, "Cancelled", "no record 'Cancelled'"),
    ],
)
def test_events_without_a_single_record_are_rejected(
    row: dict[str, Any], union: Any, name: str | None, message: str
) -> None:
    with pytest.raises((ColumnError, ConfigError), match=message):
        event_of(row, union, name)


@pytest.mark.parametrize(
    ("type_", "values", "schema"),
    [
        (pa.string(), ["a", "é"], "string"),
        (pa.int64(), [1, -(2**63)], ' "long" '),
        (pa.int32(), [5], "long"),
        (pa.float64(), [0.5], "double"),
        (pa.bool_(), [True], "boolean"),
        (pa.binary(), [b"\xff"], "bytes"),
        (pa.string(), ["A"], json.dumps(ENUM)),
        (pa.binary(), [b"abcd"], json.dumps(FOUR)),
        (pa.timestamp("us", "UTC"), [NOON], json.dumps(MILLIS)),
        (pa.list_(pa.string()), [["a"], []], '{"type": "array", "items": "string"}'),
        (pa.string(), ["a"], '["null", "string", "long"]'),
        (pa.int64(), [1], '// the id\n{"type": /* of "keys" */ "long", "doc": "a // b"}'),
    ],
)
def test_single_column_without_a_record(type_: pa.DataType, values: list[Any], schema: str) -> None:
    array = pa.array([{"id": value} for value in [*values, None]], pa.struct([("id", type_)]))
    plan = FieldPlan(format=Format.AVRO, schema=schema, fields=(0,))
    encoded = encoded_by(plan, array)
    parsed = json.loads(without_comments(schema))
    assert [read(parsed, data) for data in encoded[:-1]] == values
    assert encoded[-1] is None
    confluent = replace(plan, format=Format.AVRO_CONFLUENT, framing=Framing(b"\0\0\0\0\1"))
    framed = encoded_by(confluent, array)[0] or b""
    # Clients in Java and Python read and write bytes without their length.
    assert framed[5:] == (values[0] if schema == "bytes" else encoded[0])


def test_type_without_a_record_needs_one_column() -> None:
    plan = FieldPlan(format=Format.AVRO, schema="string", fields=(0, 1))
    type_ = pa.struct([("a", pa.string()), ("b", pa.string())])
    with pytest.raises(ColumnError, match=r"Avro type string is written from one column.*2: a, b"):
        compile_encoder(plan, type_)
    with pytest.raises(ColumnError, match="the struct of all columns has type struct"):
        compile_encoder(replace(plan, fields=None, column=0), type_)


@pytest.mark.parametrize("target", ["float", "double"])
def test_rounded_integers_are_bad_rows(target: str) -> None:
    largest = 2 ** (24 if target == "float" else 53)
    exact = [largest, -largest, 2 * largest, 2**62, -(2**63), 0]
    rounded = [largest + 1, -largest - 1, 2**63 - 1, -(2**63) + 1]
    array = pa.array([{"a": value} for value in exact + rounded], pa.struct([("a", pa.int64())]))
    encoded, faults = try_to_encode(array, record(("a", target)))
    assert faults.rows.tolist() == [*range(len(exact), len(array))]
    assert {fault.problem for fault in faults} == {
        f"is a number that a {32 if target == 'float' else 64}-bit float rounds"
    }
    assert [read(record(("a", target)), data)["a"] for data in encoded[: len(exact)]] == exact


@pytest.mark.parametrize(
    "annotation",
    [
        {"type": "long", "logicalType": "decimal"},
        {"type": "string", "logicalType": "timestamp-micros"},
        {"type": "long", "logicalType": ["x"]},
    ],
)
def test_invalid_logical_types_are_ignored(annotation: dict[str, Any]) -> None:
    value: Any = 7 if annotation["type"] == "long" else "x"
    array = pa.array([{"v": value}])
    data = encode(array, record(("v", annotation)))[0]
    assert read(record(("v", annotation["type"])), data) == {"v": value}
    with pytest.raises(ColumnError):
        encode(
            pa.array([{"v": NOON}], pa.struct([("v", pa.timestamp("us", "UTC"))])),
            record(("v", annotation)),
        )
