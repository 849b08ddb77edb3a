"""Decoded Protobuf messages compared with Google's runtime, and names of types in Avro."""

import json
from typing import Any

import pyarrow as pa

from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.decoder import decode_payload
from spark_kafka_sink.formats.encoder_spec import UnregisteredSchema
from spark_kafka_sink.formats.registry.configured_schemas import configured_schema
from tests.support.protoc import compile_files, message_class
from tests.unit.formats.avro.fastavro_rows import encode, record
from tests.unit.formats.protobuf.encoded_messages import part, set_in_base64

TYPES_AND_NAMES = """syntax = "proto3"; package p; import "google/protobuf/struct.proto";
import "google/protobuf/type.proto"; import "google/protobuf/wrappers.proto";
message E {
  google.protobuf.Struct s = 1; google.protobuf.ListValue l = 2; google.protobuf.Value v = 3;
  google.protobuf.EnumValue e = 4; google.protobuf.StringValue w = 5;
  optional string DESCRIPTOR = 6; optional int32 HasField = 7; repeated E FromString = 8;
}"""


def test_decode_well_known_types_and_unusual_names() -> None:
    file = compile_files({"m.proto": TYPES_AND_NAMES})
    message = message_class(file.values(), "p.E")()
    message.s.update({"a": 1.5, "b": [None, {"c": "x"}]})
    message.l.append(True)
    message.v.null_value = 0
    message.e.number = 3
    message.w.value = ""
    setattr(message, "HasField", 5)  # noqa: B010 - a method for type checkers
    source = configured_schema(part(set_in_base64(TYPES_AND_NAMES)))
    row = decode_payload(Format.PROTOBUF, source, type(message).SerializeToString(message))

    def value(**kind: Any) -> dict[str, Any]:
        kinds = ("null_value", "number_value", "string_value", "bool_value", "struct_value")
        return {**dict.fromkeys((*kinds, "list_value")), **kind}

    inner = value(struct_value={"fields": {"c": value(string_value="x")}})
    items = {"values": [value(null_value="NULL_VALUE"), inner]}
    assert row == {
        "s": {"fields": {"a": value(number_value=1.5), "b": value(list_value=items)}},
        "l": {"values": [value(bool_value=True)]},
        "v": value(null_value="NULL_VALUE"),
        "e": {"name": "", "number": 3, "options": []},
        "w": "",
        "DESCRIPTOR": None,
        "HasField": 5,
        "FromString": [],
    }


def test_decode_avro_with_names_of_types_in_objects() -> None:
    color = {"type": "enum", "name": "Color", "symbols": ["RED"]}
    reference = {"type": "n.Color", "doc": "see above"}
    schema = record(
        ("a", color),
        ("b", {"type": "Color"}),
        ("c", ["null", reference]),
        ("d", {"type": "array", "items": {"type": "map", "values": reference}}),
        {"name": "e", "type": reference, "default": "RED"},
    )
    row = {"a": "RED", "b": "RED", "c": "RED", "d": [{"k": "RED"}]}
    text, map_ = pa.string(), pa.map_(pa.string(), pa.string())
    type_ = pa.struct([("a", text), ("b", text), ("c", text), ("d", pa.list_(map_))])
    (data,) = encode(pa.array([{**row, "d": [[("k", "RED")]]}], type_), schema)
    source = UnregisteredSchema(json.dumps(schema), "n.R")
    assert decode_payload(Format.AVRO, source, data or b"") == {**row, "e": "RED"}
