"""Features, oneofs and sources of Protobuf schemas, compared with protoc and Google's runtime."""

from __future__ import annotations

import base64
import subprocess
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.config.formats import Format, PartFormat
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.decoder import decode
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder
from spark_kafka_sink.formats.protobuf.protobuf_compiler import compile_descriptor_set
from spark_kafka_sink.formats.protobuf.protobuf_framing import message_indexes
from spark_kafka_sink.formats.protobuf.protobuf_schema import ProtoSchema
from spark_kafka_sink.formats.protobuf.protobuf_wire import number_field, sized_field
from spark_kafka_sink.formats.registry.configured_schemas import configured_schema
from tests.support.protoc import compile_files, message_class

if TYPE_CHECKING:
    from collections.abc import Mapping

E2023 = 'edition = "2023"; package p; '
DELIMITED = "option features.message_encoding = DELIMITED; "
CLOSED = "enum Color { option features.enum_type = CLOSED; RED = 0; } "
INNER = "message S { int32 x = 1; } "
PROTO2 = 'syntax = "proto2"; package p; '
TYPES_AND_NAMES = """syntax = "proto3"; package p; import "google/protobuf/struct.proto";
import "google/protobuf/type.proto"; import "google/protobuf/wrappers.proto";
message E {
  google.protobuf.Struct s = 1; google.protobuf.ListValue l = 2; google.protobuf.Value v = 3;
  google.protobuf.EnumValue e = 4; google.protobuf.StringValue w = 5;
  optional string DESCRIPTOR = 6; optional int32 HasField = 7; repeated E FromString = 8;
}"""
MAIN = """\ufeff// A comment; import "not/this.proto";
syntax = "proto3"; package shop.v1;
import 'shop/v1/item.proto';
import "google/type/money.proto";
import "confluent/type/decimal.proto";
import "google/api/field_behavior.proto";
message Order {
  string id = 1 [(google.api.field_behavior) = REQUIRED];
  repeated Item items = 2;
  google.type.Money price = 3;
  confluent.type.Decimal tax = 4;
}"""
ITEM = """syntax = "proto3"; package shop.v1; import public "shop/v1/sku.proto";
message Item { Sku sku = 1; }"""
SKU = 'syntax = "proto3"; package shop.v1; message Sku { string code = 1; }'
ORDER: dict[str, Any] = {
    "id": "a",
    "items": [{"sku": {"code": "x"}}],
    "price": {"currency_code": "EUR", "units": 3},
    "tax": {"value": b"\x01", "precision": 3, "scale": 2},
}
DAMAGED = E2023 + CLOSED + INNER + "message E { repeated S m = 1; map<string, Color> c = 2; }"


def set_in_base64(text: str, imports: Mapping[str, str] | None = None) -> str:
    files = compile_files({**(imports or {}), "m.proto": text}).values()
    return base64.b64encode(
        descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
    ).decode()


