"""Alternatives of a JSON Schema, compared with the library `jsonschema`."""

import re
from time import process_time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ColumnError
from tests.unit.formats.json.checked_rows import (
    INTEGER,
    NUMBER,
    TEXT,
    an_object,
    errors_of,
    invalid_rows,
)

TREE: dict[str, Any] = {
    "v": INTEGER,
    "next": {"anyOf": [{"$ref": "#/$defs/L"}, {"$ref": "#/$defs/M"}]},
}
SHAPES: Any = pa.array(
    [
        {"circle": {"r": 1.5}},
        {"square": {"a": 2}},
        {"circle": {"r": 1.0}, "square": {"a": 2}},
        {"text": "x", "sides": [1]},
        {"sides": []},
        {},
    ],
    pa.struct(
        [
            ("circle", pa.struct([("r", pa.float64())])),
            ("square", pa.struct([("a", pa.int32())])),
            ("text", pa.string()),
            ("sides", pa.list_(pa.int64())),
        ]
    ),
)
LEAVES = st.sampled_from(
    [True, {}, TEXT, INTEGER, {"enum": ["x", 1]}, {"type": ["null", "string"]}, {"type": "null"}]
)
COLUMNS = pa.struct(
    [
        ("a", pa.string()),
        ("n", pa.int64()),
        ("c", pa.struct([("a", pa.string()), ("n", pa.int32())])),
        ("l", pa.list_(pa.int32())),
    ]
)
FULL = {"a": "x", "n": 1, "c": {"a": "x", "n": 1}, "l": [1]}
WORDS, SMALL = st.sampled_from(["x", "y", None]), st.sampled_from([1, 2, None])
DRAWN_ROWS = st.fixed_dictionaries(
    {
        "a": WORDS,
        "n": SMALL,
        "c": st.none() | st.fixed_dictionaries({"a": WORDS, "n": SMALL}),
        "l": st.none() | st.lists(SMALL, max_size=2),
    }
)
TREES = {
    "$ref": "#/$defs/L",
    "$defs": {
        "L": {**an_object(["v"], **TREE), "additionalProperties": False},
        "M": an_object(**{**TREE, "v": {"type": "number"}}),
    },
}


def test_alternatives_of_deep_columns_are_matched_once() -> None:
    """Each level would multiply the time and the checks by the number of alternatives."""
    type_ = pa.struct([("v", pa.float64())])
    row: dict[str, Any] = {"v": 1.5}
    for level in range(24):
        type_ = pa.struct([("v", pa.int64()), ("next", type_)])
        row = {"v": level, "next": row}
    leaf: Any = row
    while "next" in leaf["next"]:
        leaf = leaf["next"]
    array: Any = pa.array([row, {**row, "v": None}], type_)
    began = process_time()
    assert errors_of(array, TREES).rows.tolist() == [1]
    assert process_time() - began < 10
    assert invalid_rows(array, TREES, writes_nulls=False) == [1]


def test_part_is_matched_again_in_another_dynamic_scope() -> None:
    tree = {
        "$id": "https://example.com/tree",
        "$dynamicAnchor": "node",
        "properties": {"a": {"$dynamicRef": "#node"}},
    }
    strict = {
        "$id": "https://example.com/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "required": ["v"],
    }
    schema = {"anyOf": [{"$ref": strict["$id"]}, {"$ref": tree["$id"], "maxProperties": 1}]}
    type_ = pa.struct([("a", pa.struct([("v", pa.int32())])), ("v", pa.int32())])
    array: Any = pa.array([{"a": {"v": 1}, "v": 1}, {"a": {"v": None}, "v": None}], type_)
    documents = {"https://example.com/tree": tree, "https://example.com/strict": strict}
    assert errors_of(array, schema, documents).rows.tolist() == []
    only_strict = {"$ref": strict["$id"]}
    assert errors_of(array, only_strict, documents).rows.tolist() == [1]
    first_tree = {"allOf": [{"$ref": tree["$id"]}, only_strict]}
    assert errors_of(array, first_tree, documents).rows.tolist() == [1]


