"""Drafts, and invalid documents of a JSON Schema."""

from typing import Any

import jsonschema
import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ConfigError
from tests.unit.formats.json.checked_rows import ARRAY, DRAFTS, NEW, OLD, TEXT, an_object, errors_of


@pytest.mark.parametrize("keyword", ["examples", "default", "const", "enum", "x-example"])
@pytest.mark.parametrize("draft", DRAFTS)
def test_data_with_a_draft_is_no_schema(draft: Any, keyword: str) -> None:
    data = {"$schema": "http://x/orders.json", "type": "order", "required": True}
    value = [data] if keyword in {"examples", "enum"} else data
    schema = an_object(d=TEXT, unused={"properties": {"x": {keyword: value}}})
    draft.check_schema(schema)
    assert not errors_of(ARRAY, {**an_object(c=schema), "$schema": DRAFTS[draft]})


@pytest.mark.parametrize("place", ["inline", "definitions", "components", "document"])
@pytest.mark.parametrize(
    ("declared", "part"),
    [
        (DRAFTS[jsonschema.Draft4Validator], {"properties": {"d": {"enum": ["R", "G", "R"]}}}),
        (DRAFTS[jsonschema.Draft4Validator], {"properties": {"e": {"exclusiveMinimum": 0}}}),
        (DRAFTS[jsonschema.Draft4Validator], {"properties": {"x": True}, "required": []}),
        (DRAFTS[OLD[-1]], {"properties": {"e": {"minimum": 0, "exclusiveMinimum": True}}}),
        (DRAFTS[NEW[-1]], {"properties": {"l": {"items": [TEXT]}}}),
    ],
)
def test_parts_of_another_draft_than_the_declared_one(
    declared: str, part: dict[str, Any], place: str
) -> None:
    """Generators declare one draft and write another, as in Catena-X."""
    places: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
        "inline": (part, {}, {}),
        "definitions": ({"$ref": "#/definitions/P"}, {"definitions": {"P": part}}, {}),
        "components": ({"$ref": "#/components/P"}, {"components": {"P": part}}, {}),
        "document": ({"$ref": "p.json"}, {}, {"p.json": part}),
    }
    reference, more, others = places[place]
    schema = {"$schema": declared, **an_object(c=reference), **more}
    invalid = [1] if "enum" in str(part) else []
    assert errors_of(ARRAY, schema, others).rows.tolist() == invalid


@pytest.mark.parametrize("place", ["definitions", "components", "document"])
@pytest.mark.parametrize(
    ("declared", "part", "rows"),
    [
        (None, {"items": [TEXT], "additionalItems": False}, [{"v": ["a"]}, {"v": ["a", "b"]}]),
        (NEW[-1], {"items": [TEXT], "additionalItems": False}, [{"v": ["a"]}, {"v": ["a", "b"]}]),
        (
            jsonschema.Draft4Validator,
            {"required": [], "properties": {"k": {"const": "v"}}},
            [{"v": {"k": "v"}}, {"v": {"k": "z"}}],
        ),
    ],
)
def test_parts_are_read_in_a_draft_in_which_they_are_valid(
    declared: Any, part: dict[str, Any], rows: list[Any], place: str
) -> None:
    draft = {"$schema": DRAFTS[declared]} if declared else {}
    name = "p.json" if place == "document" else f"#/{place}/P"
    more = {} if place == "document" else {place: {"P": part}}
    others = {"p.json": part} if place == "document" else {}
    schema = {**draft, **an_object(v={"$ref": name}), **more}
    assert errors_of(pa.array(rows), schema, others).rows.tolist() == [1]


@pytest.mark.parametrize("draft", [None, *DRAFTS])
@pytest.mark.parametrize(
    ("declared", "part"),
    [
        (jsonschema.Draft4Validator, {"enum": ["R", "G", "R"]}),
        (jsonschema.Draft4Validator, {"const": "R", "required": []}),
        (OLD[-1], {"enum": ["R", "G"], "minimum": 0, "exclusiveMinimum": True}),
        (NEW[-1], {"enum": ["R", "G"], "items": [TEXT]}),
    ],
)
def test_referenced_document_that_is_invalid_in_its_draft(
    declared: Any, part: dict[str, Any], draft: Any
) -> None:
    """It is read in another draft, whatever the main schema's draft is."""
    schema = an_object(c=an_object(d={"$ref": "p.json"}))
    schema |= {"$schema": DRAFTS[draft]} if draft else {}
    other = {"$schema": DRAFTS[declared], **part}
    assert errors_of(ARRAY, schema, {"p.json": other}).rows.tolist() == [1]


def test_schema_that_is_invalid_in_its_draft_is_read_in_any_other() -> None:
    """The second part is not valid in the newest draft, which also lacks the first reference."""
    schema = {
        "$schema": DRAFTS[jsonschema.Draft7Validator],
        **an_object(a={"$ref": "b.json"}, c=an_object(e={"$ref": "#/definitions/E"})),
        "definitions": {
            "A": {"id": "b.json", "type": "string"},
            "E": {"type": ["integer", "null"], "minimum": 1, "exclusiveMinimum": True},
        },
    }
    assert not errors_of(ARRAY, schema)


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


@pytest.mark.parametrize("uri", ["http://[HOST]/a.json", "https://[your-domain]/a#", "http://[x"])
@pytest.mark.parametrize("draft", DRAFTS)
def test_ids_that_are_no_uris(draft: Any, uri: str) -> None:
    """Templates contain placeholders in square brackets."""
    name = "id" if draft is jsonschema.Draft4Validator else "$id"
    part = {name: uri, "enum": ["R", "G"]}
    schema = {"$schema": DRAFTS[draft], name: uri, **an_object(c=an_object(d=part))}
    assert errors_of(ARRAY, schema).rows.tolist() == [1]
    assert errors_of(ARRAY, {**schema, "$schema": uri}).rows.tolist() == [1]
    for others in ({}, {uri: TEXT}):
        with pytest.raises(ConfigError, match="which is not a valid URI"):
            errors_of(ARRAY, {**schema, **an_object(c=an_object(d={"$ref": uri}))}, others)


def test_parts_of_draft_3_are_rejected() -> None:
    old = {"$schema": "http://json-schema.org/draft-03/schema#", "properties": {"d": TEXT}}
    for schema in (old, an_object(c=old), an_object(c={"anyOf": [old, {"type": "null"}]})):
        with pytest.raises(ConfigError, match="draft 3"):
            errors_of(ARRAY, schema)
    with pytest.raises(ConfigError, match="draft 3"):
        errors_of(ARRAY, an_object(c={"$ref": "old"}), {"old": old})


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
