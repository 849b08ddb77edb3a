"""Branches of Avro unions, read with fastavro."""

import datetime as dt
import io
import json
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from itertools import permutations
from typing import Any, cast
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.avro.avro_schema import without_comments
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, Framing, compile_encoder
from tests.unit.formats.avro.fastavro_rows import encode, read, record, try_to_encode
from tests.unit.formats.generated import EPOCH, plain_values

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
INT, LONG, FLOAT, DOUBLE = "int", "long", "float", "double"
ENUMS = [ENUM, OTHER_ENUM]
OTHERS = ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]
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
WRAPPED: dict[str, Any] = {
    "plain": (lambda type_: type_, lambda branch: branch, lambda value: value),
    "nullable": (lambda type_: type_, lambda branch: ["null", branch], lambda value: value),
    "list": (
        pa.list_,
        lambda branch: {"type": "array", "items": ["null", branch]},
        lambda value: [value],
    ),
    "map": (
        lambda type_: pa.map_(pa.string(), type_),
        lambda branch: {"type": "map", "values": branch},
        lambda value: [("k", value)],
    ),
    "struct": (
        lambda type_: pa.struct([("x", type_)]),
        lambda branch: {
            "type": "record",
            "name": "Inner",
            "fields": [{"name": "x", "type": branch}],
        },
        lambda value: {"x": value},
    ),
}
MEMBERS = ["int", "string", record(("x", "double")), {"type": "array", "items": "long"}]
MEMBER_TYPES = pa.struct(
    [
        ("member0", pa.int32()),
        ("member1", pa.string()),
        ("member2", pa.struct([("x", pa.float64())])),
        ("member3", pa.list_(pa.int64())),
    ]
)
MEMBER_VALUES = [7, "é", {"x": 1.5}, [1, 2]]
INNER = {**record(("v", "int")), "name": "X"}
OTHER = {**record(("v", "int"), ("w", "int")), "name": "B"}
ROWS: dict[str, Any] = {"int": pa.int32(), "null": pa.null(), "X": pa.struct([("v", pa.int32())])}


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
def test_closest_branch_is_chosen(
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
def test_timestamps_keep_microseconds_if_the_union_has_several_times(
    start: str, count: int
) -> None:
    type_ = pa.list_(pa.timestamp("us", "UTC" if start == "timestamp" else None))
    instants = (1_709_208_000_123_456, -1, 2**63 // 1000 + 1, 253_402_300_799_999_999, 2**61 // 8)
    array = pa.array([{"v": [instant]} for instant in instants], pa.struct([("v", type_)]))
    for units in permutations(("millis", "micros", "nanos"), count):
        union = [{"type": "long", "logicalType": f"{start}-{unit}"} for unit in units]
        inner, inner_bad = try_to_encode(array, record(("v", {"type": "array", "items": union})))
        outer, outer_bad = try_to_encode(array, record(("v", in_arrays(union))))
        for row, instant in enumerate(instants):
            is_exact = abs(instant) * 1000 < 2**63 or instant % 1000 == 0
            if "micros" in units or is_exact:
                item, items = inner[row] or b"", outer[row] or b""
                assert micros(units[item[1] // 2], item[2:-1]) == instant
                assert micros(units[items[0] // 2], items[2:-1]) == instant
            else:
                assert row in inner_bad.rows
                assert row in outer_bad.rows


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
        assert list(outer_bad) == [error._replace(path="v[]") for error in bad] == list(inner_bad)
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


def logical(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "logicalType": name}


TIMES = [logical("long", f"timestamp-{unit}") for unit in ("micros", "nanos", "millis")]
LOCAL = [logical("long", f"local-{type_['logicalType']}") for type_ in TIMES]
RULES: dict[pa.DataType, tuple[list[Any], list[Any], list[Any]]] = {
    # The column's own types, exact types, and types that some values do not fit.
    pa.int8(): ([INT], [LONG, FLOAT, DOUBLE], []),
    pa.int16(): ([INT], [LONG, FLOAT, DOUBLE], []),
    pa.int32(): ([INT], [LONG, DOUBLE], [FLOAT]),
    pa.int64(): ([LONG], [], [INT, DOUBLE, FLOAT]),
    pa.float32(): ([FLOAT], [DOUBLE], []),
    pa.float64(): ([DOUBLE], [], []),
    pa.bool_(): (["boolean"], [], []),
    pa.string(): (["string", *ENUMS], ["bytes"], []),
    pa.binary(): (["bytes"], [], [TWO, FOUR, "string"]),
    pa.date32(): ([DATE], [], []),
    pa.time64("ns"): ([TIME_MICROS], [], [TIME_MILLIS]),
    pa.timestamp("us", "UTC"): (TIMES[:2], [], TIMES[2:]),
    pa.timestamp("us"): (LOCAL[:2], [], LOCAL[2:]),
    pa.decimal128(6, 2): ([NARROW, WIDE], [], []),
    pa.duration("us"): ([LONG], [], []),
}
"""Types of columns, and the types of branches that accept them."""
COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **{type_: plain_values(type_) for type_ in RULES},
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 2**25),
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.sampled_from(["A", "B", "C", "D", "abcd"]),
    pa.binary(): st.sampled_from([b"A", b"ab", b"abcd", b"\xff\xff", b"\xff"]),
}


def fits(branch: Any, value: Any) -> bool:
    """Return True if a branch that accepts a column represents a value of it exactly."""
    name = branch if isinstance(branch, str) else branch.get("logicalType", branch["type"])
    is_cut = isinstance(value, dt.datetime | dt.time) and value.microsecond % 1000 > 0
    match name:
        case "int":
            return bool(-(2**31) <= value < 2**31)
        case "float" | "double" if isinstance(value, int):
            return bool(int((np.float32 if name == "float" else np.float64)(value)) == value)
        case "enum":
            return value in branch["symbols"]
        case "fixed":
            return bool(len(value) == branch["size"])
        case "string" if isinstance(value, bytes):
            return value.decode(errors="replace").encode() == value
        case "decimal":
            return bool(abs(value) < 10 ** (branch["precision"] - branch["scale"]))
        case "time-millis" | "timestamp-millis" | "local-timestamp-millis":
            return not is_cut
        case "timestamp-nanos" | "local-timestamp-nanos":
            micros = (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
            return bool(-(2**63) <= micros * 1000 < 2**63)
    return True


def comparable(value: Any, unit: str = "") -> Any:
    """Return a value as fastavro reads it, which does not know nanoseconds."""
    if isinstance(value, dt.datetime) and unit == "nanos":
        return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1) * 1000
    if isinstance(value, dt.datetime | dt.time) and unit == "millis":
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    return value.encode() if isinstance(value, str) else value


@given(st.data())
def test_each_value_is_written_exactly_and_to_the_closest_type(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from([*RULES]))
    ranked = [(branch, rule) for rule, branches in enumerate(RULES[type_]) for branch in branches]
    accepting = [branch for branch, _ in ranked]
    others = [name for name in OTHERS if name not in accepting]
    union = data.draw(
        st.lists(st.sampled_from(accepting + others), min_size=1, max_size=6, unique_by=json.dumps)
    )
    drawn = data.draw(st.lists(st.none() | COLUMNS[type_], max_size=6))
    schema = record(("v", {"type": "array", "items": union}))
    array = pa.array([{"v": [value]} for value in drawn], pa.struct([("v", pa.list_(type_))]))
    rules = [(rule, branch) for branch, rule in ranked if branch in union]
    is_cut = len(rules) == 1 and "millis" in str(rules)
    try:
        encoded, errors = try_to_encode(array, schema)
    except ColumnError:
        assert not rules
        return
    for row, value in enumerate(drawn):
        if value is None:
            exact = [(0, "null")] if "null" in union else []
        else:
            exact = [(rule, branch) for rule, branch in rules if is_cut or fits(branch, value)]
        assert (row in errors.rows) is not bool(exact)
        if exact:
            payload = encoded[row] or b""
            chosen = union[payload[1] // 2]
            assert (min(rule for rule, _ in exact), chosen) in exact
            unit = str(chosen).rpartition("-")[2].removesuffix("'}")
            assert comparable(read(schema, payload)["v"][0]) == comparable(value, unit)


def event_of(row: dict[str, Any], union: Any, name: str | None = None) -> tuple[str, Any]:
    """Return the record that is written at the top level, and the same when it is nested."""
    whole: Any = pa.array([row])
    deep = record(("e", {"type": "array", "items": {"type": "map", "values": union}}))
    type_ = pa.struct([("e", pa.list_(pa.map_(pa.string(), whole.type)))])
    results: list[Any] = []
    for schema, array in ((union, whole), (deep, pa.array([{"e": [[("k", row)]]}], type_))):
        spec = EncoderSpec(format=Format.AVRO, schema=json.dumps(schema), message=name)
        (data,) = encoded_by(spec, array)
        source, parsed = io.BytesIO(data or b""), fastavro.parse_schema(schema)
        results.append(fastavro.schemaless_reader(source, parsed, None, return_record_name=True))
    assert results[1]["e"][0]["k"] == results[0]
    return cast("tuple[str, Any]", results[0])


@pytest.mark.parametrize("has_default", [False, True])
@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize(
    ("type_", "value", "branches", "expected"),
    [
        (pa.int64(), 5, [DOUBLE, INT], None),
        (pa.int64(), 5, [DOUBLE, FLOAT], None),
        (pa.int64(), 2**53 + 1, [DOUBLE, INT, LONG], 2),
        (pa.int64(), 5, [INT], 0),
        (pa.int32(), 2**24 + 1, [FLOAT, DOUBLE], 1),
        (pa.int32(), 5, [FLOAT, DOUBLE, LONG, INT], 3),
        (pa.string(), "C", [ENUM, "string"], 1),
        (pa.string(), "C", [ENUM, "bytes"], 1),
        (pa.string(), "B", [ENUM, OTHER_ENUM], None),
        (pa.binary(), b"\xff", ["string", TWO, "bytes"], 2),
        (pa.timestamp("us", "UTC"), NOON, [TIMES[1], TIMES[2]], None),
        (pa.timestamp("us", "UTC"), NOON, [TIMES[1], TIMES[2], TIMES[0]], 2),
        (pa.time64("ns"), dt.time(1, 2, 3, 4), [TIME_MILLIS, TIME_MICROS], 1),
        (pa.decimal128(6, 2), Decimal("9999.99"), [NARROW, WIDE], 1),
        (pa.decimal128(6, 2), Decimal("9.99"), [NARROW, {**NARROW, "name": "D2"}], None),
    ],
)
def test_records_with_the_same_fields_are_chosen_if_every_value_fits(
    type_: pa.DataType,
    value: Any,
    branches: list[Any],
    expected: int | None,
    wrapped: str,
    *,
    has_default: bool,
) -> None:
    column_type, declared, item = WRAPPED[wrapped]
    default = {"name": "note", "type": "string", "default": ""}
    events: list[Any] = []
    for number, branch in enumerate(branches):
        fields = [{"name": "id", "type": declared(branch)}]
        # The order of the fields makes no difference.
        fields = [default, *fields] if has_default and number % 2 else fields
        fields = [*fields, default] if has_default and number % 2 == 0 else fields
        events.append(
            {"type": "record", "name": f"E{number}", "namespace": f"n{number}", "fields": fields}
        )
    other = {"type": "record", "name": "Other", "fields": [{"name": "z", "type": "string"}]}
    union = ["null", other, *events]
    array: Any = pa.array([{"id": item(value)}], pa.struct([("id", column_type(type_))]))
    spec = EncoderSpec(format=Format.AVRO, schema=json.dumps(union))
    if expected is None:
        with pytest.raises(ColumnError, match=r"several records of the Avro union: n0\.E0, n1\.E1"):
            encoded_by(spec, array)
        spec, expected = replace(spec, message="E1"), 1
    (data,) = encoded_by(spec, array)
    assert (data or b"")[0] // 2 == 2 + expected
    assert read(union, data).keys() == ({"id", "note"} if has_default else {"id"})


def encoded_by(spec: EncoderSpec, array: Any) -> list[bytes | None]:
    return compile_encoder(spec, array.type).encode(array, EncodingErrors(len(array))).to_pylist()


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
        ({"id": 1}, "Counted", "a.Counted"),
        ({"id": "1", "tags": ["x"]}, "Created,Listed", "b.Listed"),
        ({"id": "1", "note": "n"}, "b.Listed, a.Created", "a.Created"),
        ({"id": 1}, "a.Created,b.Counted", "b.Counted"),
    ],
)
def test_record_of_an_event(row: dict[str, Any], name: str | None, expected: str) -> None:
    written, event = event_of(row, EVENTS, name)
    assert (written, {part: event[part] for part in row}) == (expected, row)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (["bytes", "bytes"], ["bytes", "string"], "B"),
        (["string", "bytes"], ["bytes", "bytes"], "A"),
        (["bytes", ["null", "bytes"]], ["bytes", ["null", "string"]], "B"),
        (["bytes", "string", "string"], ["bytes", "string", "bytes"], "A"),
        (["bytes", "string"], ["string", "bytes"], None),
        (["bytes", "bytes"], ["bytes", "bytes"], None),
    ],
)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_record_that_is_the_closest_in_each_field(
    first: list[Any], second: list[Any], expected: str | None, *, is_reversed: bool
) -> None:
    """The field that is least close is equally close in both records."""
    records = [
        {**record(*((f"f{n}", type_) for n, type_ in enumerate(types))), "name": name}
        for name, types in (("A", first), ("B", second))
    ]
    union = records[::-1] if is_reversed else records
    row = {f"f{n}": "x" for n in range(len(first))}
    if expected is None:
        with pytest.raises(ColumnError, match="several records"):
            event_of(row, union)
    else:
        assert event_of(row, union)[0] == f"n.{expected}"


@pytest.mark.parametrize(
    ("row", "union", "name", "message"),
    [
        (
            {"id": "1"},
            ["null", CREATED, LISTED],
            None,
            "several records of the Avro union: a.Created, b.Listed",
        ),
        (
            {"id": "1"},
            ["null", CREATED, LISTED],
            "Created,Listed",
            "several records of the Avro union: a.Created, b.Listed",
        ),
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
        (pa.string(), ["a"], '["string", "long"]'),
        (pa.map_(pa.string(), pa.int32()), [{"a": 1}], '{"type": "map", "values": "int"}'),
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
    spec = EncoderSpec(format=Format.AVRO, schema=schema, fields=(0,))
    encoded = encoded_by(spec, array)
    parsed = json.loads(without_comments(schema))
    assert [read(parsed, data) for data in encoded[:-1]] == values
    assert encoded[-1] is None
    confluent = replace(spec, format=Format.AVRO_CONFLUENT, framing=Framing(b"\0\0\0\0\1"))
    framed = encoded_by(confluent, array)[0] or b""
    # Clients in Java and Python read and write bytes without their length.
    assert framed[5:] == (values[0] if schema == "bytes" else encoded[0])


def test_type_without_a_record_needs_one_column() -> None:
    spec = EncoderSpec(format=Format.AVRO, schema="string", fields=(0, 1))
    type_ = pa.struct([("a", pa.string()), ("b", pa.string())])
    with pytest.raises(ColumnError, match=r"Avro type string is written from one column.*2: a, b"):
        compile_encoder(spec, type_)
    with pytest.raises(ColumnError, match="the struct of all columns has type struct"):
        compile_encoder(replace(spec, fields=None, column=0), type_)


@pytest.mark.parametrize("union", [False, True])
def test_texts_of_a_fixed_uuid(union: bool) -> None:
    uuids = ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-42661417ABCD"]
    texts = [*uuids, None, "x", uuids[0][:-1], f"{uuids[0]}0", uuids[0].replace("-", ""), "", "é"]
    array = pa.array([{"v": text} for text in texts])
    fixed = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    schema = record(("v", ["null", fixed, "string"] if union else ["null", fixed]))
    encoded, errors = try_to_encode(array, schema)
    plain = record(("v", ["null", {"type": "fixed", "name": "U", "size": 16}, "string"]))
    values = [read(plain, data)["v"] for data in encoded if data is not None]
    if union:
        assert not errors
        assert values == texts
    else:
        assert values[:3] == [UUID(uuids[0]).bytes, UUID(uuids[1]).bytes, None]
        assert [(error.row, error.problem) for error in errors] == [
            (row, "is not a UUID") for row in range(3, len(texts))
        ]


def test_texts_of_a_uuid() -> None:
    uuids = ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000"]
    texts = [*uuids, None, "x", uuids[0][:-1], f"{uuids[0]}0", uuids[0].replace("-", ""), ""]
    array = pa.array([{"v": text} for text in texts])
    schema = record(("v", ["null", logical("string", "uuid")]))
    encoded, errors = try_to_encode(array, schema)
    assert [(error.row, error.problem) for error in errors] == [
        (row, "is not a UUID") for row in range(3, len(texts))
    ]
    for text, data in zip(uuids, encoded, strict=False):
        assert read(schema, data) == {"v": UUID(text)}
    assert read(schema, encoded[2]) == {"v": None}
    union = ["bytes", logical("string", "uuid")]
    encoded, errors = try_to_encode(array.slice(0, 2), record(("v", union)))
    assert not errors
    encoded, errors = try_to_encode(array.slice(3), record(("v", union)))
    assert [read(record(("v", union)), data)["v"].decode() for data in encoded] == texts[3:]


@pytest.mark.parametrize("target", ["float", "double"])
def test_rounded_integers_are_bad_rows(target: str) -> None:
    largest = 2 ** (24 if target == "float" else 53)
    exact = [largest, -largest, 2 * largest, 2**62, -(2**63), 0]
    rounded = [largest + 1, -largest - 1, 2**63 - 1, -(2**63) + 1]
    array = pa.array([{"a": value} for value in exact + rounded], pa.struct([("a", pa.int64())]))
    encoded, errors = try_to_encode(array, record(("a", target)))
    assert errors.rows.tolist() == [*range(len(exact), len(array))]
    assert {error.problem for error in errors} == {
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


def test_recursive_unions_are_matched_once_for_each_column() -> None:
    """Without that, planning takes exponential time."""

    def declared(name: str, branches: list[Any]) -> dict[str, Any]:
        own: Any = {"name": f"only_{name}", "type": "int", "default": 0}
        below = {"name": "next", "type": ["null", *branches], "default": None}
        return {"type": "record", "name": name, "fields": [own, below]}

    schema = declared("A", ["A", declared("B", ["A", "B"])])
    row: dict[str, Any] = {"only_A": 0}
    expected: dict[str, Any] = {"only_A": 0, "next": None}
    for level in range(1, 41):
        name = f"only_{'AB'[level % 2]}"
        row, expected = {name: level, "next": row}, {name: level, "next": expected}
    encoded, errors = try_to_encode(pa.array([row]), schema)
    assert not errors
    assert read(schema, encoded[0]) == expected


@pytest.mark.parametrize("position", [None, 0, 2, 4])
def test_members_of_a_union_as_from_avro_returns_it(position: int | None) -> None:
    branches = list(MEMBERS)
    if position is not None:
        branches.insert(position, "null")
    schema = {**record(("v", branches), ("w", "int")), "name": "Outer"}
    values: list[Any] = [{f"member{number}": value} for number, value in enumerate(MEMBER_VALUES)]
    expected: list[Any] = [*MEMBER_VALUES]
    if position is not None:
        values += [None, {}]
        expected += [None, None]
    type_ = pa.struct([("v", MEMBER_TYPES), ("w", pa.int32())])
    array = pa.array([{"v": value, "w": 3} for value in [*values, *values]], type_)
    encoded = encode(array.slice(len(values)), schema)
    assert [read(schema, data or b"") for data in encoded] == [
        {"v": value, "w": 3} for value in expected
    ]


def test_members_that_are_no_union() -> None:
    type_ = pa.struct([("v", MEMBER_TYPES)])
    schema = {**record(("v", MEMBERS)), "name": "Outer"}
    rows = [{"v": {"member0": 1, "member1": "a"}}, {"v": {}}, {"v": None}, {"v": {"member0": 1}}]
    _, errors = try_to_encode(pa.array(rows, type_), schema)
    assert [(error.row, error.problem) for error in errors] == [
        (0, "has several members of the union"),
        (1, "has no member of the union"),
        (2, "is null, but must not be"),
    ]
    for fields in ([*MEMBER_TYPES][:-1], [*MEMBER_TYPES][1:]):
        other = pa.struct([("v", pa.struct(fields))])
        with pytest.raises(ColumnError, match="fits no branch"):
            try_to_encode(pa.array([{"v": None}], other), schema)


def test_record_with_the_fields_of_members_precedes() -> None:
    own = record(("member0", ["null", "int"]), ("member1", ["null", "string"]))
    schema = {**record(("v", [own, "string"])), "name": "Outer"}
    type_ = pa.struct([("v", pa.struct([("member0", pa.int32()), ("member1", pa.string())]))])
    (data,) = encode(pa.array([{"v": {"member1": "a"}}], type_), schema)
    assert read(schema, data or b"") == {"v": {"member0": None, "member1": "a"}}


def test_names_match_with_case() -> None:
    with pytest.raises(ColumnError, match="Rename the column `orderid` to `orderId`"):
        try_to_encode(pa.array([{"orderid": 1}]), record(("orderId", "long")))


def test_records_of_several_unions_are_named() -> None:
    x, y, p, q = ({**record(("v", "int")), "name": name} for name in "XYPQ")
    schema = {**record(("a", [x, y]), ("b", ["null", p, q])), "name": "Outer"}
    type_ = pa.struct([(name, pa.struct([("v", pa.int32())])) for name in "ab"])
    array = pa.array([{"a": {"v": 1}, "b": {"v": 2}}], type_)
    for names in ("Y,P", "n.P, Y", "P,n.Y"):
        spec = EncoderSpec(format=Format.AVRO, schema=json.dumps(schema), message=names)
        encoder = compile_encoder(spec, type_)
        assert encoder.encode(array, EncodingErrors(1)).to_pylist() == [b"\2\2\2\4"]  # type: ignore[arg-type]
    for names, problem in (
        ("X", "several records"),
        ("X,Y,P", "several"),
        ("X,Z", "no record 'Z'"),
    ):
        spec = EncoderSpec(format=Format.AVRO, schema=json.dumps(schema), message=names)
        with pytest.raises((ColumnError, ConfigError), match=problem):
            compile_encoder(spec, type_)


@pytest.mark.parametrize(
    ("union", "column", "names", "is_used"),
    [
        (["null", INNER], "X", "X", True),
        (["null", INNER], "null", "n.X", True),
        (["null", INNER, OTHER], "X", "X,B", True),
        (["null", INNER], None, "X", False),
        (["null", INNER], None, "Outer", True),
        (["null", INNER], None, "Outer,X", False),
        (["null", "int", INNER], "int", "X", False),
    ],
)
def test_names_without_an_effect(
    union: list[Any], column: str | None, names: str, is_used: bool
) -> None:
    fields = [("a", pa.int32())] + ([] if column is None else [("u", ROWS[column])])
    parts = ("a", "int"), ("u", union)
    schema: Any = {**record(*parts), "name": "Outer"}
    schema["fields"][1]["default"] = None
    for whole in (schema, [schema, {**OTHER, "name": "C"}]):
        spec = EncoderSpec(format=Format.AVRO, schema=json.dumps(whole), message=names)
        with nullcontext() if is_used else pytest.raises(ConfigError, match="the record 'X'"):
            compile_encoder(spec, pa.struct(fields))


def test_error_of_a_large_union_names_five_reasons() -> None:
    union = [{**record(("v", "int")), "name": f"R{number}"} for number in range(300)]
    with pytest.raises(ColumnError, match="; 295 more") as caught:
        try_to_encode(pa.array([{"a": 1}]), {**record(("a", union)), "name": "Outer"})
    assert len(str(caught.value)) < 1000