def closed(**properties: Any) -> dict[str, Any]:
    return {**an_object([*properties], **properties), "additionalProperties": False}


@pytest.mark.parametrize(
    "schema",
    [
        # One column for each type of event.
        {"anyOf": [closed(circle=True), closed(square=True), closed(text=TEXT, sides=True)]},
        {"anyOf": [an_object(text=NUMBER), an_object(text=TEXT, sides={"items": TEXT})]},
        {"anyOf": [an_object(text=NUMBER), an_object(sides={"items": TEXT})]},
        {"allOf": [{"anyOf": [an_object(circle={"type": "null"}), an_object(["square"])]}]},
        {
            "anyOf": [
                an_object(circle=an_object(r=TEXT), square=an_object(["a"])),
                an_object(circle=an_object(r=NUMBER), square={"anyOf": [an_object(a=TEXT)]}),
            ]
        },
    ],
)
@pytest.mark.parametrize("writes_nulls", [False, True])
def test_alternatives_that_contradict_columns_of_some_rows(
    schema: Any, *, writes_nulls: bool
) -> None:
    errors = errors_of(SHAPES, schema, writes_nulls=writes_nulls)
    assert errors.rows.tolist() == invalid_rows(SHAPES, schema, writes_nulls=writes_nulls)
    assert writes_nulls or len(errors.rows) < len(SHAPES)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"anyOf": [an_object(text=NUMBER), an_object(text=INTEGER, circle=True)]}, "text"),
        ({"anyOf": [{"type": "null"}, closed(circle=True, square=True, text=TEXT)]}, "sides"),
        ({"oneOf": [an_object(sides={"items": TEXT})]}, "sides[]"),
        (an_object(circle={"oneOf": [{"type": "null"}, an_object(r=TEXT)]}), "circle.r"),
        (
            {
                "anyOf": [
                    an_object(circle={"anyOf": [an_object(r=TEXT), an_object(r=INTEGER)]}),
                    an_object(circle=an_object(r=TEXT)),
                ]
            },
            "circle.r",
        ),
    ],
)
def test_columns_that_contradict_all_alternatives_are_rejected(schema: Any, path: str) -> None:
    assert invalid_rows(SHAPES, schema, writes_nulls=False)
    with pytest.raises(ColumnError, match=f"`{re.escape(path)}`"):
        errors_of(SHAPES, schema)


@st.composite
def object_schemas(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    """Return a schema of `COLUMNS`."""
    names = draw(st.lists(st.sampled_from(["a", "n", "c", "l"]), unique=True))
    properties = {name: draw(inner) for name in names}
    schema = an_object(draw(st.lists(st.sampled_from(names), unique=True)) if names else [])
    schema["properties"] = properties
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.sampled_from([True, False, TEXT]))
    return schema


SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        object_schemas(inner)
        | st.builds(lambda items: {"items": items}, inner)
        | st.builds(lambda all_: {"allOf": all_}, st.lists(inner, min_size=1, max_size=2))
        | st.builds(lambda any_: {"anyOf": any_}, st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=12,
)


@given(
    st.sampled_from(["anyOf", "allOf"]),
    st.lists(SCHEMAS, min_size=1, max_size=3),
    st.lists(DRAWN_ROWS, min_size=1),
    st.booleans(),
)
def test_rows_match_generated_alternatives(
    keyword: str, schemas: list[Any], drawn: list[Any], writes_nulls: bool
) -> None:
    schema = {keyword: schemas}
    array: Any = pa.array([FULL, *drawn], COLUMNS)
    invalid = invalid_rows(array, schema, writes_nulls=writes_nulls)
    try:
        errors = errors_of(array, schema, writes_nulls=writes_nulls)
    except ColumnError:
        assert 0 in invalid  # A row with values in all columns contradicts the schema.
        return
    assert errors.rows.tolist() == invalid
