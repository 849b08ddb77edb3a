"""Protobuf schemas as text: protoc compiles the text to the descriptor that was printed."""

import base64
import re
from collections.abc import Iterable, Mapping

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.decoder import decode_payload
from spark_kafka_sink.formats.encoder_spec import UnregisteredSchema
from spark_kafka_sink.formats.protobuf.protobuf_printer import print_files
from spark_kafka_sink.formats.protobuf.protobuf_wire import sized_field
from tests.support.protoc import PACKAGES, compile_files

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
SYNTAXES = {
    'syntax = "proto2"': "optional ",
    'syntax = "proto3"': "",
    'edition = "2023"': "",
    'edition = "2024"; option features.enforce_naming_style = STYLE_LEGACY': "",
}
WORDS = (
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string"),
    *("bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64", "edition", "enum", "export"),
    *("extend", "extensions", "group", "import", "local", "map", "max", "message", "oneof"),
    *("option", "optional", "package", "public", "repeated", "required", "reserved", "returns"),
    *("rpc", "service", "stream", "syntax", "to", "weak"),
)
DECLARATIONS = {
    "message": "message WORD { extensions 100 to max; }",
    "enum": "enum WORD { ZERO_WORD = 0; }",
    "package": "package WORD.v1; message B { extensions 100 to max; }",
}
USES_OF_NAME = """
message Uses_WORD {
  LABEL .NAME single = 1; repeated .NAME many = 2; map<string, .NAME> by_key = 3;
  oneof choice { .NAME chosen = 4; }
}
"""
USES_OF_MESSAGE = """
service Calls_WORD {
  rpc Get(.NAME) returns (.NAME); rpc Put(stream .NAME) returns (stream .NAME);
}
"""
EXTENSION = "extend .NAME { LABEL .NAME more_WORD = 100; }"
LIBRARY = """syntax = "proto2"; package lib.v1; import "google/protobuf/descriptor.proto";
message B { extensions 100 to max; }
extend .google.protobuf.MessageOptions { optional string tag = 50001; }
extend .google.protobuf.MethodOptions { optional string call = 50001; }
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


def assert_text_is_same(texts: Mapping[str, str], names: Iterable[str] = ()) -> int:
    """Compare files with their printed text, and return their number."""
    compiled = compile_files(texts, names)
    printed_texts = print_files([file.SerializeToString() for file in compiled.values()])
    printed = compile_files(dict(zip(compiled, printed_texts, strict=True)))
    for name, file in compiled.items():
        assert_same(file, printed[name])
    again = print_files([file.SerializeToString() for file in printed.values()])
    assert sorted(again) == sorted(printed_texts)
    return len(compiled)


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
    count = assert_text_is_same(written(syntax, extra) if syntax else {}, () if syntax else PUBLIC)
    assert count > (3 if syntax else 60)


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("declared", DECLARATIONS)
def test_keywords_as_names_of_types_and_packages(declared: str, syntax: str) -> None:
    name = "WORD.v1.B" if declared == "package" else "WORD"
    uses = USES_OF_NAME + ("" if declared == "enum" else USES_OF_MESSAGE)
    uses += "" if declared == "enum" or "proto3" in syntax else EXTENSION
    uses = uses.replace("NAME", name).replace("LABEL ", SYNTAXES[syntax])
    files = {}
    for word in WORDS:
        start = f'{syntax}; import "{word}.proto"; package uses;'
        files[f"{word}.proto"] = f'edition = "2023"; {DECLARATIONS[declared]}'.replace("WORD", word)
        files[f"uses_{word}.proto"] = start + uses.replace("WORD", word)
    assert assert_text_is_same(files) == 2 * len(WORDS)


@pytest.mark.parametrize(
    "body",
    [
        """package q; service lib { rpc Get(.lib.v1.B) returns (.lib.v1.B); }
        message M { option (.lib.v1.tag) = "a"; optional .lib.v1.B b = 1; }
        extend .lib.v1.B { optional .lib.v1.B more = 100; }""",
        """package q; service S { rpc lib(.lib.v1.B) returns (.lib.v1.B)
        { option (.lib.v1.call) = "a"; } }""",
        "package q; message M { message lib {} optional .lib.v1.B b = 1; }",
        "package q; message M { enum lib { ZERO = 0; } optional .lib.v1.B b = 1; }",
        "package q.lib; message M { optional .lib.v1.B b = 1; }",
        "message A {} service S { rpc A(.A) returns (.A); }",
        """extend google.protobuf.MethodOptions { optional int32 A = 50002; }
        message B {} service S { rpc A(B) returns (B) { option (.A) = 1; } }""",
        """message A { extensions 100 to max; }
        message M { optional int32 A = 1; extend .A { optional .A more = 100; } }""",
        """message A { extensions 100 to max; }
        message M { oneof A { .A a = 1; } extend .A { optional .A more = 100; } }""",
        """message A { extensions 100 to max; }
        message M { enum E { A = 0; } extend .A { optional .A more = 100; } }""",
        """extend google.protobuf.FieldOptions { optional int32 A = 50002; }
        message M { optional int32 A = 1 [(.A) = 1]; }""",
    ],
)
def test_name_with_another_meaning_in_its_scope(body: str) -> None:
    imports = 'import "lib.proto"; import "google/protobuf/descriptor.proto";'
    text = f'syntax = "proto2"; {imports} {body}'
    assert assert_text_is_same({"lib.proto": LIBRARY, "uses.proto": text}) == 3


@pytest.mark.parametrize("package", ["", "package p; "])
@pytest.mark.parametrize(
    "body",
    [
        """message LabelEntry { optional string key = 1; optional int64 value = 2; }
        message M { map<string, int32> label = 1; repeated P.LabelEntry all = 2;
        optional P.LabelEntry one = 3; oneof o { P.LabelEntry o1 = 4; } }""",
        """enum LabelEntry { ZERO = 0; }
        message M { map<string, int32> label = 1; optional P.LabelEntry kind = 2; }""",
        """message N { map<string, int32> label = 1; message M {
        message LabelEntry {} optional LabelEntry a = 1; optional P.LabelEntry b = 2; } }
        message LabelEntry {}""",
        """message G { optional int32 a = 1; }
        message M { optional group G = 1 { optional string b = 1; } optional P.G g2 = 2; }""",
    ],
)
def test_types_with_the_names_of_map_entries_and_groups(body: str, package: str) -> None:
    name = ".p" if package else ""
    text = f'syntax = "proto2"; {package}{body.replace("P.", name + ".")}'
    assert assert_text_is_same({"a.proto": text}) == 1


def test_custom_option_named_features() -> None:
    options = """syntax = "proto2"; package o; import "google/protobuf/descriptor.proto";
        message F { repeated F all = 1; map<string, string> m = 2; optional int32 n = 3; }
        extend google.protobuf.MessageOptions { optional F features = 50001; }"""
    text = """edition = "2023"; import "o.proto"; message M {
        option (o.features) = { m: [{ key: "k", value: "v" }] all: [{ n: 1 }, { n: 2 }] };
        int32 a = 1 [features.field_presence = IMPLICIT]; }"""
    assert assert_text_is_same({"o.proto": options, "m.proto": text}) == 3


def test_full_names_start_with_a_dot() -> None:
    """As in Java's `ProtobufSchema`: registries can take other spellings for other types."""
    text = """syntax = "proto2"; package orders.v1; import "google/protobuf/descriptor.proto";
        message Order {
            repeated Order parts = 1; map<string, Kind> kinds = 2; enum Kind { A = 0; }
        }
        extend google.protobuf.FieldOptions { optional int32 unit = 50000; }
        service Orders { rpc Get(Order) returns (stream Order); }"""
    files = compile_files({"orders.proto": text}).values()
    printed = print_files([file.SerializeToString() for file in files])[-1]
    for line in (
        "  repeated .orders.v1.Order parts = 1;",
        "  map<string, .orders.v1.Order.Kind> kinds = 2;",
        "extend .google.protobuf.FieldOptions {",
        "  rpc Get (.orders.v1.Order) returns (stream .orders.v1.Order);",
    ):
        assert f"\n{line}\n" in printed


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize(
    "names", [("b", "a"), ("fooBar", "fooBaz"), ("fooBaz", "fooBar"), ("c", "b")]
)
@pytest.mark.parametrize("kind", ["LABEL string", "repeated int32", "map<string, string>", "oneof"])
def test_json_names_that_are_names_of_other_fields(
    kind: str, names: tuple[str, str], syntax: str
) -> None:
    label = "" if kind == "oneof" else kind.replace("LABEL ", SYNTAXES[syntax])
    fields = "".join(
        f'{label or "string"} {field} = {number} [json_name = "{name}"];'
        for number, (field, name) in enumerate(zip(("a", "foo_bar"), names, strict=True), 1)
    )
    body = fields if label else f"oneof o {{ {fields} }}"
    other = f"{SYNTAXES[syntax]}string b = 3;" if "b" not in names else ""
    assert assert_text_is_same({"a.proto": f"{syntax}; message M {{ {body} {other} }}"}) == 1


