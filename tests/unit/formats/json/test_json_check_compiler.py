"""A given JSON Schema compared with the library `jsonschema`, which validates row by row."""

import json
import math
import pickle
import re
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from time import process_time
from typing import Any, cast
from urllib.parse import urljoin

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from referencing import Registry, Resource

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.cells import Cells
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder, derive_schema
from spark_kafka_sink.formats.json.json_check_compiler import compile_check
from spark_kafka_sink.formats.json.json_references import JsonReferences
from tests.unit.formats.generated import OTHER_TYPES, PLAIN_TYPES, Generated, rows, types

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
NULLABLE = {"type": ["string", "null"]}
TEXTS: Any = pa.array([{"d": "x"}])
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
DRAFTS = {
    jsonschema.Draft4Validator: "http://json-schema.org/draft-04/schema#",
    jsonschema.Draft6Validator: "http://json-schema.org/draft-06/schema#",
    jsonschema.Draft7Validator: "http://json-schema.org/draft-07/schema#",
    jsonschema.Draft201909Validator: "https://json-schema.org/draft/2019-09/schema",
    jsonschema.Draft202012Validator: "https://json-schema.org/draft/2020-12/schema",
}
OLD, NEW = [*DRAFTS][1:3], [*DRAFTS][3:]
NAMES_AND_IDS: list[tuple[str, str | None, list[str]]] = [
    # The name of a reference, the id of the schema, and what refers to it from http://x/a/main.
    ("http://x/b/box.json", None, ["http://x/b/box.json", "../b/box.json", "/b/box.json"]),
    ("box.json", None, ["box.json", "http://x/a/box.json"]),
    ("box", "http://x/b/box.json", ["box", "http://x/b/box.json", "../b/box.json"]),
    ("http://y/box", "http://x/b/box.json", ["http://y/box", "../b/box.json"]),
    ("http://x/b/c.json", "box.json", ["../b/box.json", "http://x/b/box.json"]),
    ("box", "urn:example:box", ["box", "urn:example:box"]),
    ("com.x.Box", "https://x/box#", ["com.x.Box", "https://x/box", "https://x/box#"]),
]
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
INTEGER = {"type": "integer"}
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


def errors_of(
    array: pa.StructArray,
    schema: Any,
    others: Mapping[str, Any] | None = None,
    *,
    writes_nulls: bool = False,
) -> EncodingErrors:
    errors = EncodingErrors(len(array))
    texts = ((name, json.dumps(other)) for name, other in (others or {}).items())
    check = compile_check(json.dumps(schema), array.type, JsonReferences.of_main(*texts))
    if check is not None:
        check = pickle.loads(pickle.dumps(check))  # as for a task
        check(Cells(array, errors).without_nulls(), writes_nulls)
    return errors


def invalid_rows(array: pa.StructArray, schema: Any, *, writes_nulls: bool) -> list[int]:
    """Return the rows whose JSON is invalid."""
    spec = EncoderSpec(format=Format.JSON, writes_nulls=writes_nulls)
    encoded = compile_encoder(spec, array.type).encode(array, EncodingErrors(len(array)))
    validator = jsonschema.Draft202012Validator(schema)
    return [
        number
        for number, text in enumerate(encoded.to_pylist())
        if text is not None and not validator.is_valid(json.loads(text))
    ]


def an_object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