def encode(schema: str, array: pa.Array[Any], message: str = "p.E") -> tuple[list[Any], list[Any]]:
    errors = EncodingErrors(len(array))
    spec = EncoderSpec(format=Format.PROTOBUF, schema=schema, message=message)
    encoded = compile_encoder(spec, array.type).encode(array, errors)  # type: ignore[arg-type]
    return encoded.to_pylist(), list(errors)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (INNER + "message E { S m = 1 [features.message_encoding = DELIMITED]; }", {"m": {"x": 5}}),
        (DELIMITED + INNER + "message E { repeated S m = 1; }", {"m": [{"x": 5}, {"x": 6}]}),
        (DELIMITED + INNER + "message E { map<string, S> m = 1; }", {"m": [("k", {"x": 5})]}),
        (
            DELIMITED + "message E { message I { E e = 1; int32 n = 2; } I i = 1; }",
            {"i": {"e": {"i": {"n": 3}}, "n": 4}},
        ),
        (
            INNER + "message E { oneof o { S m = 1 [features.message_encoding = DELIMITED]; } }",
            {"m": {"x": 5}},
        ),
        ("message E { repeated int32 n = 1; }", {"n": [1, 300]}),
        (
            (
                "option features.repeated_field_encoding = EXPANDED; message E {"
                " repeated bool b = 2 [features.repeated_field_encoding = PACKED];"
                " repeated int32 n = 1; }"
            ),
            {"n": [1, 300], "b": [True, False]},
        ),
        ("message E { int32 n = 1 [features.field_presence = LEGACY_REQUIRED]; }", {"n": 0}),
        ("option features.field_presence = IMPLICIT; message E { int32 n = 1; }", {"n": 7}),
        ("message E { string s = 1 [features.utf8_validation = NONE]; }", {"s": "é"}),
        (
            (
                'import "google/protobuf/cpp_features.proto";'
                'import "google/protobuf/java_features.proto";'
                "option features.(pb.cpp).string_type = CORD;"
                "option features.(pb.java).utf8_validation = VERIFY;"
                "message E { string s = 1 [features.(pb.cpp).string_type = VIEW];"
                " repeated int32 n = 2 [features.repeated_field_encoding = EXPANDED]; }"
            ),
            {"s": "é", "n": [1, 2]},
        ),
        (
            (
                PROTO2 + 'import "google/protobuf/descriptor.proto";'
                "message Options { optional group Sub = 1 { optional int32 x = 1;"
                " optional group Inner = 2 { optional string y = 1; } } optional fixed64 f = 3; }"
                "extend google.protobuf.FieldOptions { optional group Rule = 50001 { optional"
                " Options o = 1; } optional Options options = 50002; }"
                "extend google.protobuf.FileOptions { optional Options file_options = 50001; }"
                "option (file_options).sub.inner.y = 'a';"
                "message E { optional int32 n = 1 [(rule).o.sub.x = 5, (options).f = 7]; }"
            ),
            {"n": 7},
        ),
        (PROTO2 + "message E { optional group G = 1 { required int32 x = 1; } }", {"g": {"x": 2}}),
        (
            PROTO2
            + "message E { repeated group G = 1 { optional E e = 1; } optional int32 n = 2; }",
            {"g": [{"e": {"n": 3}}, {"e": {"n": 4}}]},
        ),
    ],
)
def test_features_and_groups_are_encoded_like_google(text: str, row: dict[str, Any]) -> None:
    text = text if text.startswith("syntax") else E2023 + text
    schema = set_in_base64(text)
    cls = message_class(compile_files({"m.proto": text}).values(), "p.E")
    maps = {"m": pa.map_(pa.string(), pa.struct([("x", pa.int32())]))} if "map<" in text else {}
    columns = [pa.array([value], maps.get(name)) for name, value in row.items()]
    array: Any = pa.StructArray.from_arrays(columns, [*row])
    encoded, errors = encode(schema, array)
    assert not errors
    value = {key: dict(entry) if key in maps else entry for key, entry in row.items()}
    expected = json_format.ParseDict(value, cls())
    assert encoded == [expected.SerializeToString(deterministic=True)]
    assert cls.FromString(encoded[0]).IsInitialized()
    assert decode(Format.PROTOBUF, configured_schema(part(schema, "p.E")), encoded[0])


def part(schema: str | None, name: str | None = None, **more: Any) -> PartFormat:
    return PartFormat(part="value", format=Format.PROTOBUF, schema=schema, schema_name=name, **more)


def test_legacy_required_field() -> None:
    text = E2023 + "message E { string must = 1 [features.field_presence = LEGACY_REQUIRED]; "
    schema = set_in_base64(text + "string id = 2; }")
    with pytest.raises(ColumnError, match="required field `must`"):
        encode(schema, pa.array([{"id": "a"}]))
    _, errors = encode(schema, pa.array([{"must": "a"}, {"must": None}]))
    assert errors == [(1, "must", "is null, but must not be")]


@pytest.mark.parametrize(
    ("text", "is_closed"),
    [
        (E2023 + CLOSED + "message E { Color c = 1; }", True),
        (
            E2023 + "option features.enum_type = CLOSED; enum Color { RED = 0; }"
            " message E { Color c = 1; }",
            True,
        ),
        (E2023 + "enum Color { RED = 0; } message E { Color c = 1; }", False),
        (PROTO2 + "enum Color { RED = 0; } message E { optional Color c = 1; }", True),
    ],
)
def test_numbers_that_readers_of_a_closed_enum_drop(text: str, is_closed: bool) -> None:
    encoded, errors = encode(set_in_base64(text), pa.array([{"c": 0}, {"c": 7}, {"c": None}]))
    assert errors == ([(1, "c", "is not in the enum")] if is_closed else [])
    cls = message_class(compile_files({"m.proto": text}).values(), "p.E")
    assert cls.FromString(encoded[1]).HasField("c") is not is_closed


