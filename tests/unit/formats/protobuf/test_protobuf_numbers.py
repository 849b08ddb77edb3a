"""Numbers of derived fields over several versions, read with Google's classes of each version."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder
from spark_kafka_sink.formats.protobuf.protobuf_derivation import derive
from spark_kafka_sink.formats.protobuf.protobuf_printer import print_files
from tests.support.protoc import compile_files, message_class

TEXT = pa.string()
SHAPES: dict[str, Any] = {
    "struct": lambda inner: inner,
    "structs": lambda inner: pa.list_(pa.field("element", inner, nullable=False)),
    "map": lambda inner: pa.map_(TEXT, inner),
    "texts": lambda _: pa.list_(pa.field("element", TEXT, nullable=False)),
    "bytes": lambda _: pa.binary(),
}
"""The type of a column by its name; others are strings."""
NAMES = (*SHAPES, "a", "b_c", "Dd")
MOMENT = pa.timestamp("us", "UTC")
SINGLE = [TEXT, pa.struct([("x", TEXT)]), MOMENT, pa.duration("us")]
MESSAGES = [
    *SINGLE[1:],
    *(pa.list_(pa.field("element", type_, nullable=False)) for type_ in SINGLE[1:]),
    *(pa.map_(key, type_) for key in (TEXT, pa.int32()) for type_ in SINGLE),
]
"""Types whose fields contain messages."""
HEAD = 'syntax = "proto2"; package p; '
GROUP = "optional group B = 3 { optional string q = 1; } extensions 10 to 20;"
FOREIGN = [
    ("optional int32 b = 7; oneof o { string a = 9; int64 x = 4; }", (9, 7, 10), "reserved 4;"),
    (GROUP, (21, 3, 22), "reserved 10 to 20;"),
    (
        "required E a = 2; enum E { X = 1; } reserved 5 to max; reserved 'c';",
        (2, 3, 4),
        "5 to max;",
    ),
    ("optional string b = 18999;", (20000, 18999, 20001), ""),
    ("} message Other { optional string a = 5;", (1, 2, 3), ""),
    ("optional Part a = 4; message Part { optional string a = 5; }", (4, 5, 6), ""),
]


def struct(*columns: str | pa.Field[Any]) -> pa.StructType:
    """Return nullable columns, by default strings."""
    fields = [pa.field(column, TEXT) if isinstance(column, str) else column for column in columns]
    return pa.struct(fields)


def derived(type_: pa.StructType, *versions: str) -> str:
    """Return the schema after versions, of which the last is the latest."""
    return derive(type_, "M", "p", reversed(versions)).text


def compiled(text: str) -> str:
    """Return the descriptor of a message M in package p, compiled by protoc."""
    (file,) = compile_files({"m.proto": text}).values()
    return base64.b64encode(file.SerializeToString()).decode()


def text_of(schema: str) -> str:
    """Return the text that is registered, which protoc must accept."""
    (text,) = print_files([base64.b64decode(schema)])
    compile_files({"m.proto": text})
    return text


def file_of(schema: str) -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema))


def message_of(schema: str) -> descriptor_pb2.DescriptorProto:
    return file_of(schema).message_type[0]


def encoded(schema: str, type_: pa.StructType, row: Any) -> Any:
    """Return a row as a message."""
    errors = EncodingErrors(1)
    spec = EncoderSpec(format=Format.PROTOBUF, schema=schema, message="p.M")
    array: Any = pa.array([row], type_)
    data = compile_encoder(spec, type_).encode(array, errors)
    assert not errors, list(errors)
    return data[0].as_py()


def numbers(schema: str) -> dict[str, int]:
    return {field.name: field.number for field in message_of(schema).field}


def columns_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return structs that have some of the names in any order."""
    columns = [
        st.builds(
            pa.field, st.just(name), inner.map(SHAPES.get(name, lambda _: TEXT)), st.booleans()
        )
        for name in NAMES
    ]
    chosen = st.lists(st.sampled_from(columns), min_size=1, max_size=5, unique=True)
    return chosen.flatmap(lambda fields: st.tuples(*fields)).map(pa.struct)


VERSIONS = st.lists(columns_of(columns_of(st.just(struct("x")))), min_size=2, max_size=4)


def row_of(type_: pa.DataType, path: str) -> Any:
    """Return a value of which each text is the path of its field."""
    if isinstance(type_, pa.StructType):
        return {field.name: row_of(field.type, f"{path}.{field.name}") for field in type_}
    if isinstance(type_, pa.MapType):
        return [("key", row_of(type_.item_type, path))]
    if isinstance(type_, pa.ListType):
        return [row_of(type_.value_type, path)]
    return path.encode() if type_ == pa.binary() else path


def check_paths(message: Any, path: str) -> None:
    """Check that each text that a reader found is the value of this field."""
    for field, value in message.ListFields():
        below = f"{path}.{field.name}"
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        items = value if field.is_repeated else [value]
        for item in value.values() if is_map else items:
            if hasattr(item, "ListFields"):
                check_paths(item, below)
            else:
                assert item in (below, below.encode())


@given(VERSIONS)
def test_readers_of_any_version_find_values_under_their_names(types: list[Any]) -> None:
    versions: list[str] = []
    for type_ in types:
        versions.append(derived(type_, *versions))
    readers = [message_class([file_of(version)], "p.M") for version in versions]
    for type_, version in zip(types, versions, strict=True):
        data = encoded(version, type_, row_of(type_, ""))
        for reader in readers:
            check_paths(reader.FromString(data), "")