BOX = an_object(["d"], d={"enum": ["R", "G"]})
REFERENCES: list[tuple[Any, str, dict[str, Any]]] = [
    (DRAFTS, "#/definitions/Box%3Cstring%3E", {"definitions": {"Box<string>": BOX}}),
    (DRAFTS, "#/definitions/a~1b~0c%25%22", {"definitions": {'a/b~c%"': BOX}}),
    (DRAFTS, "#/definitions/All/allOf/0", {"definitions": {"All": {"allOf": [BOX]}}}),
    (DRAFTS, "#/definitions/", {"definitions": {"": BOX}}),
    (OLD, "#Box", {"definitions": {"Box": {"$id": "#Box", **BOX}}}),
    (OLD + NEW, "b.json", {"$id": "http://x/a", "definitions": {"B": {"$id": "b.json", **BOX}}}),
    (
        [jsonschema.Draft4Validator],
        "http://x/b.json#",
        {"id": "http://x/a", "definitions": {"B": {"id": "b.json", **BOX}}},
    ),
    (
        OLD + NEW,
        "http://x/a#/definitions/Box",
        {"$id": "http://x/a", "definitions": {"Box": BOX}},
    ),
    (NEW, "#Box", {"$defs": {"Box": {"$anchor": "Box", **BOX}}}),
    (
        [jsonschema.Draft202012Validator],
        "#Box",
        {"$defs": {"Box": {"$dynamicAnchor": "Box", **BOX}}},
    ),
    (
        NEW,
        "b#/$defs/C",
        {"$id": "http://x/a", "$defs": {"B": {"$id": "b", "$defs": {"C": BOX}}}},
    ),
]
RECURSIVE = {**an_object(a=TEXT, c={"$ref": "#"}), "additionalProperties": True}
TREES = {
    "$ref": "#/$defs/L",
    "$defs": {
        "L": {**an_object(["v"], **TREE), "additionalProperties": False},
        "M": an_object(**{**TREE, "v": {"type": "number"}}),
    },
}


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


