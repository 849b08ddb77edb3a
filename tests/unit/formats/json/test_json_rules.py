"""Keywords of a JSON Schema for values, compared with the library `jsonschema`."""

import json
import math
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder, derive_schema
from tests.unit.formats.json.checked_rows import (
    DRAFTS,
    INTEGER,
    NEW,
    NULLABLE,
    NUMBER,
    TEXT,
    an_object,
    errors_of,
    invalid_rows,
    records,
)

TEXTS: Any = pa.array([{"d": "x"}])
VALUES: Any = pa.array(
    [
        {"n": 1, "f": 1.5, "m": [("x", "1"), ("y", None)], "l": ["a", "b", "c"], "d": Decimal(7)},
        {"n": 2, "f": math.nan, "m": [("y", "3")], "l": [None, "a"], "d": Decimal(8)},
        {"n": None, "f": math.inf, "m": [("x", "2"), ("xy", "1")], "l": [], "d": None},
        {"n": 3, "f": -0.0, "m": None, "l": None, "d": Decimal(9), "p": Decimal("2.00")},
        {"n": 4, "f": None, "m": [], "l": ["a"], "d": Decimal(0), "p": Decimal("1.50")},
    ],
    pa.struct(
        [
            ("n", pa.int16()),
            ("f", pa.float64()),
            ("m", pa.map_(pa.string(), pa.string())),
            ("l", pa.list_(pa.string())),
            ("d", pa.decimal128(5, 0)),
            ("p", pa.decimal128(5, 2)),
        ]
    ),
)
A_ONLY: dict[str, Any] = {"properties": {"a": {}}}
WITH_Z: dict[str, Any] = {"properties": {"z": {}}}


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("keyword", ["oneOf", "anyOf", "allOf"])
@pytest.mark.parametrize("other", [NULLABLE, {"type": "null"}, TEXT])
def test_constant_alternatives(keyword: str, other: dict[str, Any], *, constant: bool) -> None:
    for alternatives in ([other, constant], [constant, other]):
        schema = an_object(d={keyword: alternatives})
        for draft in NEW:
            draft.check_schema(schema)
            if draft(schema).is_valid({"d": "x"}):
                assert not errors_of(TEXTS, {**schema, "$schema": DRAFTS[draft]})
            elif keyword != "oneOf":  # Several matches are not checked.
                with pytest.raises(ColumnError):
                    errors_of(TEXTS, {**schema, "$schema": DRAFTS[draft]})


@pytest.mark.parametrize("keyword", ["not", "if", "then", "else", "contains"])
@pytest.mark.parametrize("constant", [True, False])
def test_constants_of_keywords_that_are_not_checked(keyword: str, *, constant: bool) -> None:
    for draft in NEW:
        schema = {**an_object(d={**TEXT, keyword: constant}), "$schema": DRAFTS[draft]}
        draft.check_schema(schema)
        assert not errors_of(TEXTS, schema)


@pytest.mark.parametrize("draft", ["2019-09", "2020-12"])
@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"allOf": [{"properties": {"b": {}}}]},
        {"allOf": [WITH_Z]},
        {"allOf": [{"anyOf": [WITH_Z, {"required": ["a"]}]}]},
        {"allOf": [{"patternProperties": {"^z": {}}}]},
        {"allOf": [{"patternProperties": {"^y": {}}}]},
        {"allOf": [{"additionalProperties": True}]},
        {"allOf": [{"unevaluatedProperties": True}]},
        {"unevaluatedProperties": {"type": "string"}},
        {"unevaluatedProperties": {"type": "integer"}},
        {"dependentSchemas": {"a": WITH_Z}},
        {"if": {"required": ["a"]}, "then": WITH_Z},
        {"if": WITH_Z},
        {"$ref": "#/$defs/z"},
        {"$ref": "#/$defs/a"},
        {"$ref": "https://o.org/other"},
        {"$ref": "https://o.org/tree"},
        {"additionalProperties": True},
        {"anyOf": [{"additionalProperties": False, "properties": {"a": {}}}, {"required": ["a"]}]},
    ],
)
def test_unevaluated_properties(parts: dict[str, Any], draft: str) -> None:
    """The library judges a row, and the sink the column: all alternatives count."""
    schema = {
        "$schema": f"https://json-schema.org/draft/{draft}/schema",
        "$defs": {
            "z": WITH_Z,
            "a": {"allOf": [A_ONLY]},
            "other": {"$id": "https://o.org/other", "$ref": "#/$defs/z", "$defs": {"z": WITH_Z}},
            "tree": {"$id": "https://o.org/tree", "properties": {"z": {"$ref": "tree"}}},
        },
        **A_ONLY,
        "unevaluatedProperties": False,
        **parts,
    }
    rows = pa.array([{"a": "x", "z": "x"}])
    is_valid = jsonschema.validators.validator_for(schema)(schema).is_valid(rows[0].as_py())
    try:
        accepted = not len(errors_of(rows, schema, writes_nulls=False).rows)
    except ColumnError:
        accepted = False
    assert accepted is is_valid


