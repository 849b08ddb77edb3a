"""References between the documents of a JSON Schema."""

import json
from typing import Any
from urllib.parse import urljoin

import jsonschema
import pyarrow as pa
import pytest
from referencing import Registry, Resource

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.formats.json.json_check_compiler import compile_check
from spark_kafka_sink.formats.json.json_references import JsonReferences
from tests.unit.formats.json.checked_rows import (
    ARRAY,
    DRAFTS,
    INTEGER,
    NEW,
    OLD,
    TEXT,
    an_object,
    errors_of,
)

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
REFERENCED = [
    (main, name, identifier, reference)
    for main in ("http://x/a/main", None)
    for name, identifier, references in NAMES_AND_IDS
    for reference in references
    if main or not reference.startswith((".", "/", "http://x/a/"))
]
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


def test_names_with_fragments() -> None:
    """Apicurio's Maven plugin names a reference with the whole text of `$ref`."""
    document = {"$defs": {"R": {"enum": ["R"]}, "G": {"enum": ["G"]}}}
    parts = [f"other/box.json#/$defs/{letter}" for letter in "RG"]
    schema = an_object(c=an_object(d={"anyOf": [{"$ref": part} for part in parts]}))
    assert errors_of(ARRAY, schema, dict.fromkeys(parts, document)).rows.tolist() == [1]


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


@pytest.mark.parametrize("name", [".", "..", "x"])
def test_dots_in_pointers_are_names(name: str) -> None:
    schema = {**an_object(c={"$ref": f"#/$defs/{name}/box"}), "$defs": {name: {"box": BOX}}}
    assert errors_of(ARRAY, schema).rows.tolist() == [1, 2]


@pytest.mark.parametrize("fragment", ["", "#", "#/definitions/Box", "#Box"])
@pytest.mark.parametrize(("main", "name", "identifier", "reference"), REFERENCED)
def test_references_by_name_and_by_id(
    main: str | None, name: str, identifier: str | None, reference: str, fragment: str
) -> None:
    inner: dict[str, Any] = {"allOf": [{"$ref": "#/definitions/Box"}]}
    inner["definitions"] = {"Box": {"$anchor": "Box", "properties": {"d": {"$ref": "letter"}}}}
    if identifier:
        inner["$id"] = identifier
    schema = an_object(c={"$ref": reference.rstrip("#") + fragment})
    if main:
        schema["$id"] = main
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
