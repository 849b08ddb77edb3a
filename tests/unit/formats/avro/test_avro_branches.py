"""Branches of Avro unions, compared with fastavro."""

import datetime as dt
import json
from decimal import Decimal
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ColumnError
from tests.support.generated import EPOCH, plain_values
from tests.unit.formats.avro.fastavro_rows import encode, read, record, try_to_encode
from tests.unit.formats.avro.union_cases import (
    DOUBLE,
    ENUM,
    FLOAT,
    FOUR,
    INT,
    LONG,
    MILLIS,
    NARROW,
    NOON,
    OTHER_ENUM,
    TIME_MICROS,
    TIME_MILLIS,
    TIMES,
    TWO,
    WIDE,
    logical,
)

DATE = {"type": "int", "logicalType": "date"}
ENUMS = [ENUM, OTHER_ENUM]
OTHERS = ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]
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


def test_error_of_a_large_union_names_five_reasons() -> None:
    union = [{**record(("v", "int")), "name": f"R{number}"} for number in range(300)]
    with pytest.raises(ColumnError, match="; 295 more") as caught:
        try_to_encode(pa.array([{"a": 1}]), {**record(("a", union)), "name": "Outer"})
    assert len(str(caught.value)) < 1000