@pytest.mark.parametrize("kind", ["float", "double"])
def test_defaults_of_the_whole_range(kind: str) -> None:
    numbers = ["1e-40", "1.4e-45", "5e-324", "1e-50", "-0.0", "inf", "-inf", "nan", "-1e-40"]
    numbers += ["3.4028235e38", "1e39", "1.7976931348623157e308", "0.1", "1e15", "123456789"]
    fields = "".join(
        f"optional {kind} f{number} = {number} [default = {text}];"
        for number, text in enumerate(numbers, 1)
    )
    text = f'syntax = "proto2"; message M {{ {fields} message N {{ {fields} }} }}'
    assert assert_text_is_same({"a.proto": text}) == 1
    file = compile_files({"a.proto": text})["a.proto"].SerializeToString()
    (printed,) = print_files([file])
    assert not re.search(r"\de\+", printed)  # Wire's parser in registries rejects it.
    data = base64.b64encode(sized_field(1, file)).decode()
    # A record without fields: both numbers are absent.
    assert (
        decode_payload(Format.PROTOBUF, UnregisteredSchema(data, "M.N", "M.N"), b"")["f1"] is None
    )


@pytest.mark.parametrize(
    "option",
    [
        "weight) = 1e30",
        "weight) = -1.7976931348623157e308",
        'rules) = { m { key: "e+1e+2" value: 1e20 } }',
        'rules) = { rule { rule { m { key: "\\"" value: -1e+99 } } } }',
        'rules) = { text: "a\\"1e+5" }',
        'raw) = "1e+5"',
    ],
)
def test_only_texts_contain_exponents_with_a_plus(option: str) -> None:
    """Wire's parser in registries rejects such a number."""
    text = f"""syntax = "proto3"; import "options.proto";
    message M {{ double a = 1 [(opt.google.{option}]; }}"""
    files = {"options.proto": OPTIONS, "a.proto": text}
    assert assert_text_is_same(files) > 2
    printed = print_files([file.SerializeToString() for file in compile_files(files).values()])[-1]
    assert not re.search(r"\de\+", re.sub(r'"(\\.|[^"\\])*"', "", printed))