def test_faults_name_the_field() -> None:
    errors = errors_of(ARRAY, an_object(["a"]))
    assert [(error.row, error.path, error.problem) for error in errors] == [
        (1, "a", "is null, but must not be"),
    ]
    errors = errors_of(ARRAY, an_object(c=an_object(d={"enum": ["R"]})))
    assert [(error.row, error.path, error.problem) for error in errors] == [
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


@pytest.mark.parametrize("is_declared", [True, False])
@pytest.mark.parametrize(
    ("draft", "reference", "definitions"),
    [
        (draft, reference, definitions)
        for drafts, reference, definitions in REFERENCES
        for draft in drafts
    ],
)
def test_references_of_all_drafts(
    draft: Any, reference: str, definitions: dict[str, Any], *, is_declared: bool
) -> None:
    schema = {**an_object(c={"$ref": reference}), **definitions}
    if is_declared:
        schema["$schema"] = DRAFTS[draft]
    errors = errors_of(ARRAY, schema)
    valid = [draft(schema).is_valid({"c": {"d": value}}) for value in ("R", "B")]
    assert valid == [True, False]
    assert [(error.row, error.path) for error in errors] == [(1, "c.d"), (2, "c.d")]
    with pytest.raises(ColumnError, match=r"requires the field `c\.d`"):
        errors_of(pa.array([{"c": {"e": 1}}]), schema)


def of_draft(draft: Any, identifier: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a resource of a draft with references that only this draft knows."""
    id_ = "id" if draft is jsonschema.Draft4Validator else "$id"
    box = {"$anchor": "Box", **BOX} if draft in NEW else {id_: "#Box", **BOX}
    return {id_: identifier, "$schema": DRAFTS[draft], "definitions": {"Box": box}, **schema}


@pytest.mark.parametrize("is_other", [True, False])
@pytest.mark.parametrize("main", [None, *DRAFTS])
@pytest.mark.parametrize("part", DRAFTS)
def test_parts_and_references_of_another_draft(main: Any, part: Any, *, is_other: bool) -> None:
    inner = of_draft(part, "http://x/box.json", {"allOf": [{"$ref": "#Box"}]})
    schema = an_object(c={"$ref": "http://x/box.json"}, a={"$ref": "#/definitions/Text"})
    definitions = {"Text": TEXT} if is_other else {"Text": TEXT, "Box": inner}
    schema |= {"definitions": definitions, "$schema": DRAFTS.get(main, "http://x/unknown")}
    others = {"http://x/box.json": inner} if is_other else {}
    resources = [(name, Resource.from_contents(other)) for name, other in others.items()]
    validator = (main or jsonschema.Draft202012Validator)(
        schema, registry=Registry().with_resources(resources)
    )
    assert [validator.is_valid({"c": {"d": letter}}) for letter in ("R", "B")] == [True, False]
    assert errors_of(ARRAY, schema, others).rows.tolist() == [1, 2]


@pytest.mark.parametrize(
    "reference",
    ["box.json", "./box.json", "././box.json", "x/../box.json", "./x/y/../.././box.json"],
)
@pytest.mark.parametrize("name", ["box.json", "./box.json", "x/../box.json"])
def test_relative_names_with_dots(reference: str, name: str) -> None:
    schema = an_object(c={"$ref": reference})
    assert errors_of(ARRAY, schema, {name: BOX}).rows.tolist() == [1, 2]
    for folder in ("a", "..", "../.."):
        schema = an_object(c={"$ref": f"{folder}/{reference}"})
        assert errors_of(ARRAY, schema, {f"{folder}/{name}": BOX}).rows.tolist() == [1, 2]


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


@pytest.mark.parametrize(
    "part",
    [
        {"$dynamicRef": "#nope"},
        {"$dynamicRef": "x.json#nope"},
        {"$ref": "#nope"},
        {"if": {"$ref": "#nope"}},
        {"allOf": [{"if": {"$ref": "#/nope"}, "then": TEXT}]},
    ],
)
@pytest.mark.parametrize("keyword", ["properties", "prefixItems"])
def test_missing_references_do_not_select_another_draft(part: Any, keyword: str) -> None:
    """An older draft would ignore the keyword, and others with it."""
    checked = {"d": part} if keyword == "properties" else {"d": {"prefixItems": [part]}}
    schema = {**an_object(**checked), "$schema": DRAFTS[NEW[-1]]}
    column = ["x"] if keyword == "prefixItems" else "x"
    with pytest.raises(ConfigError, match=r"reference '[^']*nope'|has the reference"):
        errors_of(pa.array([{"d": column}]), schema)


@pytest.mark.parametrize("keyword", ["not", "if", "then", "else", "contains"])
@pytest.mark.parametrize("constant", [True, False])
def test_constants_of_keywords_that_are_not_checked(keyword: str, *, constant: bool) -> None:
    for draft in NEW:
        schema = {**an_object(d={**TEXT, keyword: constant}), "$schema": DRAFTS[draft]}
        draft.check_schema(schema)
        assert not errors_of(TEXTS, schema)


@pytest.mark.parametrize("name", [".", "..", "x"])
def test_dots_in_pointers_are_names(name: str) -> None:
    schema = {**an_object(c={"$ref": f"#/$defs/{name}/box"}), "$defs": {name: {"box": BOX}}}
    assert errors_of(ARRAY, schema).rows.tolist() == [1, 2]


@pytest.mark.parametrize("keyword", ["examples", "default", "const", "enum", "x-example"])
@pytest.mark.parametrize("draft", DRAFTS)
def test_data_with_a_draft_is_no_schema(draft: Any, keyword: str) -> None:
    data = {"$schema": "http://x/orders.json", "type": "order", "required": True}
    value = [data] if keyword in {"examples", "enum"} else data
    schema = an_object(d=TEXT, unused={"properties": {"x": {keyword: value}}})
    draft.check_schema(schema)
    assert not errors_of(ARRAY, {**an_object(c=schema), "$schema": DRAFTS[draft]})


def test_parts_are_checked_in_their_own_draft() -> None:
    """In draft 4, `exclusiveMinimum` is a boolean; in 2020-12, it is a number."""
    new, old = (DRAFTS[draft] for draft in (NEW[-1], jsonschema.Draft4Validator))
    for part, is_valid in ((True, True), (5, False)):
        inner = {"$schema": old, "properties": {"e": {"minimum": 0, "exclusiveMinimum": part}}}
        for schema in (an_object(c=inner), {**an_object(c=inner), "$schema": new}):
            if is_valid:
                assert not errors_of(ARRAY, schema)
            else:
                with pytest.raises(ConfigError, match=r"invalid at \$\.properties\.e"):
                    errors_of(ARRAY, schema)


def test_parts_of_draft_3_are_rejected() -> None:
    old = {"$schema": "http://json-schema.org/draft-03/schema#", "properties": {"d": TEXT}}
    for schema in (old, an_object(c=old), an_object(c={"anyOf": [old, {"type": "null"}]})):
        with pytest.raises(ConfigError, match="draft 3"):
            errors_of(ARRAY, schema)
    with pytest.raises(ConfigError, match="draft 3"):
        errors_of(ARRAY, an_object(c={"$ref": "old"}), {"old": old})


@pytest.mark.parametrize("fragment", ["", "#", "#/definitions/Box", "#Box"])
@pytest.mark.parametrize("main", ["http://x/a/main", None])
@pytest.mark.parametrize(
    ("name", "identifier", "reference"),
    [(name, id_, reference) for name, id_, all_ in NAMES_AND_IDS for reference in all_],
)
def test_references_by_name_and_by_id(
    name: str, identifier: str | None, reference: str, main: str | None, fragment: str
) -> None:
    inner: dict[str, Any] = {"allOf": [{"$ref": "#/definitions/Box"}]}
    inner["definitions"] = {"Box": {"$anchor": "Box", "properties": {"d": {"$ref": "letter"}}}}
    if identifier:
        inner["$id"] = identifier
    schema = an_object(c={"$ref": reference.rstrip("#") + fragment})
    if main:
        schema["$id"] = main
    elif reference.startswith((".", "/")) or (reference == "http://x/a/box.json"):
        return
    # The base of `letter` is the id, or else the name of the schema that contains the reference.
    base = urljoin(urljoin(main or "", name), identifier or "")
    letters = {"letter": {"enum": ["R", "G"]}, urljoin(base, "letter"): {"enum": ["R", "G"]}}
    for letter, values in letters.items():
        others = {name: inner, letter: values}
        assert errors_of(ARRAY, schema, others).rows.tolist() == [1]


def test_dynamic_reference_that_the_library_cannot_resolve() -> None:
    """The library does not look up the relative id of the main schema in the other document."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$dynamicAnchor": "node"}
    tree = dialect | {"properties": {"c": {"items": {"$dynamicRef": "#node"}}}}
    main = dialect | {"$id": "int.json", "$ref": "urn:tree"}
    column = pa.struct([("c", pa.list_(pa.struct([("c", pa.list_(pa.int64()))])))])
    with pytest.raises(ConfigError, match=r"has the reference 'int\.json', which is not in"):
        compile_check(
            json.dumps(main), column, JsonReferences.of_main(("urn:tree", json.dumps(tree)))
        )


def test_references_of_references_and_their_faults() -> None:
    schema = an_object(c={"$ref": "a.json"})
    middle = {"$id": "http://x/y/a.json", "properties": {"d": {"$ref": "z/b.json#/$defs/B"}}}
    last = {"$defs": {"B": {"enum": ["B"]}}}
    for name in ("z/b.json", "http://x/y/z/b.json"):
        assert errors_of(ARRAY, schema, {"a.json": middle, name: last}).rows.tolist() == [0]
    with pytest.raises(ConfigError, match=r"reference 'z/b.json#/\$defs/B'"):
        errors_of(ARRAY, schema, {"a.json": middle})
    with pytest.raises(ConfigError, match=r"invalid at \$.type"):
        errors_of(ARRAY, schema, {"a.json": {"type": "text"}})


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (
            {"items": [{"required": True, "type": "number"}]},
            r"items\[0\]\.required: .True is not of",
        ),
        (
            {"items": {"items": {"type": ["x"] * 50}}},
            r"items\.items\.type\[0\]: .'x' is not one of",
        ),
        ({"properties": {"x": {"required": {"y": "z"}}}}, r"properties\.x\.required: "),
    ],
)
def test_reason_why_a_schema_is_invalid(part: dict[str, Any], reason: str) -> None:
    draft = {"$schema": "http://json-schema.org/draft-04/schema#"}
    invalid = {**draft, **an_object(c=part)}
    with pytest.raises(
        ConfigError, match=rf"^the JSON Schema is invalid at \$\.properties\.c\.{reason}"
    ):
        errors_of(ARRAY, invalid)
    schema = {**draft, **an_object(c={"$ref": "part.json"})}
    with pytest.raises(
        ConfigError, match=rf"of the reference .part.json. is invalid at \$\.{reason}"
    ):
        errors_of(ARRAY, schema, {"part.json": {**draft, **part}})


