"""References between JSON Schemas in folders, compared with `jsonschema` and absolute locations."""

import json
from itertools import product
from posixpath import dirname, relpath
from typing import Any
from urllib.parse import urljoin

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from referencing import Registry
from referencing.jsonschema import specification_with

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.formats.json.json_check_compiler import compile_check
from spark_kafka_sink.formats.json.json_references import MAIN, JsonReferences, Link

LEAVES = ["t.json", "u.json", "a/t.json", "a/u.json", "b/t.json", "a/b/t.json", "m/t.json"]
ITEMS = ["item.json", "a/item.json", "b/item.json", "a/b/item.json"]
BASE = "http://x.org/s/"
NAMES = ("types.json", "./types.json", f"{BASE}types.json")
DRAFTS: dict[str, type[Any]] = {
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "integer": (pa.int64(), 1),
    "string": (pa.string(), "x"),
}


@st.composite
def folders(draw: st.DrawFn) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Draw documents by path, the main one first, with the paths to which each one refers."""
    main = draw(st.sampled_from(["main.json", "m/main.json"]))
    kinds = draw(st.lists(st.sampled_from(list(TYPES)), min_size=len(LEAVES), max_size=len(LEAVES)))
    leaves = {path: leaf_of(kind) for path, kind in zip(LEAVES, kinds, strict=True)}
    items = {}
    for path in ITEMS:
        target = draw(st.sampled_from(LEAVES))
        items[path] = {"amount": f"{relative(path, target)}#/definitions/v"}, [target]
    targets = draw(
        st.lists(st.sampled_from([*LEAVES, *ITEMS]), min_size=1, max_size=5, unique=True)
    )
    fields = {}
    for number, target in enumerate(targets):
        pointer = "" if target in items else "#/definitions/v"
        fields[f"p{number}"] = relative(main, target) + pointer
    order = draw(st.permutations(targets))
    records = {path: (record_of(references), links) for path, (references, links) in items.items()}
    used = [target for path in targets if path in items for target in items[path][1]]
    parts = {**records, **leaves}
    return {main: (record_of(fields), order)} | {path: parts[path] for path in {*targets, *used}}


def leaf_of(kind: str) -> tuple[dict[str, Any], list[str]]:
    return {"definitions": {"v": {"type": kind}}}, []


def record_of(references: dict[str, str]) -> dict[str, Any]:
    properties = {name: {"$ref": reference} for name, reference in references.items()}
    return {"type": "object", "properties": properties}


def relative(source: str, target: str) -> str:
    return relpath(target, dirname(source) or ".")


def references_of(documents: dict[str, tuple[dict[str, Any], list[str]]]) -> JsonReferences:
    """Return the references as a registry has them: each document declares its own names."""
    numbers = {path: number for number, path in enumerate(documents)}
    links = [
        Link(numbers[path], relative(path, target), numbers[target])
        for path, (_, targets) in documents.items()
        for target in targets
    ]
    texts = [json.dumps(document) for document, _ in documents.values()]
    return JsonReferences(tuple(texts[1:]), tuple(links))


def column(target: str, kind: str) -> tuple[pa.DataType, Any]:
    type_, value = TYPES[kind]
    if target in ITEMS:
        return pa.struct([("amount", type_)]), {"amount": value}
    return type_, value


@pytest.mark.parametrize("draft", list(DRAFTS))
@given(data=st.data(), documents=folders(), has_ids=st.booleans())
def test_names_are_relative_to_the_document_that_declares_them(
    data: st.DataObject,
    documents: dict[str, tuple[dict[str, Any], list[str]]],
    has_ids: bool,
    draft: str,
) -> None:
    for path, (document, _) in documents.items():
        document["$schema"] = draft
        if has_ids:
            document["$id"] = urljoin(BASE, path)
    main, _ = next(iter(documents.values()))
    path = next(iter(documents))
    fields, record = [], {}
    for name, schema in main["properties"].items():
        target = urljoin(urljoin(BASE, path), schema["$ref"]).removeprefix(BASE).split("#")[0]
        type_, record[name] = column(target, data.draw(st.sampled_from(list(TYPES))))
        fields.append((name, type_))
    resources = [
        (urljoin(BASE, where), specification_with(draft).create_resource(document))
        for where, (document, _) in documents.items()
    ]
    located = {"$schema": draft, "$ref": urljoin(BASE, path)}
    registry: Any = Registry().with_resources(resources)
    is_valid = DRAFTS[draft](located, registry=registry).is_valid(record)
    try:
        compile_check(json.dumps(main), pa.struct(fields), references_of(documents))
        is_accepted = True
    except ColumnError:
        is_accepted = False
    assert is_accepted == is_valid


def test_documents_with_the_same_id_are_found_by_name() -> None:
    """The order in which the library reads the documents is random, so there are many."""
    ids = {"$schema": next(iter(DRAFTS)), "$id": f"{BASE}main.json"}
    kinds = {f"name{number}": list(TYPES)[number % 2] for number in range(20)}
    texts = [(name, json.dumps({**ids, "type": kind})) for name, kind in kinds.items()]
    references = JsonReferences.of_main(*texts)
    properties = {name: {"$ref": name} for name in kinds} | {"own": {"$ref": "#/definitions/own"}}
    main = json.dumps({**ids, "properties": properties, "definitions": {"own": {}}})
    types = [(name, TYPES[kind][0]) for name, kind in kinds.items()]
    compile_check(main, pa.struct([*types, ("own", pa.bool_())]), references)
    for name in kinds:
        with pytest.raises(ColumnError, match=f"`{name}` is written as JSON boolean"):
            compile_check(main, pa.struct([(name, pa.bool_())]), references)


@pytest.mark.parametrize("fragment", ["", "#/definitions/v"])
@pytest.mark.parametrize("id_", ["", "t.json", "Leaf", "./q.json", "../q.json", "/a/q.json", "x:q"])
@pytest.mark.parametrize(
    "name",
    [
        *("classpath:///t.json", "classpath:/a/t.json", "s3:///a/t.json", "t.json?", "x:t.json"),
        *("urn:com:t", "tag:t.org,2020:t", "kafka://h/t", "mailto:t@h"),
    ],
)
def test_documents_with_unusual_names(name: str, id_: str, fragment: str) -> None:
    draft = {"$schema": next(iter(DRAFTS))}
    main = json.dumps(draft | {"properties": {"v": {"$ref": f"{name}{fragment}"}}})
    leaf = {**draft, "type": "integer", "definitions": {"v": {"type": "integer"}}}
    text = json.dumps(leaf | ({"$id": id_} if id_ else {}))
    references = JsonReferences.of_main((name, text))
    compile_check(main, pa.struct([("v", pa.int64())]), references)
    with pytest.raises(ColumnError):
        compile_check(main, pa.struct([("v", pa.string())]), references)


def test_names_with_one_uri_are_found_by_their_text() -> None:
    """RFC 3986 drops the dots above the root, but the registry has two references."""
    names = dict(zip(("../common.json", "common.json"), TYPES, strict=True))
    main = {
        "$id": "http://x.org/main.json",
        "properties": {kind: {"$ref": name} for name, kind in names.items()},
    }
    texts = [(name, json.dumps({"type": kind})) for name, kind in names.items()]
    fitting = pa.struct([(name, type_) for name, (type_, _) in TYPES.items()])
    for order in (texts, texts[::-1]):
        compile_check(json.dumps(main), fitting, JsonReferences.of_main(*order))


@pytest.mark.parametrize(
    ("name", "reference", "has_ids"),
    [
        (name, reference, has_ids)
        for name, reference, has_ids in product(NAMES, NAMES, (False, True))
        if has_ids or name.startswith("http") == reference.startswith("http")
    ],
)
def test_each_document_has_its_own_version_of_a_reference(
    name: str, reference: str, has_ids: bool
) -> None:
    ids = [{"$id": BASE + path} if has_ids else {} for path in ("main.json", "item.json")]
    versions = [{"$id": f"{BASE}types.json"} if has_ids else {}] * 2
    main = {**ids[0], "properties": {"i": {"$ref": "item.json"}, "v": {"$ref": reference}}}
    item = {**ids[1], "properties": {"v": {"$ref": reference}}}
    kinds = zip(versions, TYPES, strict=True)
    texts = [json.dumps(item), *(json.dumps({**ids, "type": kind}) for ids, kind in kinds)]
    links = [Link(MAIN, "item.json", 1), Link(MAIN, name, 2), Link(1, name, 3)]
    integer, string = pa.int64(), pa.string()
    for order in (links, [links[1], links[0], links[2]]):
        references = JsonReferences(tuple(texts), tuple(order))
        fitting = pa.struct([("i", pa.struct([("v", string)])), ("v", integer)])
        compile_check(json.dumps(main), fitting, references)
        wrong = pa.struct([("i", pa.struct([("v", integer)]))])
        with pytest.raises(ColumnError):
            compile_check(json.dumps(main), wrong, references)


@pytest.mark.parametrize("id_", ["urn:example:main", "tag:x.org,2026:main", "main", "/s/main.json"])
def test_folders_below_any_id(id_: str) -> None:
    main = {"$id": id_, "properties": {"i": {"$ref": "a/item.json"}}}
    item = {"properties": {"v": {"$ref": "common.json#/definitions/v"}}}
    texts = json.dumps(item), json.dumps(leaf_of("integer")[0])
    links = Link(MAIN, "a/item.json", 1), Link(1, "common.json", 2)
    references = JsonReferences(texts, links)
    fitting, wrong = (
        pa.struct([("i", pa.struct([("v", type_)]))]) for type_ in (pa.int64(), pa.string())
    )
    compile_check(json.dumps(main), fitting, references)
    with pytest.raises(ColumnError):
        compile_check(json.dumps(main), wrong, references)


def test_many_paths_to_one_document_take_no_longer() -> None:
    """Without ids, each of the 2^40 paths through these folders leads to other URIs."""
    count = 40
    texts = ["{}"] * count
    links = [
        Link(number, f"folder{target}/x.json", target)
        for number in range(count)
        for target in (number + 1, number + 2)
        if target <= count
    ]
    compile_check("{}", pa.struct([]), JsonReferences(tuple(texts), tuple(links)))


def test_embedded_document_is_found_before_the_name_of_another_one() -> None:
    embedded = {"$id": "types.json", "type": "integer"}
    item = {
        "$id": f"{BASE}a/item.json",
        "$defs": {"t": embedded},
        "properties": {"v": {"$ref": "types.json"}},
    }
    texts = [json.dumps(item), json.dumps({"type": "string"})]
    main = {
        "$id": f"{BASE}main.json",
        "properties": {"i": {"$ref": "a/item.json"}, "s": {"$ref": "types.json"}},
    }
    links = Link(MAIN, "a/item.json", 1), Link(MAIN, "types.json", 2)
    for order in (links, links[::-1]):
        references = JsonReferences(tuple(texts), order)
        fitting = pa.struct([("i", pa.struct([("v", pa.int64())])), ("s", pa.string())])
        compile_check(json.dumps(main), fitting, references)
        wrong = pa.struct([("i", pa.struct([("v", pa.string())]))])
        with pytest.raises(ColumnError, match=r"`i\.v` is written as JSON string"):
            compile_check(json.dumps(main), wrong, references)