def test_weak_import_is_printed_as_an_import() -> None:
    """Parsers in registries reject the word."""
    texts = {"p.proto": 'syntax = "proto2"; message P {}'}
    texts["m.proto"] = 'syntax = "proto2"; import weak "p.proto"; message M { optional P p = 1; }'
    printed = print_files([file.SerializeToString() for file in compile_files(texts).values()])
    assert 'import "p.proto";' in printed[1]


@pytest.mark.parametrize("count", [63, 64, 1000])
def test_required_fields(count: int) -> None:
    fields = "".join(f"required string f{number} = {number};" for number in range(1, count + 1))
    text = f'syntax = "proto2"; message M {{ {fields} message N {{ {fields} }} }}'
    assert assert_text_is_same({"a.proto": text}) == 1


def test_descriptor_proto_is_a_main_file() -> None:
    (file,) = compile_files({}, ["google/protobuf/descriptor.proto"]).values()
    file.name = "schema.proto"
    (printed,) = print_files([file.SerializeToString()])
    assert "message FileDescriptorSet {" in printed


@pytest.mark.parametrize("path", ["descriptor.proto", "vendor/google/protobuf/descriptor.proto"])
def test_descriptor_proto_is_imported_under_another_name(path: str) -> None:
    """Old files, such as gogo.proto, import a copy beside them."""
    (own,) = compile_files({}, [descriptor_pb2.DESCRIPTOR.name]).values()
    (copy,) = print_files([own.SerializeToString()])
    extension = "extend google.protobuf.FieldOptions { optional bool secret = 50001; }"
    texts = {path: copy, "o.proto": f'syntax = "proto2"; import "{path}"; {extension}'}
    texts["m.proto"] = """syntax = "proto3"; import "o.proto";
        message M { string id = 1 [(secret) = true]; }"""
    assert assert_text_is_same(texts) == 3


@pytest.mark.parametrize("names", [r'"a\n', r'"a\"b', r'"\\'])
def test_reserved_names_are_escaped(names: str) -> None:
    text = f'syntax = "proto2"; message M {{ reserved {names}"; }}'
    assert assert_text_is_same({"a.proto": text}) == 1


def test_missing_import() -> None:
    compiled = compile_files(written('syntax = "proto3"', ""))
    with pytest.raises(ConfigError, match=r"uses\.proto is invalid, or lacks an import: "):
        print_files([compiled["uses.proto"].SerializeToString()])