@pytest.mark.parametrize(
    "part",
    [
        {"properties": {"a": True, "c": {"$ref": "y.json"}}},
        {"allOf": [{"$ref": "y.json"}], "properties": {"a": True, "c": True}},
        {"properties": {"a": {"$id": []}, "c": {"$ref": "y.json"}}},
        {"properties": {"c": {"$ref": "y.json"}}, "$defs": {"a": 1}},
    ],
)
@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07", "draft/2020-12"])
def test_missing_reference_beside_other_parts(draft: str, part: dict[str, Any]) -> None:
    schema = {"$schema": f"http://json-schema.org/{draft}/schema#", **part}
    if "2020" in draft:
        schema["$schema"] = f"https://json-schema.org/{draft}/schema"
    with pytest.raises(ConfigError, match=r"reference 'y.json'|is invalid at"):
        errors_of(ARRAY, schema)


@pytest.mark.parametrize("is_other", [False, True])
@pytest.mark.parametrize(
    "part",
    [
        {"required": True},
        {"properties": {"b": "integer"}},
        {"properties": {"b": {"items": "string"}}},
        {"properties": [TEXT]},
        {"patternProperties": [TEXT]},
        {"type": [{"type": "string"}]},
        {"anyOf": ["string"]},
        {"allOf": {}},
        {"additionalProperties": "no"},
    ],
)
@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07", None])
def test_invalid_parts_that_only_a_reference_leads_to(
    draft: str | None, part: dict[str, Any], is_other: bool
) -> None:
    """The schema of a draft does not describe what is below an unknown keyword."""
    declared = {"$schema": f"http://json-schema.org/{draft}/schema#"} if draft else {}
    unknown = {**declared, "components": {"schemas": {"W": {"type": "object", **part}}}}
    reference = {"$ref": f"{'api.json' if is_other else ''}#/components/schemas/W"}
    schema = {**declared, **an_object(c=reference), **({} if is_other else unknown)}
    with pytest.raises(ConfigError, match=r"components/schemas/W.* is invalid at"):
        errors_of(ARRAY, schema, {"api.json": unknown} if is_other else {})