@pytest.mark.parametrize(
    ("draft", "part"),
    [
        ("2020-12", {"$dynamicRef": "#extension"}),
        ("2019-09", {"$dynamicRef": "unknown in this draft", **WITH_Z}),
        (
            "2020-12",
            {
                "$schema": DRAFTS[jsonschema.Draft7Validator],
                "dependentSchemas": ["unknown in this draft"],
                **WITH_Z,
            },
        ),
    ],
)
def test_unevaluated_properties_of_other_references(draft: str, part: dict[str, Any]) -> None:
    """The library judges some of them wrongly."""
    schema = {
        "$schema": f"https://json-schema.org/draft/{draft}/schema",
        "$defs": {"z": {"$dynamicAnchor": "extension", **WITH_Z}},
        "unevaluatedProperties": False,
        "allOf": [part],
    }
    assert not errors_of(pa.array([{"z": "x"}]), schema, writes_nulls=False)
    with pytest.raises(ColumnError, match="column `y` is not a field of the JSON Schema"):
        errors_of(pa.array([{"y": "x"}]), schema, writes_nulls=False)


@pytest.mark.parametrize("part", [{"$ref": "o.json"}, {"allOf": [{"$ref": "o.json#/$defs/z"}]}])
@pytest.mark.parametrize("draft", ["2019-09", "2020-12", None])
@pytest.mark.parametrize("place", ["main", "document", "embedded"])
def test_unevaluated_properties_of_registered_references(
    draft: str | None, part: dict[str, Any], place: str
) -> None:
    """The schemas of NASA's notices have this form."""
    uri = f"https://json-schema.org/draft/{draft}/schema"
    declared = {"$schema": uri} if draft else {}
    strict = {**declared, "type": "object", "unevaluatedProperties": False, **part}
    others = {"o.json": {**declared, **WITH_Z, "$defs": {"z": WITH_Z}}}
    schema: dict[str, Any] = strict
    if place == "document":
        schema, others["strict.json"] = {**declared, "$ref": "strict.json"}, strict
    elif place == "embedded":
        embedded = {**strict, "$id": "https://o.org/folder/embedded"}
        schema = {"$defs": {"e": embedded}, "$ref": "https://o.org/folder/embedded"}
        others = {"https://o.org/folder/o.json": others["o.json"]}
    assert not errors_of(pa.array([{"z": "x"}]), schema, others)
    with pytest.raises(ColumnError, match="column `y` is not a field of the JSON Schema"):
        errors_of(pa.array([{"y": "x"}]), schema, others)


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("more", [{}, {"unevaluatedProperties": False}])
@pytest.mark.parametrize(
    "part", [{"allOf": 5}, {"patternProperties": 5}, {"anyOf": {}}, {"properties": [1]}]
)
def test_reference_to_an_invalid_part(
    part: dict[str, Any], more: dict[str, Any], keyword: str
) -> None:
    draft = "https://json-schema.org/draft/2020-12/schema"
    schema = {"$schema": draft, **more, keyword: "#/components/A", "components": {"A": part}}
    with pytest.raises(ConfigError, match="of the reference '#/components/A' is invalid"):
        errors_of(pa.array([{"z": "x"}]), schema)


