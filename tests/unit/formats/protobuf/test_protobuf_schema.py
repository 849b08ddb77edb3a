"""Protobuf descriptors, their indexes, and damaged descriptors."""

import base64
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.decoder import decode_payload
from spark_kafka_sink.formats.protobuf.protobuf_compiler import compile_descriptor_set
from spark_kafka_sink.formats.protobuf.protobuf_indexes import message_indexes
from spark_kafka_sink.formats.protobuf.protobuf_schema import ProtoSchema
from spark_kafka_sink.formats.protobuf.protobuf_wire import sized_field, varint_field
from spark_kafka_sink.formats.registry.configured_schemas import configured_schema
from tests.support.protoc import compile_files
from tests.unit.formats.protobuf.encoded_messages import (
    CLOSED,
    E2023,
    INNER,
    PROTO2,
    SKU,
    encode,
    part,
    set_in_base64,
)

DAMAGED = E2023 + CLOSED + INNER + "message E { repeated S m = 1; map<string, Color> c = 2; }"


def test_several_members_of_a_oneof_are_a_fault() -> None:
    text = 'syntax = "proto3"; package p; message E { message I { oneof o { int32 a = 1;'
    text += " string b = 2; E e = 3; } oneof q { int32 c = 4; } } repeated I i = 1; oneof o {"
    text += " int32 n = 2; google.protobuf.Timestamp t = 3; } optional int32 z = 4; }"
    text = text.replace("package p;", 'package p; import "google/protobuf/timestamp.proto";')
    inner: list[dict[str, Any]] = [
        {"a": 1, "b": None, "c": 2},
        {"a": None, "b": "x", "c": 2},
        {"a": 0, "b": "", "c": None},
    ]
    rows = [
        {"i": [inner[0], inner[1]], "n": 1, "t": None, "z": 1},
        {"i": [inner[0], inner[2]], "n": None, "t": 5, "z": 1},
        {"i": None, "n": 0, "t": 0, "z": 1},
        {"i": [], "n": None, "t": None, "z": None},
    ]
    item = pa.struct([("b", pa.string()), ("a", pa.int32()), ("c", pa.int32())])
    type_ = pa.struct([("i", pa.list_(item)), ("t", pa.timestamp("us", "UTC")), ("n", pa.int32())])
    _, errors = encode(set_in_base64(text), pa.array(rows, type_))
    problem = "is set, but also another member of the oneof `o`"
    assert errors == [(1, "i[].a", problem), (2, "n", problem)]


def test_descriptors_of_a_registry_with_relative_names_and_without_kinds() -> None:
    """Confluent's registry returns such descriptors for `format=serialized`."""
    file = descriptor_pb2.FileDescriptorProto(name="default", package="a.b", syntax="proto3")
    message = file.message_type.add(name="E")
    message.nested_type.add(name="In").field.add(name="x", number=1, type=5, label=1)
    message.enum_type.add(name="Color").value.add(name="RED", number=0)
    for number, (name, type_name) in enumerate((("i", "In"), ("c", "Color"), ("o", "b.Out")), 1):
        message.field.add(name=name, number=number, label=1, type_name=type_name)
    file.message_type.add(name="Out").field.add(name="s", number=1, type=9, label=1)
    schema = base64.b64encode(file.SerializeToString()).decode()
    row = {"i": {"x": 4}, "c": "RED", "o": {"s": "y"}}
    encoded, _ = encode(schema, pa.array([row]), "a.b.E")
    source = configured_schema(part(schema))
    assert source is not None
    assert source.message == "a.b.E"
    assert decode_payload(Format.PROTOBUF, source, encoded[0]) == row


def test_indexes_do_not_count_messages_that_fields_declare() -> None:
    text = PROTO2 + "message E { map<string, int32> m = 1; optional group G = 2 {} message B {} }"
    assert message_indexes(set_in_base64(text), "p.E.B") == (0, 0)
    public = 'syntax = "proto3"; import public "base.proto";'
    base = 'syntax = "proto3"; package p; message A {} message B {}'
    assert message_indexes(compile_descriptor_set(public, {"base.proto": base}.get), "p.B") == (1,)


@pytest.mark.parametrize("text", ["", 'syntax = "proto3"; enum E { A = 0; }'])
def test_schema_without_a_message(text: str) -> None:
    with pytest.raises(ConfigError, match="the Protobuf schema has no message"):
        configured_schema(part(text))


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_damaged_descriptors_are_config_errors(data: st.DataObject) -> None:
    whole = bytearray(base64.b64decode(set_in_base64(DAMAGED)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    with suppress(ConfigError):
        schema = ProtoSchema.parse(base64.b64encode(whole).decode())
        schema.message(None)


@pytest.mark.parametrize("field", [1, 2, 3, 4, 5, 12])
def test_number_in_the_place_of_a_text_is_a_config_error(field: int) -> None:
    """It is also no length: 2^40 zeros would not fit into the memory."""
    file = sized_field(1, b"m.proto") + varint_field(field, 1 << 40)
    with pytest.raises(ConfigError, match="Protobuf"):
        configured_schema(part(base64.b64encode(sized_field(1, file)).decode()))


def test_missing_import_of_a_descriptor_is_named() -> None:
    files = compile_files(
        {
            "item.proto": SKU,
            "m.proto": PROTO2 + 'import "item.proto"; '
            "message E { optional shop.v1.Sku s = 1; optional int32 n = 2; }",
        }
    )
    schema = base64.b64encode(files["m.proto"].SerializeToString()).decode()
    assert encode(schema, pa.array([{"n": 1}]))[0] == [b"\x10\x01"]
    with pytest.raises(ConfigError, match=r"does not contain shop\.v1\.Sku.*--include_imports"):
        encode(schema, pa.array([{"s": {"code": "x"}}]))