@pytest.mark.parametrize(
    ("edition", "features", "problem"),
    [
        ("99999_TEST_ONLY", {}, "unsupported edition 99999"),
        ("2023", {"field_presence": 0}, "feature field_presence to the unsupported value 0"),
    ],
)
def test_unknown_editions_and_features_are_rejected(
    edition: str, features: dict[str, Any], problem: str
) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="p", syntax="editions")
    file.edition = descriptor_pb2.Edition.Value(f"EDITION_{edition}")
    file.options.features.MergeFrom(descriptor_pb2.FeatureSet(**features))
    file.message_type.add(name="E")
    schema = base64.b64encode(file.SerializeToString()).decode()
    with pytest.raises(ConfigError, match=problem):
        encode(schema, pa.array([{}], pa.struct([])))


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
    assert decode(Format.PROTOBUF, source, encoded[0]) == row


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
    row = decode(Format.PROTOBUF, source, type(message).SerializeToString(message))

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


def test_indexes_do_not_count_messages_that_fields_declare() -> None:
    text = PROTO2 + "message E { map<string, int32> m = 1; optional group G = 2 {} message B {} }"
    assert message_indexes(set_in_base64(text), "p.E.B") == (0, 0)
    public = 'syntax = "proto3"; import public "base.proto";'
    base = 'syntax = "proto3"; package p; message A {} message B {}'
    assert message_indexes(compile_descriptor_set(public, {"base.proto": base}.get), "p.B") == (1,)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_proto_file_with_imports_in_folders_above(tmp_path: Path, scheme: str) -> None:
    folder = tmp_path / "schemas" / "shop" / "v1"
    folder.mkdir(parents=True)
    for name, text in (("order", MAIN), ("item", ITEM), ("sku", SKU)):
        (folder / f"{name}.proto").write_text(text)
    source = configured_schema(part(None, schema_file=f"{scheme}{folder}/order.proto"))
    assert source is not None
    assert source.name == "shop.v1.Order"
    encoded, errors = encode(source.text, pa.array([ORDER]), "shop.v1.Order")
    decoded = decode(Format.PROTOBUF, source, encoded[0])
    assert not errors
    assert decoded == {**ORDER, "price": {**ORDER["price"], "nanos": 0}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("message E { int32 x }", r"protoc rejects the Protobuf schema: schema\.proto:1:13: "),
        ('syntax = "proto3"; import "no.proto";', r"no\.proto: File not found"),
        ('syntax = "proto3"; import "../x.proto"; message E {}', r"\.\./x\.proto"),
    ],
)
def test_errors_of_the_compiler_are_quoted(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        configured_schema(part(text))
    assert "WARNING" not in str(caught.value)
    assert ".. " not in str(caught.value)


@pytest.mark.parametrize("as_descriptor", [False, True])
@pytest.mark.parametrize(
    "names",
    [
        ["schema.proto"],
        ["Schema.proto"],
        ["schema.proto/a.proto"],
        ["schema.proto", "_schema.proto"],
        ["a.proto", "schema.proto"],
    ],
)
def test_imports_with_the_name_of_the_main_file(names: list[str], as_descriptor: bool) -> None:
    texts = {
        name: f'syntax = "proto3"; import public "{imported}";'
        for name, imported in pairwise(names)
    }
    texts[names[-1]] = 'syntax = "proto3"; message D { int32 n = 1; }'
    text = f'syntax = "proto3"; import "{names[0]}"; message E {{ D d = 1; }}'
    source = set_in_base64(text, texts) if as_descriptor else text
    encoded, _ = encode(compile_descriptor_set(source, texts.get), pa.array([{"d": {"n": 5}}]), "E")
    assert encoded == [b"\x0a\x02\x08\x05"]


@pytest.mark.parametrize("name", ["é.proto", "a%20b", "a:b", "a(1)/b,c", "a$b#c~", "x y/~z"])
def test_imports_may_have_any_file_name(name: str) -> None:
    text = f'syntax = "proto3"; import "{name}"; message E {{ D d = 1; }}'
    files = {name: 'syntax = "proto3"; message D { int32 n = 1; }'}
    encoded, _ = encode(compile_descriptor_set(text, files.get), pa.array([{"d": {"n": 5}}]), "E")
    assert encoded == [b"\x0a\x02\x08\x05"]


@pytest.mark.parametrize("name", ["-a", "@a", "/a", "a/../../b", "n" * 300, "a\\\\b"])
def test_names_of_imports_that_cannot_be_files(name: str) -> None:
    text = f'syntax = "proto3"; import "{name}"; message E {{}}'
    with pytest.raises(ConfigError, match="protoc"):
        compile_descriptor_set(text, lambda _: 'syntax = "proto3"; message D {}')


def test_text_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "grpc_tools", None)
    with pytest.raises(ConfigError, match=r"Protobuf schema as text.*grpc_tools.*\[protobuf\]"):
        configured_schema(part('syntax = "proto3"; message Unseen {}'))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize(
    ("format_", "text"),
    [
        (Format.PROTOBUF, 'syntax = "proto3"; message E /* Ä */ {}'),
        (Format.AVRO, '{"type": "record", "name": "E", "doc": "Ä", "fields": []}'),
        (Format.JSON_CONFLUENT, '{"title": "E", "description": "Ä"}'),
    ],
)
def test_encodings_of_schema_files(
    format_: Format, text: str, encoding: str, tmp_path: Path
) -> None:
    path = tmp_path / "schema"
    bom = "\ufeff" if encoding == "utf-16-le" else ""
    path.write_text(bom + text, encoding=encoding)
    source = configured_schema(PartFormat(part="value", format=format_, schema_file=str(path)))
    assert source is not None
    assert source.name == "E"