@pytest.mark.parametrize(
    ("draft", "name"),
    [
        ("http://json-schema.org/draft-04/schema#", "id"),
        ("http://json-schema.org/draft-06/schema#", "$id"),
        ("http://json-schema.org/draft-07/schema#", "$id"),
        ("https://json-schema.org/draft/2019-09/schema", "$id"),
        ("https://json-schema.org/draft/2020-12/schema", "$id"),
    ],
)
@pytest.mark.parametrize("container", ["items", "dependencies"])
@pytest.mark.parametrize("is_other", [False, True])
def test_reference_beside_a_property_named_id(
    draft: str, name: str, container: str, is_other: bool
) -> None:
    item = {"type": "object", "properties": {name: TEXT, "n": INTEGER}}
    parts = {
        "items": ({"type": "array", "items": item}, "items/properties/n"),
        "dependencies": ({"dependencies": {name: ["x"], "y": item}}, "dependencies/y/properties/n"),
    }
    inner, path = parts[container]
    reference = {"$ref": f"{'other.json' if is_other else ''}#/definitions/C/{path}"}
    schema = {"$schema": draft, **an_object(a=reference, b=reference)}
    other = {"$schema": draft, "definitions": {"C": inner}}
    others = {"other.json": other} if is_other else {}
    whole = schema if is_other else {**schema, "definitions": {"C": inner}}
    rows: Any = pa.array([{"a": 1, "b": 2}])
    assert errors_of(rows, whole, others).rows.tolist() == []
    with pytest.raises(ColumnError, match=r"`b` .*integer"):
        errors_of(pa.array([{"a": 1, "b": "x"}]), whole, others)


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
    ("type_", "keys"),
    [
        (pa.int32(), [1, -12]),
        (pa.bool_(), [True, False]),
        (pa.float64(), [1.5, math.nan]),
        (pa.decimal128(5, 2), [Decimal("1.50"), Decimal("-0.01")]),
        (pa.date32(), [date(2024, 2, 29), date(1900, 1, 1)]),
        (pa.time64("ns"), [time(1, 2, 3), time(0)]),
        (pa.duration("us"), [timedelta(1), timedelta(0)]),
        (pa.binary(), [b"ab", b""]),
        (pa.string(), ['a"b', ""]),
    ],
)
def test_names_of_map_entries(type_: pa.DataType, keys: list[Any]) -> None:
    first, second = keys
    maps = [[(first, 5)], [(second, 5)], [(second, 6), (first, 6)], []]
    array: Any = pa.array(
        [{"m": entries} for entries in maps],
        pa.struct([pa.field("m", pa.map_(type_, pa.int64()), nullable=False)]),
    )
    encoded = compile_encoder(EncoderSpec(format=Format.JSON), array.type).encode(
        array, EncodingErrors(4)
    )
    (name,) = json.loads(encoded[0].as_py())["m"]
    for schema in (
        {"required": [name]},
        {"properties": {name: {"const": 5}}},
        {"properties": {name: {}}, "additionalProperties": False},
        {"patternProperties": {f"^{re.escape(name)}$": TEXT}},
    ):
        bad_rows = errors_of(array, an_object(m=schema)).rows.tolist()
        assert bad_rows == invalid_rows(array, an_object(m=schema), writes_nulls=False)
        assert 0 < len(bad_rows) < len(maps)


