"""A given JSON Schema compared with the library `jsonschema`, which validates row by row."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.encoder_spec import derive_schema
from tests.support.generated import OTHER_TYPES, PLAIN_TYPES, Generated, rows, types
from tests.unit.formats.json.checked_rows import (
    ARRAY,
    NULLABLE,
    NUMBER,
    TEXT,
    an_object,
    errors_of,
    invalid_rows,
)

RECURSIVE = {**an_object(a=TEXT, c={"$ref": "#"}), "additionalProperties": True}


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
    errors = errors_of(ARRAY, schema, writes_nulls=writes_nulls)
    assert errors.rows.tolist() == invalid_rows(ARRAY, schema, writes_nulls=writes_nulls)


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
        (
            an_object(a={"anyOf": [NUMBER, {"type": "array"}]}),
            "`a` fits none .*string, .*allows number; .*string, .*allows array",
        ),
        (an_object(a={"anyOf": [{"type": "null"}]}), "`a` .*string, .*allows null only"),
        (
            {"oneOf": [an_object(["a", "x"]), an_object(["y"])]},
            "the record fits none .*requires the field `x`.*; .*requires the field `y`",
        ),
        (
            {"oneOf": [an_object(["x"]), an_object(["x"])]},
            "^the JSON Schema requires the field `x`",
        ),
        (
            {"anyOf": [an_object([f"x{n}"]) for n in range(7)]},
            "`x4`.*; 2 more. Change",
        ),
    ],
)
def test_schema_that_contradicts_the_columns_is_rejected(schema: Any, message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        errors_of(ARRAY, schema)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"$ref": "other.json"}, "reference 'other.json'"),
        ({"$ref": "http://localhost:1/x.json"}, "reference 'http"),
        ({"$ref": "#/definitions/X"}, "reference '#/definitions/X'"),
        ({"$ref": "#"}, "lead to themselves"),
        ({"allOf": [{"$ref": "#"}]}, "lead to themselves"),
        ({"properties": []}, r"invalid at \$.properties"),
        ({"type": "text"}, r"invalid at \$.type"),
        ([], "not an object, true or false"),
        (5, "not an object, true or false"),
        ({"$schema": 5}, "`\\$schema` that is not a text"),
        ({"properties": {"a": {"$schema": 5}}}, r"invalid at \$.properties.a"),
        ({"$ref": None}, "invalid at"),
        ({"$ref": "#nope"}, "reference '#nope'"),
        ({"$ref": "#/allOf/x", "allOf": [{}]}, "reference '#/allOf/x'"),
        ({"$ref": "#/x/y", "x": 5}, "reference '#/x/y'"),
        ({"$ref": "#/x/y", "x": None}, "reference '#/x/y'"),
        ({"$ref": "#definitions/X"}, "reference '#definitions/X'"),
        ({"$id": "http://x/y", "$ref": "#nope"}, "reference '#nope'"),
        *(({"$ref": "#/x", "x": part}, "something that is not a schema") for part in (5, "a", [1])),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "draft 3"),
    ],
)
def test_schemas_that_are_rejected(schema: Any, message: str) -> None:
    assert not errors_of(ARRAY.slice(3, 1), RECURSIVE)
    with pytest.raises(ConfigError, match=message):
        errors_of(ARRAY, schema)


@given(rows(types(PLAIN_TYPES + OTHER_TYPES, (pa.string(), pa.large_string()))))
def test_derived_schema_matches_its_rows(generated: Generated) -> None:
    derived = derive_schema(Format.JSON, generated.type, "R", "")
    assert not errors_of(generated.array(), json.loads(derived.text))