def test_schema_file_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "schema"
    path.write_text('{"title": "Ä"}', encoding="latin-1")
    with pytest.raises(ConfigError, match="cannot read: it is not UTF-8"):
        configured_schema(PartFormat(part="value", format=Format.JSON, schema_file=str(path)))


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
    file = sized_field(1, b"m.proto") + number_field(field, 1 << 40)
    with pytest.raises(ConfigError, match="Protobuf"):
        configured_schema(part(base64.b64encode(sized_field(1, file)).decode()))


@pytest.mark.parametrize(
    "part",
    [
        '// import "old.proto";\n',
        '/* import "old.proto";\n */',
        '/** "quoted" import "old.proto" */ // \'import "old.proto"',
        'option java_package = "import \\"old.proto\\"";',
        "option java_package = 'import \"old.proto\"; //';",
        'message import { } message F { import i = 1; string import = 2 [json_name = "o.proto"]; }',
    ],
)
def test_text_that_looks_like_an_import(part: str) -> None:
    text = f'syntax = "proto3"; option go_package = "https://x";\nmessage E {{}} {part}\n'
    files = {"old.proto": "no schema"}
    assert ProtoSchema.parse(compile_descriptor_set(text, files.get)).message(None).name == "E"


@pytest.mark.parametrize(
    "statement",
    [
        'import"dep.proto";',
        "import'dep.proto' ;",
        'import /* why */ "dep.proto";',
        'import // why\n"dep.proto";',
        "import \"de\" 'p.proto';",
        'import public\n"dep.proto";',
        'import weak/**/"dep.proto";',
    ],
)
def test_spellings_of_an_import(statement: str) -> None:
    text = f'syntax = "proto3";{statement}message E {{ D d = 1; }}'
    files = {"dep.proto": 'syntax = "proto3"; message D { int32 n = 1; }'}
    encoded, _ = encode(compile_descriptor_set(text, files.get), pa.array([{"d": {"n": 5}}]), "E")
    assert encoded == [b"\x0a\x02\x08\x05"]


@pytest.mark.parametrize("failure", [OSError("no memory"), subprocess.TimeoutExpired("protoc", 1)])
def test_compiler_that_does_not_run(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ConfigError, match="protoc cannot be run"):
        configured_schema(part(f'syntax = "proto3"; message {type(failure).__name__} {{}}'))


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