def records(values: list[Any], type_: pa.DataType) -> pa.StructArray:
    fields = pa.struct([pa.field("v", type_, nullable=False)])
    return cast("pa.StructArray", pa.array([{"v": value} for value in values], fields))


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


@pytest.mark.parametrize(
    ("pattern", "names", "matches"),
    [
        ("^a$", ["a", "a\n", "\na"], [True, False, False]),
        (r"^\d+$", ["12", "\u0661"], [True, False]),
        (r"^\w$", ["w", "\u00e9"], [True, False]),
        (r"^[$a]\$$", ["$$", "a$", "a"], [True, True, False]),
        ("^[[]$", ["[", "a"], [True, False]),
        (r"^[a\[[&&b||~~-]+$", ["a[&|~-b", "]", "c"], [True, False, False]),
        ("^[+--]$", ["+", ",", "-", "."], [True, True, True, False]),
        (r"^[\]&&[]$", ["]", "&", "[", "x"], [True, True, True, False]),
        (r"^(\w+\s?)*$", ["a b", "a" * 60 + "!"], [True, False]),  # exponential in Python
        (r"^([a-z0-9]+(-[a-z0-9]+)*)+$", ["a-b", "a" * 60 + "!"], [True, False]),
        (r"^(?!x)\p{L}$", ["\u00e9"], [True]),  # unknown to both engines
        (r"^\p{L}+$", ["\u00e9", "1"], [True, False]),
        (r"^(?!x)[a-z]$", ["a", "x"], [True, False]),
        (r"^\u0061$", ["a", "b"], [True, False]),
        (r"^a{2,1100}$", ["aa", "a"], [True, False]),
        ("(?i)a", ["A"], [True]),  # no JavaScript, and not valid within a group of Python
    ],
)
@pytest.mark.filterwarnings("error")
def test_patterns_are_those_of_javascript(
    pattern: str, names: list[str], matches: list[bool]
) -> None:
    type_ = pa.map_(pa.string(), pa.int32())
    array = records([[(name, 1)] for name in names], type_)
    schema = {"patternProperties": {pattern: {}}, "additionalProperties": False}
    bad_rows = errors_of(array, an_object(v=schema)).rows.tolist()
    assert bad_rows == [row for row, is_match in enumerate(matches) if not is_match]


@pytest.mark.parametrize("format_", [Format.JSON, Format.AVRO, Format.PROTOBUF])
def test_too_many_levels(format_: Format) -> None:
    type_: Any = pa.struct([("v", pa.int64())])
    for _ in range(300):
        type_ = pa.struct([("a", type_)])
    with pytest.raises(ColumnError, match="column `a` has more than 100 levels"):
        derive_schema(format_, type_, "Value")


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


@given(rows(types(PLAIN_TYPES + OTHER_TYPES, (pa.string(), pa.large_string()))))
def test_derived_schema_matches_its_rows(generated: Generated) -> None:
    derived = derive_schema(Format.JSON, generated.type, "R", "")
    assert not errors_of(generated.array(), json.loads(derived.text))
