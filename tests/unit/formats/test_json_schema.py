"""A given JSON Schema compared with the library `jsonschema`, which validates row by row."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.fields import Cells, RowFaults
from spark_kafka_sink.formats.json_schema import compile_check
from spark_kafka_sink.formats.plan import FieldPlan, compile_encoder, derive_schema
from tests.unit.formats.generated import OTHER_TYPES, PLAIN_TYPES, Generated, rows, types


def faults_of(array: pa.StructArray, schema: Any, *, writes_nulls: bool = False) -> RowFaults:
    faults = RowFaults(len(array))
    check = compile_check(json.dumps(schema), array.type, writes_nulls=writes_nulls)
    if check is not None:
        check(Cells(array, faults).without_nulls())
    return faults


def invalid_rows(array: pa.StructArray, schema: Any, *, writes_nulls: bool) -> list[int]:
    """Return the rows whose JSON is invalid."""
    plan = FieldPlan(format=Format.JSON, writes_nulls=writes_nulls)
    encoded = compile_encoder(plan, array.type).encode(array, RowFaults(len(array)))
    validator = jsonschema.Draft7Validator(schema)
    return [
        number
        for number, each in enumerate(encoded.to_pylist())
        if each is not None and not validator.is_valid(json.loads(each))
    ]


def an_object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or []}


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
NULLABLE = {"type": ["string", "null"]}
ROWS: list[Any] = [
    {"a": "x", "b": [1, 2], "c": {"d": "R", "e": None}},
    {"a": None, "b": [1, None], "c": {"d": "B", "e": 1}},
    {"a": "y", "b": None, "c": {"d": None, "e": 2}},
    {"a": "z", "b": [], "c": None},
    None,
]
NESTED = pa.struct([("d", pa.string()), ("e", pa.int64())])
ARRAY: Any = pa.array(
    ROWS, pa.struct([("a", pa.string()), ("b", pa.list_(pa.int32())), ("c", NESTED)])
)


@pytest.mark.parametrize("writes_nulls", [False, True])
@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        an_object(a=NULLABLE, b={}, c={}),
        an_object(["a"]),
        an_object(["a"], a=TEXT),
        an_object(b={"items": {"type": "integer"}}),
        an_object(b={"items": NUMBER, "type": ["array", "null"]}, c=True),
        an_object(["c"], c=an_object(["d"], d={"enum": ["R", "G", None]})),
        an_object(c={"oneOf": [{"type": "null"}, an_object(d={"enum": ["R"]})]}),
        an_object(c={"allOf": [an_object(["e"]), {"anyOf": [an_object(["d"])]}]}),
        {"$ref": "#/definitions/R", "definitions": {"R": an_object(["b"], a=NULLABLE)}},
        {"type": "object", "additionalProperties": {"type": ["string", "array", "object"]}},
        {"patternProperties": {"^[abc]$": {"type": ["string", "array", "object"]}}},
    ],
)
def test_invalid_rows_are_found(schema: Any, *, writes_nulls: bool) -> None:
    found = faults_of(ARRAY, schema, writes_nulls=writes_nulls)
    assert found.rows.tolist() == invalid_rows(ARRAY, schema, writes_nulls=writes_nulls)


def test_faults_name_the_field() -> None:
    found = faults_of(ARRAY, an_object(["a"], c=an_object(d={"enum": ["R"]})))
    assert [(each.row, each.path, each.problem) for each in found] == [
        (1, "a", "is null, but must not be"),
    ]
    found = faults_of(ARRAY, an_object(c=an_object(d={"enum": ["R"]})))
    assert [(each.row, each.path, each.problem) for each in found] == [
        (1, "c.d", "is not in the schema's `enum`"),
    ]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (False, "allows no value"),
        ({"type": "array"}, "the record .*object"),
        (an_object(a=NUMBER), "`a` .*string, .*number"),
        (an_object(b={"items": TEXT}), r"`b\[\]` .*integer"),
        (an_object(["a", "x"]), "requires the field `x`"),
        (an_object(c=an_object(["x"])), r"requires the field `c\.x`"),
        (
            {**an_object(a=TEXT, b={}), "additionalProperties": False},
            "`c` is not a field",
        ),
        (an_object(a={"anyOf": [NUMBER, {"type": "null"}]}), "allows number"),
        (an_object(a={"anyOf": [NUMBER, {"type": "array"}]}), "allows other values"),
    ],
)
def test_schema_that_contradicts_the_columns_is_rejected(schema: Any, message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        faults_of(ARRAY, schema)


@pytest.mark.parametrize("reference", ["other.json", "#/definitions/X", "#"])
def test_unresolvable_references(reference: str) -> None:
    with pytest.raises(ConfigError, match=r"reference|refers"):
        faults_of(ARRAY, {"$ref": reference})


@given(rows(types(PLAIN_TYPES + OTHER_TYPES, (pa.string(), pa.large_string()))))
def test_derived_schema_matches_its_rows(generated: Generated) -> None:
    derived = derive_schema(Format.JSON, generated.type, "R", "")
    assert not faults_of(generated.array(), json.loads(derived.schema))
