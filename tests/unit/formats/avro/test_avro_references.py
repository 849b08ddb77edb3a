"""Avro schemas joined with those to which they refer, read by fastavro with the parts."""

import io
import json
from itertools import product
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from spark_kafka_sink.formats.avro.avro_references import inline_references
from tests.unit.formats.avro.fastavro_rows import encode

CITY = {"f0": "Bern"}
RATE = {"type": "enum", "name": "Rate", "symbols": ["LOW", "HIGH"]}


def named(name: str, *fields: Any, **attributes: Any) -> dict[str, Any]:
    declared = [{"name": f"f{number}", "type": type_} for number, type_ in enumerate(fields)]
    return {"type": "record", "name": name, "fields": declared, **attributes}


CASES: dict[str, tuple[Any, list[Any], Any]] = {
    "namespace as an attribute": (
        named("Main", "b.City"),
        [named("City", "string", namespace="b")],
        {"f0": CITY},
    ),
    "namespace in the name": (named("a.Main", "b.City"), [named("b.City", "string")], {"f0": CITY}),
    "enclosing namespace": (
        named("Main", ["null", "City"], namespace="b"),
        [named("b.City", "string")],
        {"f0": CITY},
    ),
    "type inside of a reference": (
        named("a.Main", "b.Rate", "b.Order", "b.Rate"),
        [named("b.Order", "string", RATE)],
        {"f0": "HIGH", "f1": {"f0": "1", "f1": "LOW"}, "f2": "LOW"},
    ),
    "several types in a reference": (
        named("a.Main", "b.City", {"type": "array", "items": "c.Rate"}),
        [[named("b.City", "string"), {**RATE, "namespace": "c"}]],
        {"f0": CITY, "f1": ["LOW"]},
    ),
    "null namespace below another": (
        named("a.Main", named("Inner", named("City", "string", namespace=""))),
        [named("x.Unused", "string")],
        {"f0": {"f0": CITY}},
    ),
    "null namespace of a reference": (
        named("Main", "b.Order", "City", "City"),
        [named("b.Order", named("City", "string", namespace=""), "string")],
        {"f0": {"f0": CITY, "f1": "x"}, "f1": CITY, "f2": CITY},
    ),
    "reference of a reference": (
        named("a.Main", "c.Trip", {"type": "map", "values": "b.City"}),
        [named("b.City", "string"), named("c.Trip", "b.City", ["null", "b.City"])],
        {"f0": {"f0": CITY, "f1": CITY}, "f1": {"k": CITY}},
    ),
    "attributes of other kinds of types": (
        named(
            "a.Main",
            {"type": "string", "items": "City", "fields": ["x"], "values": ["City", "x"]},
            {"type": "array", "items": "City", "values": "City"},
            "City",
        ),
        [named("a.City", "string")],
        {"f0": "x", "f1": [CITY], "f2": CITY},
    ),
    "types named like kinds of types": (
        named(
            "a.Main",
            "a.record",
            "a.enum",
            {"type": "map", "values": "a.map"},
            {"type": "array", "items": "int"},
            named("Inner", "fixed"),
        ),
        [
            named("a.record", "string"),
            {"type": "enum", "name": "enum", "namespace": "a", "symbols": ["LOW"]},
            named("a.map", "string"),
            named("a.array", "string"),
            {"type": "fixed", "name": "a.fixed", "size": 2},
        ],
        {"f0": CITY, "f1": "LOW", "f2": {"k": CITY}, "f3": [7], "f4": {"f0": b"ab"}},
    ),
    "union of events": (
        ["null", "b.Order", "b.City"],
        [named("b.City", "string"), named("b.Order", "b.City", "long")],
        {"f0": CITY, "f1": 5},
    ),
}


def read_with_parts(schema: Any, parts: list[Any], data: bytes) -> Any:
    """Return what a reader sees that parses the referenced schemas one after the other."""
    types: dict[str, Any] = {}
    for part in parts:
        fastavro.parse_schema(part, named_schemas=types)
    source = io.BytesIO(data)
    parsed = fastavro.parse_schema(named("W", schema), types)  # A record adds no bytes.
    value: Any = fastavro.schemaless_reader(source, parsed, None)
    assert not source.read()
    return value["f0"]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("case", "names"), [*product(CASES, ("full names", "file names", "simple names"))]
)
def test_types_of_references_are_found_by_their_full_names(
    case: str, names: str, order: int
) -> None:
    schema, parts, row = CASES[case]
    referenced = {}
    for number, part in [*enumerate(parts)][::order]:
        full = part["name"] if isinstance(part, dict) else "events"
        name = {"full names": full, "file names": f"{number}.avsc"}.get(names, full.split(".")[-1])
        referenced[name] = part
    joined = json.loads(json.dumps(inline_references(schema, referenced)))
    array: Any = pa.array([row], type_of(row))
    (data,) = encode(array, joined)
    assert read_with_parts(schema, parts, data or b"") == row
    fastavro.parse_schema(joined)


def type_of(row: Any) -> Any:
    if isinstance(row, dict) and "k" in row:
        return pa.map_(pa.string(), type_of(row["k"]))
    if isinstance(row, dict):
        return pa.struct([(name, type_of(value)) for name, value in row.items()])
    return pa.string() if isinstance(row, str) else pa.array([row]).type


def test_a_reference_without_such_a_type_is_found_by_its_name() -> None:
    referenced = {"Tags": {"type": "array", "items": "string"}, "Town": named("b.City", "string")}
    joined = inline_references(named("Main", "Tags", "Town", "Town", "Tags"), referenced)
    row = {"f0": ["a"], "f1": CITY, "f2": CITY, "f3": ["b"]}
    (data,) = encode(pa.array([row]), joined)
    assert read_with_parts(joined, [], data or b"") == row
