"""Decoded Protobuf messages compared with Google's runtime."""

from typing import Any

from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.decoder import decode_payload
from spark_kafka_sink.formats.registry.configured_schemas import configured_schema
from tests.support.protoc import compile_files, message_class
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
