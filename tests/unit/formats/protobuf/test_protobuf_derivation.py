"""Protobuf messages derived from columns."""

import base64

import pyarrow as pa
import pytest
from google.protobuf import timestamp_pb2

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.encoder_spec import derive_schema
from spark_kafka_sink.formats.protobuf.protobuf_printer import print_files
from tests.support.protoc import compile_files

TAGS = pa.map_(pa.string(), pa.string())
CITY = pa.struct([("City", pa.string())])


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (pa.list_(pa.list_(pa.int32())), r"`a\[\]` has type list"),
        (pa.map_(pa.string(), pa.list_(pa.int32())), "`a.value` has type list"),
        (pa.map_(pa.float64(), pa.int32()), "`a.key` has type double"),
        (pa.null(), "`a` has type null"),
    ],
)
def test_unsupported_types_are_rejected(type_: pa.DataType, message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        derive_schema(Format.PROTOBUF, pa.struct([("a", type_)]), "M")


@pytest.mark.parametrize("name", ["", "1", "_", "a b", "a.b", "é"])
def test_names_that_are_not_allowed(name: str) -> None:
    for type_ in (pa.int32(), TAGS, CITY):
        columns = pa.struct([(name, type_)])
        for nested in (columns, pa.struct([("s", columns)]), pa.struct([("l", pa.list_(columns))])):
            with pytest.raises(ColumnError, match=f"{name}` has a name that Protobuf does not"):
                derive_schema(Format.PROTOBUF, nested, "M")


@pytest.mark.parametrize(
    ("namespace", "name", "is_used"),
    [
        ("", "google", True),
        ("google", "protobuf", True),
        ("google.protobuf", "Timestamp", True),
        ("google.protobuf", "Duration", True),
        ("google", "x", False),
        ("x", "google", False),
    ],
)
def test_names_of_well_known_types(namespace: str, name: str, *, is_used: bool) -> None:
    type_ = pa.struct([("a", pa.timestamp("us", "UTC"))])
    if is_used:
        with pytest.raises(ConfigError, match=r"is also used by google/protobuf/timestamp\.proto"):
            derive_schema(Format.PROTOBUF, type_, name, namespace)
        return
    derived = derive_schema(Format.PROTOBUF, type_, name, namespace)
    known = timestamp_pb2.DESCRIPTOR.serialized_pb
    *_, text = print_files([known, base64.b64decode(derived.text)])
    compile_files({"x.proto": text})


@pytest.mark.parametrize(
    "names", [("a_b", "a__b"), ("aB", "a_b"), ("user_id", "userId"), ("_id", "Id")]
)
def test_columns_with_the_same_json_name_are_rejected(names: tuple[str, str]) -> None:
    type_ = pa.struct([(name, pa.string()) for name in names])
    for nested in (type_, pa.struct([("s", type_)]), pa.struct([("l", pa.list_(type_))])):
        with pytest.raises(ColumnError, match=f"{names[0]}` and `.*{names[1]}` have the same name"):
            derive_schema(Format.PROTOBUF, nested, "Value")


@pytest.mark.parametrize(
    "fields",
    [
        [("tags", TAGS), ("TagsEntry", pa.string())],
        [("TagsEntry", pa.struct([("x", pa.int32())])), ("tags", TAGS)],
        [("a_b", TAGS), ("AB", TAGS)],
    ],
)
def test_columns_with_the_name_of_map_entries_are_rejected(
    fields: list[tuple[str, pa.DataType]],
) -> None:
    with pytest.raises(ColumnError, match="have the same name in Protobuf"):
        derive_schema(Format.PROTOBUF, pa.struct(fields), "Value")


@pytest.mark.parametrize(
    "fields",
    [
        [("OrderId", pa.int64()), ("Address", CITY)],
        [("address", CITY), ("Address", pa.string())],
        [("Lines", pa.list_(CITY)), ("Lines2", CITY)],
        [("Prices", pa.map_(pa.string(), CITY))],
        [("x_entry", CITY), ("x", TAGS)],
        [("X", CITY), ("x", pa.map_(pa.string(), CITY))],
        [("a_b", pa.map_(pa.string(), CITY)), ("AB", CITY)],
        [("address", pa.map_(pa.string(), pa.struct([("Entry", TAGS)]))), ("Address", CITY)],
        [("Order", pa.struct([("Order", pa.struct([("Order", pa.int32())]))]))],
        [
            ("_id", pa.string()),
            ("id", pa.string()),
            ("__x_1", CITY),
            ("_tags", TAGS),
            ("_c0", CITY),
        ],
    ],
)
def test_derived_schemas_compile_if_columns_have_capitals_or_underscores(
    fields: list[tuple[str, pa.DataType]],
) -> None:
    derived = derive_schema(Format.PROTOBUF, pa.struct(fields), "Order", "com.example")
    (text,) = print_files([base64.b64decode(derived.text)])
    compiled = compile_files({"x.proto": text})["x.proto"]
    message = next(declared for declared in compiled.message_type if declared.name == "Order")
    assert [field.name for field in message.field] == [name for name, _ in fields]
