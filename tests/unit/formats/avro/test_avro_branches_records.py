"""Records of an Avro union that are chosen by their fields or by name."""

import datetime as dt
import io
import json
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

import fastavro
import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder
from tests.unit.formats.avro.fastavro_rows import read, record
from tests.unit.formats.avro.union_cases import (
    DOUBLE,
    ENUM,
    FLOAT,
    INT,
    LONG,
    NARROW,
    NOON,
    OTHER_ENUM,
    TIME_MICROS,
    TIME_MILLIS,
    TIMES,
    TWO,
    WIDE,
    encoded_by,
)

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
INNER = {**record(("v", "int")), "name": "X"}
OTHER = {**record(("v", "int"), ("w", "int")), "name": "B"}
ROWS: dict[str, Any] = {"int": pa.int32(), "null": pa.null(), "X": pa.struct([("v", pa.int32())])}


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