@given(st.permutations(NAMES), st.permutations(NAMES))
def test_columns_in_another_order_have_the_same_schema(first: list[str], second: list[str]) -> None:
    inner = [pa.field(name, struct(*second)) for name in first]
    reordered = [pa.field(name, struct(*first)) for name in second]
    version = derived(pa.struct(inner))
    assert derived(pa.struct(reordered), version) == version


def test_dropped_added_and_returned_columns() -> None:
    first = derived(struct("a", "b", "c"))
    second = derived(struct("d", "c", "a"), first)
    assert numbers(second) == {"a": 1, "c": 3, "d": 4}
    assert 'reserved 2;\n  reserved "b";' in text_of(second)
    third = derived(struct("e"), first, second)
    assert numbers(third) == {"e": 5}
    assert 'reserved 1 to 4;\n  reserved "a", "b", "c", "d";' in text_of(third)
    assert derived(struct("e"), first, second, third) == third
    fourth = derived(struct("b", "e"), first, second, third)
    assert numbers(fourth) == {"b": 2, "e": 5}
    assert 'reserved 1, 3 to 4;\n  reserved "a", "c", "d";' in text_of(fourth)


def test_column_returns_with_another_type() -> None:
    first = derived(struct("a", "b"))
    second = derived(struct("a"), first)
    third = derived(struct("a", pa.field("b", pa.int64())), first, second)
    assert numbers(third) == {"a": 1, "b": 3}
    assert "reserved 2;" in text_of(third)
    assert '"b"' not in text_of(third)
    assert numbers(derived(struct("b", "a"), first, second)) == {"a": 1, "b": 2}
    assert numbers(derived(struct(pa.field("a", pa.int64())), first)) == {"a": 1}


@pytest.mark.parametrize("former", range(len(MESSAGES)))
def test_column_returns_with_another_message(former: int) -> None:
    first = derived(struct("a", pa.field("b", MESSAGES[former])))
    second = derived(struct("a"), first)
    for number, type_ in enumerate(MESSAGES):
        third = derived(struct("a", pa.field("b", type_)), first, second)
        assert numbers(third) == {"a": 1, "b": 2 if number == former else 3}


def test_alternating_columns_have_few_versions() -> None:
    kinds = [struct(*names.split()) for names in ("a b", "c a", "b c", "d b a", "c d")]
    versions: list[str] = []
    for type_ in kinds * 4:
        version = derived(type_, *versions)
        if version not in versions:  # A registry returns the id of an earlier version.
            versions.append(version)
    count = len(versions)
    for type_ in kinds * 4:
        assert derived(type_, *versions) in versions
    assert count <= 2 * len(kinds)
    pairs = {pair for version in versions for pair in numbers(version).items()}
    assert len(pairs) == len(dict(pairs))


@pytest.mark.parametrize("shape", ["struct", "structs", "map"])
def test_fields_of_nested_messages(shape: str) -> None:
    first = derived(struct("z", pa.field("n", SHAPES[shape](struct("a", "b")))))
    second = derived(struct(pa.field("n", SHAPES[shape](struct("b", "c")))), first)
    inner = next(m for m in message_of(second).nested_type if not m.options.map_entry)
    assert {field.name: field.number for field in inner.field} == {"b": 2, "c": 3}
    assert (inner.reserved_range[0].start, *inner.reserved_name) == (1, "a")
    third = derived(struct("z"), first, second)
    fourth = derived(struct(pa.field("n", SHAPES[shape](struct("c", "a")))), first, second, third)
    inner = next(m for m in message_of(fourth).nested_type if not m.options.map_entry)
    assert {field.name: field.number for field in inner.field} == {"a": 1, "c": 3}
    assert "reserved 1;" in text_of(fourth)


@pytest.mark.parametrize(("body", "expected", "reserved"), FOREIGN)
def test_version_of_another_author(body: str, expected: tuple[int, ...], reserved: str) -> None:
    schema = derived(struct("a", "b", "c"), compiled(f"{HEAD} message M {{ {body} }}"))
    assert numbers(schema) == dict(zip("abc", expected, strict=True))
    printed = text_of(schema)
    assert reserved in printed
    assert reserved or "reserved" not in printed


def test_newest_version_with_the_message_counts() -> None:
    own = derived(struct("b", "a"))
    other = compiled(HEAD + "message Other { optional string a = 1; }")
    assert derived(struct("a", "b"), own, other) == own


def test_message_without_a_free_number_is_rejected() -> None:
    full = compiled(HEAD + "message M { optional string a = 1; reserved 2 to max; }")
    assert numbers(derived(struct("a"), full)) == {"a": 1}
    with pytest.raises(ConfigError, match="leaves no number"):
        derived(struct("a", "b"), full)


def test_versions_are_read_only_when_needed() -> None:
    first = derived(struct("a", "b"))
    second = derived(struct("a"), first)

    def unreadable() -> Any:
        yield second
        raise AssertionError

    assert derive(struct("a"), "M", "p", unreadable()).text == second
    new = struct("a", pa.field("n", struct("x")))
    assert numbers(derive(new, "M", "p", unreadable()).text) == {"a": 1, "n": 3}
    with pytest.raises((AssertionError, RuntimeError)):
        derive(struct("b"), "M", "p", unreadable())
