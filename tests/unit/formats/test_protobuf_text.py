"""Protobuf schemas as text: protoc compiles the text to the descriptor that was printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from google.protobuf import descriptor_pb2

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.formats.protobuf_text import proto_texts
from tests.support.protoc import PACKAGES, compile_files

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

PUBLIC = [str(path.relative_to(PACKAGES)) for path in sorted(PACKAGES.glob("google/*/*.proto"))]
OPTIONS = r"""syntax = "proto2";
package opt.google;
import "google/protobuf/descriptor.proto";
message Rule {
  optional string text = 1; repeated int32 n = 2; optional Rule rule = 3;
  map<string, double> m = 4; extensions 100 to max;
}
extend Rule { optional bool strict = 100; }
enum Level { LOW = 0; HIGH = 1; }
extend .google.protobuf.FileOptions { optional Rule file_rule = 50001; }
extend .google.protobuf.MessageOptions { repeated string tags = 50001; }
extend .google.protobuf.FieldOptions { repeated Rule rules = 50001; optional Level level = 50002;
  optional double weight = 50003; optional bytes raw = 50004; }
extend .google.protobuf.EnumValueOptions { optional string label = 50001; }
extend .google.protobuf.OneofOptions { optional int64 first = 50001; }
extend .google.protobuf.MethodOptions { optional bool quiet = 50001; }
"""
USES = r"""
package opt;
import public "options.proto";
option java_package = "a.b"; option optimize_for = CODE_SIZE;
option (opt.google.file_rule) = { text: "a\"\\\n\x01é" n: [1, -2] rule { [opt.google.strict]: true }
  m { key: "k" value: inf } };
message Outer {
  option (opt.google.tags) = "a"; option (opt.google.tags) = "b"; option deprecated = true;
  reserved 4, 10 to 20, 1000 to max; reserved RESERVED;
  map<int32, Inner> by_id = 30 [deprecated = true];
  LABEL .google.protobuf.FieldMask mask = 31;
  message Inner { LABEL string s = 1 [json_name = "sS", (opt.google.level) = HIGH]; }
  oneof choice { option (opt.google.first) = -5; string a = 1; Inner b = 2; }
  LABEL double fraction = 3 [(opt.google.rules) = { n: 1 }, (opt.google.rules) = {},
    (opt.google.weight) = -1.5e-7, (opt.google.raw) = "\000\377\""];
  repeated sint64 _Odd_name = 5 [PACKED];
  enum Kind { option allow_alias = true; ZERO = 0; NIL = 0 [(opt.google.label) = "nil"];
    ONE = 1; reserved -5, 7 to 9, 100 to max; reserved "TWO_"; }
  LABEL Kind kind = 6;
}
service Calls {
  option deprecated = true;
  rpc Get (Outer) returns (stream Outer.Inner) { option (opt.google.quiet) = true; }
  rpc Put (stream Outer) returns (Outer);
}
"""
PROTO2_ONLY = r"""
message Old {
  required int32 must = 1 [default = -3]; optional string text = 2 [default = "a\"\n\\é\x7f"];
  optional bytes raw = 3 [default = "\000\"\\\377"]; optional double big = 4 [default = inf];
  optional float none = 5 [default = nan]; optional bool yes = 6 [default = true];
  optional Outer.Kind kind = 7 [default = ONE];
  repeated group Item = 8 [deprecated = true] { optional int32 n = 1; message Below {} }
  oneof o { group Choice = 9 { optional int32 n = 1; } }
  extensions 100 to 199 [verification = UNVERIFIED]; extensions 500, 501, 600 to max;
  extend Old { optional int32 more = 500; repeated group Extra = 501 { optional int32 x = 1; } }
}
message Set { option message_set_wire_format = true; extensions 4 to max; }
"""
PROTO3_ONLY = "message New { optional int32 o = 1; int32 plain = 2; optional Outer m = 3; }"
EDITION_ONLY = r"""
option features.field_presence = IMPLICIT;
message Featured {
  option features.json_format = LEGACY_BEST_EFFORT;
  string s = 1 [features.field_presence = EXPLICIT, default = "x"];
  Outer d = 2 [features.message_encoding = DELIMITED];
  int32 r = 3 [features.field_presence = LEGACY_REQUIRED];
  enum Closed { option features.enum_type = CLOSED; A = 1; }
}
"""


EDITION_2024_ONLY = """
option features.enforce_naming_style = STYLE_LEGACY;
local message L {} export enum X { X0 = 0; }
"""


def written(syntax: str, extra: str) -> dict[str, str]:
    """Return the files above in a syntax."""
    words = {"LABEL ": "optional " if syntax.endswith('2"') else "", "RESERVED": '"x", "y"'}
    words |= {"PACKED": "packed = false", '"TWO_"': '"TWO_"'}
    if syntax.startswith("edition"):
        words |= {"RESERVED": "x, y", '"TWO_"': "TWO_"}
        words["PACKED"] = "features.repeated_field_encoding = EXPANDED"
    text = USES.replace(
        "import public", 'import "google/protobuf/field_mask.proto";\nimport public'
    )
    for word, replacement in words.items():
        text = text.replace(word, replacement)
    return {"options.proto": OPTIONS, "uses.proto": f"{syntax};{text}{extra}"}


def declared_last(message: DescriptorProto) -> None:
    """Move the messages that fields declare behind the others, where the text declares them."""
    names = {
        field.type_name.rpartition(".")[2]
        for field in (*message.field, *message.extension)
        if field.type == descriptor_pb2.FieldDescriptorProto.TYPE_GROUP
    }
    message.nested_type.sort(
        key=lambda nested: nested.name if nested.options.map_entry or nested.name in names else ""
    )
    for nested in message.nested_type:
        declared_last(nested)


def assert_same(compiled: FileDescriptorProto, printed: FileDescriptorProto) -> None:
    for file in (compiled, printed):
        for message in file.message_type:
            declared_last(message)
        if not file.options.features.ListFields():
            file.options.ClearField("features")
    assert str(compiled) == str(printed)


@pytest.mark.parametrize(
    ("syntax", "extra"),
    [
        ('syntax = "proto2"', PROTO2_ONLY),
        ('syntax = "proto3"', PROTO3_ONLY),
        ('edition = "2023"', EDITION_ONLY),
        ('edition = "2024"', EDITION_ONLY + EDITION_2024_ONLY),
        ("", ""),
    ],
    ids=["proto2", "proto3", "2023", "2024", "public files"],
)
def test_text_is_compiled_to_the_same_descriptor(syntax: str, extra: str) -> None:
    compiled = compile_files(written(syntax, extra)) if syntax else compile_files({}, PUBLIC)
    texts = proto_texts([file.SerializeToString() for file in compiled.values()])
    printed = compile_files(dict(zip(compiled, texts, strict=True)))
    for name, file in compiled.items():
        assert_same(file, printed[name])
    again = proto_texts([file.SerializeToString() for file in printed.values()])
    assert sorted(again) == sorted(texts)
    assert len(compiled) > (3 if syntax else 60)


def test_missing_import() -> None:
    compiled = compile_files(written('syntax = "proto3"', ""))
    with pytest.raises(ConfigError, match=r"uses\.proto is invalid, or lacks an import: "):
        proto_texts([compiled["uses.proto"].SerializeToString()])
