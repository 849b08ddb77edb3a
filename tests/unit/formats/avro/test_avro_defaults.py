"""Defaults of Avro fields, compared with fastavro."""

import datetime as dt
import uuid
from decimal import Decimal
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ConfigError
from tests.unit.formats.avro.fastavro_rows import encode, read, record

UUID = {"type": "string", "logicalType": "uuid"}
TIME = {"type": "int", "logicalType": "time-millis"}
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 4}


def test_fields_are_matched_by_name_and_filled_with_defaults() -> None:
    array = pa.array([{"b": 1, "a": "x"}, {"b": None, "a": "y"}])
    schema = record(
        ("a", ["string", "null"]),
        {
            "name": "color",
            "type": {"type": "enum", "name": "C", "symbols": ["R", "G"]},
            "default": "G",
        },
        {"name": "tags", "type": {"type": "array", "items": "int"}, "default": [1, -2]},
        {"name": "m", "type": {"type": "map", "values": "double"}, "default": {"k": 0.5}},
        {"name": "in", "type": record(("x", "long")) | {"name": "I"}, "default": {"x": 7}},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        ("nothing", ["int", "null"]),
        ("b", ["null", "long"]),
    )
    filled = {
        "color": "G", "tags": [1, -2], "m": {"k": 0.5}, "in": {"x": 7}, "raw": b"\xff",
        "nothing": None,
    }  # fmt: skip
    values = [read(schema, data) for data in encode(array, schema)]
    assert values == [{"a": "x", "b": 1, **filled}, {"a": "y", "b": None, **filled}]


@pytest.mark.parametrize("type_", ["float", "double", ["float", "null"]])
@pytest.mark.parametrize("default", ["NaN", "Infinity", "-Infinity"])
def test_default_that_json_numbers_cannot_represent(default: str, type_: Any) -> None:
    """Java prints such a default as text."""
    schema = record(("a", "int"), {"name": "f", "type": type_, "default": default})
    (data,) = encode(pa.array([{"a": 1}]), schema)
    assert repr(read(schema, data)["f"]) == repr(float(default))


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        ({"type": "array", "items": "int"}, {}),
        ({"type": "array", "items": "int"}, ""),
        ({"type": "map", "values": "int"}, []),
        ({"type": "map", "values": "int"}, ""),
        ({**record(), "name": "Empty"}, []),
        ({**record(), "name": "Empty"}, ""),
        (UUID, ""),
        (UUID, "00000000"),
        (UUID, "0" * 16),
        (UUID, f"{uuid.UUID(int=5)}\n"),
        ([UUID, "null"], "x"),
        (TIME, 86_400_000),
        ({"type": "long", "logicalType": "time-micros"}, -1),
        (AMOUNT, ""),
        ({**AMOUNT, "logicalType": "big-decimal"}, ""),
        ({"type": "array", "items": UUID}, [""]),
        ({**record(("u", UUID)), "name": "Inner"}, {"u": ""}),
    ],
)
def test_defaults_that_do_not_fit(schema: Any, default: Any) -> None:
    text = record(("v", "int"))
    text["fields"].append({"name": "x", "type": schema, "default": default})
    array = pa.array([{"v": 1}], pa.struct([("v", pa.int32())]))
    with pytest.raises(ConfigError, match="of `x` does not fit the type"):
        encode(array, text)
    written_column = pa.array(
        [{"v": 1, "x": None}], pa.struct([("v", pa.int32()), ("x", pa.null())])
    )
    if isinstance(schema, list):  # The default is not needed.
        assert read(text, encode(written_column, text)[0]) == {"v": 1, "x": None}


@pytest.mark.parametrize(
    ("schema", "default", "expected"),
    [
        (UUID, str(uuid.UUID(int=5)), uuid.UUID(int=5)),
        (TIME, 86_399_999, dt.time(23, 59, 59, 999_000)),
        (AMOUNT, "\0", Decimal(0)),
        (AMOUNT, "\u00ff", Decimal(-1)),
        ({"type": "string", "logicalType": "unknown"}, "", ""),
    ],
)
def test_defaults_with_logical_types(schema: Any, default: Any, expected: Any) -> None:
    text = record(("v", "int"))
    text["fields"].append({"name": "x", "type": schema, "default": default})
    (data,) = encode(pa.array([{"v": 1}], pa.struct([("v", pa.int32())])), text)
    assert read(text, data) == {"v": 1, "x": expected}


@pytest.mark.parametrize(
    ("default", "kind"),
    [([], "array"), ([7], "array"), ({}, "map"), ({"k": 7}, "map"), ("", "string"), (None, "null")],
)
def test_default_of_a_union_has_the_branch_of_its_json_type(default: Any, kind: str) -> None:
    branches = [{"type": "array", "items": "int"}, {"type": "map", "values": "int"}]
    for union in permutations([*branches, "string", "null"]):
        schema = record(("v", "int"), {"name": "x", "type": [*union], "default": default})
        (data,) = encode(pa.array([{"v": 1}], pa.struct([("v", pa.int32())])), schema)
        assert read(schema, data) == {"v": 1, "x": default}
        assert kind in str(union[(data or b"")[1] // 2])