@pytest.mark.parametrize("draft", ["2019-09", "2020-12"])
def test_strict_schema_of_a_recursive_type(draft: str) -> None:
    """The example of the specifications for dynamic references."""
    is_new = draft == "2020-12"
    anchor: Any = {"$dynamicAnchor": "node"} if is_new else {"$recursiveAnchor": True}
    reference = {"$dynamicRef": "#node"} if is_new else {"$recursiveRef": "#"}
    schema = {
        "$schema": f"https://json-schema.org/draft/{draft}/schema",
        "$id": "https://o.org/strict-tree",
        **anchor,
        "$ref": "tree",
        "unevaluatedProperties": False,
        "$defs": {"tree": {"$id": "tree", **anchor, "properties": {"a": {}, "child": reference}}},
    }
    rows = pa.array([{"a": "x", "child": {"a": "y"}}])
    assert not errors_of(rows, schema, writes_nulls=False)
    with pytest.raises(ColumnError, match=r"column `child\.z` is not a field"):
        errors_of(pa.array([{"a": "x", "child": {"z": "y"}}]), schema, writes_nulls=False)


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf", "if", "then", "dependentSchemas"])
@pytest.mark.parametrize("draft", ["2019-09", "2020-12"])
def test_unevaluated_properties_of_parts_with_their_own_uri(draft: str, keyword: str) -> None:
    """The library resolves the references of such a part against the outer schema."""
    part = {
        "$id": "folder/part",
        "$ref": "declared#/$defs/own",
        "$defs": {"d": {"$id": "declared", "$defs": {"own": WITH_Z}}},
    }
    value: Any = {"a": part} if keyword == "dependentSchemas" else [part]
    schema = {
        "$schema": f"https://json-schema.org/draft/{draft}/schema",
        "$id": "https://o.org/main",
        "$defs": {"own": A_ONLY},
        "unevaluatedProperties": False,
        "if": True,
        keyword: part if keyword in {"if", "then"} else value,
    }
    assert not errors_of(pa.array([{"z": "x"}]), schema, writes_nulls=False)
    with pytest.raises(ColumnError, match="column `y` is not a field of the JSON Schema"):
        errors_of(pa.array([{"y": "x"}]), schema, writes_nulls=False)


@pytest.mark.parametrize(
    "properties",
    [
        {"n": {"enum": [1, 3.0, 70000, "x", True]}},
        {"n": {"const": 2}},
        {"d": INTEGER},
        {"d": {"enum": [0, 8.0, 8.5, "7", 10**50, 1e300]}},
        {"d": {"const": 9}},
        {"p": {"enum": [1.5, 0.001]}},
        {"p": {"const": 2}},
        {"f": NUMBER},
        {"f": {"enum": [0]}},
        {"f": {"anyOf": [NUMBER, TEXT]}},
        {"f": {"anyOf": [TEXT, {"type": "number", "enum": [1.5]}]}},
        {"f": {"oneOf": [NUMBER, {"type": "string", "const": "NaN"}]}},
        {"f": {"anyOf": [{"enum": [0]}, {"allOf": [{"anyOf": [TEXT, INTEGER]}]}]}},
        {"f": {"oneOf": [NUMBER, {"enum": ["NaN"]}]}},
        {"f": {"enum": [1.5, "Infinity"]}},
        {"m": {"properties": {"x": INTEGER}}},
        {"m": {"properties": {"y": {"type": "null"}}}},
        {"m": {"properties": {"y": False}}},
        {"m": {"patternProperties": {"^y": {"type": ["null", "integer"]}}}},
        {"m": {"properties": {"x": {}}, "additionalProperties": {"const": None}}},
        {"m": {"properties": {"x": TEXT}, "additionalProperties": False}},
        {"m": {"properties": {"x": {}}, "additionalProperties": {"enum": ["1"]}}},
        {"m": {"patternProperties": {"^x": {"enum": ["1"]}}, "additionalProperties": NULLABLE}},
        {"m": {"patternProperties": {"(?!x)\\p{L}": INTEGER}, "additionalProperties": False}},
        {"m": {"required": ["x"], "additionalProperties": NULLABLE}},
        {"m": {"anyOf": [{"required": ["y"]}, {"required": ["xy"]}]}},
        {"l": {"prefixItems": [TEXT], "items": False}},
        {"l": {"prefixItems": [{"enum": ["a"]}, TEXT], "items": {"enum": ["c"]}}},
        {"l": {"prefixItems": [TEXT, INTEGER]}},
        {"l": {"prefixItems": [{"type": "null"}, TEXT]}},
        {"l": {"prefixItems": [{"enum": [None, 1]}]}},
        {"l": {"prefixItems": [{"oneOf": [{"type": "null"}, NUMBER]}], "items": TEXT}},
        {"l": {"items": {"anyOf": [{"enum": ["a"]}, {"enum": ["b"]}]}}},
        {"l": {"not": {"type": "array"}}},
    ],
)
@pytest.mark.parametrize("writes_nulls", [False, True])
def test_values_maps_and_positions(properties: dict[str, Any], *, writes_nulls: bool) -> None:
    nulls = {"type": "null"}
    schema = {
        "properties": {
            name: {"anyOf": [nulls, property_schema]}
            for name, property_schema in properties.items()
        }
    }
    spec = EncoderSpec(format=Format.JSON, writes_nulls=writes_nulls)
    size = len(VALUES)
    encoded = compile_encoder(spec, VALUES.type).encode(VALUES, EncodingErrors(size)).to_pylist()
    validator = jsonschema.Draft202012Validator(schema)
    is_checked = "not" not in str(properties) and "p{L}" not in str(properties)
    expected = [
        n
        for n in range(size)
        if is_checked and not validator.is_valid(json.loads(encoded[n] or ""))
    ]
    assert errors_of(VALUES, schema, writes_nulls=writes_nulls).rows.tolist() == expected


