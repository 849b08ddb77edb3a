"""`.proto` text, its imports, and faults of the compiler."""

import base64
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.decoder import decode_payload
from spark_kafka_sink.formats.protobuf.protobuf_compiler import compile_descriptor_set
from spark_kafka_sink.formats.protobuf.protobuf_indexes import message_indexes
from spark_kafka_sink.formats.protobuf.protobuf_schema import ProtoSchema
from spark_kafka_sink.formats.registry.configured_schemas import configured_schema
from tests.support.protoc import compile_files
from tests.unit.formats.protobuf.encoded_messages import SKU, encode, part, set_in_base64

NAMES = ("é.proto", "a%20b", "a:b", "a(1)/b,c", "a$b#c~", "x y/~z")
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
ORDER: dict[str, Any] = {
    "id": "a",
    "items": [{"sku": {"code": "x"}}],
    "price": {"currency_code": "EUR", "units": 3},
    "tax": {"value": b"\x01", "precision": 3, "scale": 2},
}


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
    decoded = decode_payload(Format.PROTOBUF, source, encoded[0])
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


@pytest.mark.parametrize("name", ["-a", "@a", "/a", "a/../../b", "n" * 300, "a\\\\b"])
def test_names_of_imports_that_cannot_be_files(name: str) -> None:
    text = f'syntax = "proto3"; import "{name}"; message E {{}}'
    with pytest.raises(ConfigError, match="protoc"):
        compile_descriptor_set(text, lambda _: 'syntax = "proto3"; message D {}')


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize(
    ("message", "index", "row"),
    [
        ("a.A", (1,), {"n": 1}),
        ("a.A.In", (1, 0), {"n": 1}),
        ("b.B", (0,), {"a": {"n": 1}}),
        ("a.b.C", (0,), {"s": "x"}),
        ("D", (0,), {"s": "x"}),
        (None, (0,), {"s": "x"}),
    ],
)
def test_message_of_any_file_of_a_descriptor_set(
    message: str | None,
    index: tuple[int, ...],
    row: dict[str, Any],
    as_file: bool,
    is_reversed: bool,
    tmp_path: Path,
) -> None:
    """As in Spark's to_protobuf; for example, sbt creates one set of all files."""
    start = 'syntax = "proto3"; '
    texts = {
        "a.proto": f"{start}package a; message F {{}} message A {{ int32 n = 1; "
        "message In { int32 n = 1; } }",
        "b.proto": f'{start}package b; import "a.proto"; message B {{ a.A a = 1; }}',
        "c.proto": f"{start}package a.b; message C {{ string s = 1; }}",
        "d.proto": f'{start}import "b.proto"; message D {{ string s = 1; b.B b = 2; }}',
    }
    files = [*compile_files(texts).values()]
    if is_reversed and message is not None:
        files.reverse()
    data = descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
    (tmp_path / "set.desc").write_bytes(data)
    (tmp_path / "a.proto").write_text("not the file of the set")
    options = part(base64.b64encode(data).decode(), message)
    if as_file:
        options = part(None, message, schema_file=f"{tmp_path}/set.desc")
    source = configured_schema(options)
    assert source is not None
    assert source.name == message or message is None
    assert message_indexes(source.text, source.message) == index
    (encoded,), _ = encode(source.text, pa.array([row]), source.name)
    decoded = decode_payload(Format.PROTOBUF, source, encoded)
    assert {name: decoded[name] for name in row} == row


def test_text_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    with pytest.raises(ConfigError, match=r"Protobuf schema as text.*grpc_tools.*\[protobuf\]"):
        configured_schema(part('syntax = "proto3"; message Unseen {}'))


@pytest.mark.parametrize(
    "declaration",
    [
        '// import "old.proto";\n',
        '/* import "old.proto";\n */',
        '/** "quoted" import "old.proto" */ // \'import "old.proto"',
        'option java_package = "import \\"old.proto\\"";',
        "option java_package = 'import \"old.proto\"; //';",
        'message import { } message F { import i = 1; string import = 2 [json_name = "o.proto"]; }',
    ],
)
def test_text_that_looks_like_an_import(declaration: str) -> None:
    text = f'syntax = "proto3"; option go_package = "https://x";\nmessage E {{}} {declaration}\n'
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
        *(f'import "{name}";' for name in NAMES),
    ],
)
def test_spellings_and_names_of_an_import(statement: str) -> None:
    text = f'syntax = "proto3";{statement}message E {{ D d = 1; }}'
    files = dict.fromkeys(("dep.proto", *NAMES), 'syntax = "proto3"; message D { int32 n = 1; }')
    encoded, _ = encode(compile_descriptor_set(text, files.get), pa.array([{"d": {"n": 5}}]), "E")
    assert encoded == [b"\x0a\x02\x08\x05"]


@pytest.mark.parametrize("failure", [OSError("no memory"), subprocess.TimeoutExpired("protoc", 1)])
def test_compiler_that_does_not_run(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ConfigError, match="protoc cannot be run"):
        configured_schema(part(f'syntax = "proto3"; message {type(failure).__name__} {{}}'))