@pytest.mark.parametrize(
    ("type_", "values", "text"),
    [
        (pa.date32(), [date(2024, 2, 29), date(1900, 1, 1)], "2024-02-29"),
        (pa.time64("ns"), [time(1, 2, 3), time(0)], "01:02:03"),
        (pa.timestamp("us"), [0, -1], "1970-01-01T00:00:00.000"),
        (pa.duration("us"), [timedelta(1), timedelta(0)], "INTERVAL '1 00:00:00' DAY TO SECOND"),
        (pa.binary(), [b"ab", b""], "YWI="),
        (pa.string(), ["a", "b"], "a"),
        (pa.float64(), [2.0**53, 1.5], 2**53),
        (pa.float64(), [1.5, 1e300], 1.5),
        (pa.float32(), [0.1, 2.0**24], 0.1),
        (pa.float32(), [2.0**24, 0.1], 2**24),
    ],
)
def test_values_written_as_text_and_large_numbers(
    type_: pa.DataType, values: list[Any], text: Any
) -> None:
    array = records(values, type_)
    unwritten = ["\ud83d", 2**53 + 1, 2**24 + 1, 0.10000000149011612, 10**400]
    schemas = [{"const": text}, {"enum": [text, *unwritten, "other"]}]
    for schema in (*schemas, {"anyOf": [{"const": text}, {"const": "other"}]}):
        bad_rows = errors_of(array, an_object(v=schema)).rows.tolist()
        assert bad_rows == invalid_rows(array, an_object(v=schema), writes_nulls=False) == [1]
    for never in ("\ud83d", 2**53 + 1):
        with pytest.raises(ColumnError, match=r"`v` is written as JSON .* allows other values"):
            errors_of(array, an_object(v={"enum": [never]}))


@pytest.mark.parametrize(
    ("type_", "bits"),
    [
        *((np.uint64, bits) for bits in (0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1)),
        *((np.uint32, bits) for bits in (0x7FC00000, 0xFFC00000, 0x7FC00001)),
    ],
)
def test_every_nan_is_written_as_the_same_text(type_: Any, bits: int) -> None:
    numbers = pa.array(np.array([bits], type_).view(f"f{type_().itemsize}"))
    array = pa.StructArray.from_arrays([numbers], ["v"])
    derived = derive_schema(Format.JSON, array.type, "R", "")
    assert not errors_of(array, json.loads(derived.text))
    assert not errors_of(array, an_object(v={"enum": ["NaN"]}))
    assert errors_of(array, an_object(v={"enum": ["Infinity", 1]})).rows.tolist() == [0]


@pytest.mark.parametrize(
    ("type_", "value", "allowed"),
    [
        (pa.timestamp("us", "UTC"), 0, "1970-01-01T00:00:00.000Z"),
        (pa.list_(pa.int32()), [1], [1]),
        (pa.struct([("a", pa.int32())]), {"a": 1}, {"a": 1}),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)], {"a": 1}),
    ],
)
def test_values_that_cannot_be_compared_are_rejected(
    type_: pa.DataType, value: Any, allowed: Any
) -> None:
    with pytest.raises(ColumnError, match=r"`v` .* which the sink can check only for"):
        errors_of(records([value], type_), an_object(v={"const": allowed}))


@pytest.mark.parametrize("extra", [False, TEXT, {"enum": ["x"]}])
def test_item_arrays_of_older_drafts(extra: Any) -> None:
    schema = {"properties": {"l": {"items": [TEXT], "additionalItems": extra}}}
    validator = jsonschema.Draft7Validator(schema)
    expected = [
        n
        for n, row in enumerate(VALUES.to_pylist())
        if row["l"] and not validator.is_valid({"l": row["l"]})
    ]
    assert errors_of(VALUES, schema).rows.tolist() == expected
