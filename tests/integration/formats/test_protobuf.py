"""Protobuf with a registry: protoc compiles the registered text, and Google reads the records."""

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from spark_kafka_sink import EmbeddedBroker, SchemaRegistryError
from spark_kafka_sink.common.optional_dependencies import EXTRAS
from spark_kafka_sink.formats.protobuf import protobuf_compiler
from spark_kafka_sink.spark.datasource import KafkaProdDataSource
from tests.integration.support.columnar import write_rows
from tests.support.protoc import compile_files, message_class
from tests.support.schema_registry import SmallRegistry

ORDER = StructType([StructField("id", StringType()), StructField("n", LongType())])
ROWS: list[dict[str, Any]] = [{"id": "a", "n": 7}, {"id": None, "n": None}]
PROTOBUF = {"value.format": "protobuf-confluent"}
BASE = 'syntax = "proto3"; package b; message Unused { int32 x = 1; }'
MAIN = """syntax = "proto3"; package m; import "base.proto"; import "google/type/date.proto";
message First { b.Unused of = 1; google.type.Date day = 2; }
message Order { int64 n = 4; string id = 2; }"""
OTHER_RELEASES = {
    "google/protobuf/timestamp.proto": "package google.protobuf; "
    "message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
    "google/api/field_behavior.proto": "package google.api; "
    'import "google/protobuf/descriptor.proto"; enum FieldBehavior { UNSPECIFIED = 0; } '
    "extend google.protobuf.FieldOptions { repeated FieldBehavior field_behavior = 1052; }",
}
LATEST = {"auto.register.schemas": "false", "use.latest.version": "true"}
PART = 'syntax = "proto3"; package q; message Part { string z = 1; }'
WHOLE = """syntax = "proto3"; package q; import "part.proto";
message First {} message Whole { optional string x = 1; map<string, Part> parts = 2; }"""
PARTS = MapType(StringType(), StructType([StructField("z", StringType())]))
WHOLES = StructType([StructField("x", StringType()), StructField("parts", PARTS)])


def payloads(broker: EmbeddedBroker) -> list[bytes]:
    return [record.value or b"" for record in broker.records("events")]


def test_derived_message_is_registered(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    write_rows(broker, ORDER, ROWS, **PROTOBUF, **{"schema.registry.url": registry.url})
    (schema,) = registry.schemas
    assert schema["schemaType"] == "PROTOBUF"
    kind = message_class(compile_files({"m.proto": schema["schema"]}).values(), "Value")
    values = payloads(broker)
    assert [value[:6] for value in values] == [b"\0\0\0\0\1\0"] * 2
    decoded = [kind.FromString(value[6:]) for value in values]
    assert [(order.id, order.n) for order in decoded] == [("a", 7), ("", 0)]


@pytest.mark.parametrize("form", ["text", "descriptor"])
def test_schema_is_registered_with_its_imports(
    broker: EmbeddedBroker, registry: SmallRegistry, tmp_path: Path, form: str
) -> None:
    path, files = tmp_path / "main.proto", {"base.proto": BASE, "main.proto": MAIN}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    if form == "descriptor":
        descriptors = [*compile_files(files).values()]
        path.write_bytes(FileDescriptorSet(file=descriptors).SerializeToString())
    options = {
        **PROTOBUF,
        "schema.registry.url": registry.url,
        "value.schema.file": str(path),
        "value.schema.name": "m.Order",
    }
    write_rows(broker, ORDER, ROWS, **options, dryRun="true")
    assert registry.subjects == {}
    write_rows(broker, ORDER, ROWS, **options)
    assert registry.subjects == {"base.proto": [1], "events-value": [2]}
    assert registry.schemas[1]["references"] == [
        {"name": "base.proto", "subject": "base.proto", "version": 1}
    ]
    texts = [schema["schema"] for schema in registry.schemas]
    compiled = compile_files(dict(zip(files, texts, strict=True)))
    kind = message_class(compiled.values(), "m.Order")
    values = payloads(broker)
    assert [value[:7] for value in values] == [b"\0\0\0\0\2\2\2"] * 2
    decoded = [kind.FromString(value[7:]) for value in values]
    assert [(order.id, order.n) for order in decoded] == [("a", 7), ("", 0)]


@pytest.mark.parametrize(
    ("imported", "references"),
    [
        ("google/type/money.proto", []),
        ("google/type/phone_number.proto", []),
        ("google/protobuf/struct.proto", []),
        ("confluent/type/decimal.proto", []),
        ("google/type/localized_text.proto", ["google/type/localized_text.proto"]),
        ("google/protobuf/compiler/plugin.proto", ["google/protobuf/compiler/plugin.proto"]),
        ("google/rpc/status.proto", ["google/rpc/status.proto"]),
    ],
)
def test_imports_that_registries_do_not_have_are_references(
    broker: EmbeddedBroker, registry: SmallRegistry, imported: str, references: list[str]
) -> None:
    """The files that Java's deserializer resolves without a reference."""
    options = {
        **PROTOBUF,
        "schema.registry.url": registry.url,
        "value.schema": f'syntax = "proto3"; import "{imported}"; message M {{ string id = 1; }}',
    }
    columns = StructType([StructField("id", StringType())])
    write_rows(broker, columns, [{"id": "a"}], **options)
    schema = registry.schemas[-1]
    assert [reference["name"] for reference in schema.get("references", ())] == references


@pytest.mark.parametrize("form", ["text", "descriptor"])
@pytest.mark.parametrize("message", ["m.First", "m.Order"])
def test_registered_schema_with_built_in_imports(
    broker: EmbeddedBroker, registry: SmallRegistry, form: str, message: str
) -> None:
    text, latest = MAIN.replace("base.proto", "other/base.proto"), dict(LATEST)
    contents = [BASE, text]
    if form == "descriptor":  # As Confluent's registry returns it, without imports.
        compiled = compile_files({"other/base.proto": BASE, "main.proto": text})
        contents = [
            base64.b64encode(compiled[name].SerializeToString()).decode()
            for name in ("other/base.proto", "main.proto")
        ]
    registry.put("base", contents[0], "PROTOBUF")
    reference = {"name": "other/base.proto", "subject": "base", "version": 1}
    registry.put("events-value", contents[1], "PROTOBUF", references=[reference])
    options = {**PROTOBUF, **latest, "schema.registry.url": registry.url}
    first = StructType([StructField("day", StructType([StructField("year", IntegerType())]))])
    rows: list[dict[str, Any]] = [{"day": {"year": 2020}}] if message == "m.First" else ROWS[:1]
    columns = first if message == "m.First" else ORDER
    write_rows(broker, columns, rows, **options, **{"value.schema.name": message})
    records = broker.records(
        "events", options={"kafka.bootstrap.servers": broker.bootstrap_servers, **options}
    )
    value = records[0].value
    assert value["id"] == "a" if message == "m.Order" else value["day"]["year"] == 2020


@pytest.mark.parametrize("is_registered", ["false", "true"])
@pytest.mark.parametrize("side", ["job", "registry"])
def test_registered_file_is_found_with_another_release_of_an_import(
    broker: EmbeddedBroker, registry: SmallRegistry, tmp_path: Path, side: str, is_registered: str
) -> None:
    """The job has a copy of a file that registries provide, or lacks a file that CI registered."""
    name = [*OTHER_RELEASES][side == "registry"]
    text = f'syntax = "proto3"; {OTHER_RELEASES[name]}'
    main = f'''syntax = "proto3"; import "own.proto"; import "{name}";
    message M {{ string id = 1; Own own = 2; }}'''
    own = 'syntax = "proto3"; message Own { string x = 1; }'
    files = {"own.proto": own, "main.proto": main} | ({name: text} if side == "job" else {})
    for file, content in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content)
    references = [{"name": "own.proto", "subject": "ci-own", "version": 1}]
    registry.put("ci-own", own, "PROTOBUF")
    if side == "registry":
        registry.put(name, text, "PROTOBUF")
        references.append({"name": name, "subject": name, "version": 1})
    expected = registry.put("events-value", main, "PROTOBUF", references=references)
    before = {subject: [*ids] for subject, ids in registry.subjects.items()}
    options = {
        **PROTOBUF,
        "schema.registry.url": registry.url,
        "auto.register.schemas": is_registered,
        "value.schema.file": str(tmp_path / "main.proto"),
    }
    write_rows(broker, columns("id"), [{"id": "a"}], **options)
    assert [value[:5] for value in payloads(broker)] == [b"\0" + expected.to_bytes(4)]
    assert registry.subjects == before
    (tmp_path / "own.proto").write_text(own.replace("string x", "string y"))
    options["auto.register.schemas"] = "false"
    with pytest.raises(SchemaRegistryError, match=r"cannot find the import own\.proto"):
        write_rows(broker, columns("id"), [{"id": "a"}], **options)


@pytest.mark.parametrize("is_registered", ["false", "true"])
@pytest.mark.parametrize(
    ("job_text", "stored"),
    [
        (
            "message M { oneof o { P p = 2; int32 n = 3; } string id = 1; }",
            "message M { string id = 1; oneof o { P p = 2; int32 n = 3; } }",
        ),
        (
            "message M { oneof o { int32 n = 3; P p = 2; } string id = 1; }",
            "message M { string id = 1; oneof o { int32 n = 3; P p = 2; } }",
        ),
        (
            "message M { message N { P p = 1; } map<string, P> m = 2; string id = 1; }",
            "message M { map<string, P> m = 2; string id = 1; message N { P p = 1; } }",
        ),
        (
            'import "google/protobuf/any.proto"; message M { string id = 1; P p = 2; }',
            "message M { string id = 1; P p = 2; }",
        ),
    ],
    ids=["oneof", "oneof by number", "nested message", "public import"],
)
def test_registered_file_is_found_with_another_order(
    broker: EmbeddedBroker,
    registry: SmallRegistry,
    tmp_path: Path,
    job_text: str,
    stored: str,
    is_registered: str,
) -> None:
    """The order in which Karapace stores the members of oneofs, messages and imports."""
    start, text = 'syntax = "proto3"; ', "message P { string x = 1; }"
    head = f'{start}import public "p.proto"; '
    (tmp_path / "p.proto").write_text(start + text)
    (tmp_path / "m.proto").write_text(head + job_text)
    registry.put("ci-p", start + text, "PROTOBUF")
    references = [{"name": "p.proto", "subject": "ci-p", "version": 1}]
    if "any.proto" in job_text:
        head = f'{start}import "google/protobuf/any.proto"; import public "p.proto"; '
    expected = registry.put("events-value", head + stored, "PROTOBUF", references=references)
    options = {
        **PROTOBUF,
        "schema.registry.url": registry.url,
        "auto.register.schemas": is_registered,
        "value.schema.file": str(tmp_path / "m.proto"),
    }
    write_rows(broker, columns("id"), [{"id": "a"}], **options)
    assert [value[:5] for value in payloads(broker)] == [b"\0" + expected.to_bytes(4)]
    assert registry.subjects == {"ci-p": [1], "events-value": [2]}


def test_unreadable_versions_prevent_a_second_version(
    broker: EmbeddedBroker, registry: SmallRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "base.proto").write_text(BASE)
    (tmp_path / "main.proto").write_text(MAIN)
    registry.put("base", BASE, "PROTOBUF")
    reference = {"name": "base.proto", "subject": "base", "version": 1}
    registry.put("events-value", MAIN, "PROTOBUF", references=[reference])
    options = {
        **PROTOBUF,
        "schema.registry.url": registry.url,
        "value.schema.file": str(tmp_path / "main.proto"),
        "value.schema.name": "m.Order",
    }
    respond = registry.respond

    def deny_versions(method: str, target: str, body: dict[str, Any]) -> tuple[int, Any]:
        if method == "GET" and "/versions/1" in target:
            return 403, {"error_code": 40301, "message": "denied"}
        return respond(method, target, body)

    monkeypatch.setattr(registry, "respond", deny_versions)
    with pytest.raises(SchemaRegistryError, match=r"read version 1 .* status 403"):
        write_rows(broker, ORDER, ROWS, **options)
    monkeypatch.setattr(registry, "respond", respond)
    write_rows(broker, ORDER, ROWS, **options)
    assert registry.subjects == {"base": [1], "events-value": [2]}


@pytest.mark.parametrize(("second", "reason"), [(409, "first"), (422, "first"), (401, "second")])
def test_reason_of_a_rejected_file(
    broker: EmbeddedBroker,
    registry: SmallRegistry,
    monkeypatch: pytest.MonkeyPatch,
    second: int,
    reason: str,
) -> None:
    rejections = iter([(409, "first"), (second, "second")])
    respond = registry.respond

    def reject(method: str, target: str, body: dict[str, Any]) -> tuple[int, Any]:
        if method == "POST" and "/versions" in target:
            status, message = next(rejections)
            return status, {"error_code": status, "message": message}
        return respond(method, target, body)

    monkeypatch.setattr(registry, "respond", reject)
    text = 'syntax = "proto3"; message M { /* of the option */ string id = 1; }'
    options = {**PROTOBUF, "schema.registry.url": registry.url, "value.schema": text}
    with pytest.raises(SchemaRegistryError, match=f": {reason}"):
        write_rows(broker, columns("id"), [{"id": "a"}], **options)
    assert next(rejections, None) is None


def test_error_of_a_registered_text(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    registry.put("events-value", "message Value { string id }", "PROTOBUF")
    options = {**PROTOBUF, **LATEST, "schema.registry.url": registry.url}
    with pytest.raises(SchemaRegistryError, match=r"subject events-value: protoc .*:1:17: "):
        write_rows(broker, ORDER, ROWS, **options)


def as_karapace(text: str) -> str:
    """Return a descriptor as Karapace's, which has no oneofs, map entries and kinds of messages.

    Raises:
        ValueError: the text has imports.
    """
    if "import" in text:
        raise ValueError
    (file,) = compile_files({"schema.proto": text}).values()
    for message in file.message_type:
        _reduce(message)
    return _base64(file)


def _reduce(message: DescriptorProto) -> None:
    del message.oneof_decl[:], message.nested_type[:]
    for field in message.field:
        field.ClearField("oneof_index")
        if field.type_name:
            field.ClearField("type")
            field.type_name = "map<string, Part>"


def _base64(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.mark.parametrize("has_import", [True, False])
@pytest.mark.parametrize("select", ["id", "latest", "header"])
def test_text_is_preferred_to_an_invalid_descriptor(
    broker: EmbeddedBroker, registry: SmallRegistry, select: str, has_import: bool
) -> None:
    registry.serialize = as_karapace
    text = WHOLE if has_import else WHOLE.replace('import "part.proto";', PART.split(";", 2)[2])
    registry.put("part", PART, "PROTOBUF")
    reference = {"name": "part.proto", "subject": "part", "version": 1}
    more = {"references": [reference]} if has_import else {}
    number = registry.put("events-value", text, "PROTOBUF", **more)
    options = {**PROTOBUF, **LATEST, "schema.registry.url": registry.url, "max.retries": "0"}
    if select == "id":
        options.pop("use.latest.version")
        options["use.schema.id"] = str(number)
    if select == "header":
        options["value.schema.id.serializer"] = "HeaderSchemaIdSerializer"
    options["value.schema.name"] = "q.Whole"
    row: dict[str, Any] = {"x": "", "parts": {"k": {"z": "1"}}}
    write_rows(broker, WHOLES, [row], **options)
    (record,) = broker.records("events")
    payload = (record.value or b"")[0 if select == "header" else 7 :]
    compiled = compile_files(
        {"part.proto": PART, "whole.proto": text} if has_import else {"w": text}
    )
    message = message_class(compiled.values(), "q.Whole").FromString(payload)
    assert message.HasField("x")
    assert message.parts["k"].z == "1"
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    (decoded,) = broker.records("events", options=servers | options)
    assert decoded.value == row


@pytest.mark.parametrize("reason", ["no protoc", "invalid text"])
def test_descriptor_replaces_a_text_that_cannot_be_compiled(
    broker: EmbeddedBroker, registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    texts = {"part.proto": PART, "whole.proto": WHOLE}
    compiled = compile_files(texts)
    stored = {text: text for text in texts.values()}
    if reason == "no protoc":
        _remove_protoc(monkeypatch)
    else:
        stored = {text: text.replace("string", "text") for text in stored}
    forms = {stored[texts[name]]: _base64(file) for name, file in compiled.items()}
    registry.serialize = forms.__getitem__
    registry.put("part", stored[PART], "PROTOBUF")
    reference = {"name": "part.proto", "subject": "part", "version": 1}
    registry.put("events-value", stored[WHOLE], "PROTOBUF", references=[reference])
    options = {**PROTOBUF, **LATEST, "schema.registry.url": registry.url, "max.retries": "0"}
    options["value.schema.name"] = "q.Whole"
    row: dict[str, Any] = {"x": "", "parts": {"k": {"z": "1"}}}
    write_rows(broker, WHOLES, [row], **options)
    message = message_class(compiled.values(), "q.Whole").FromString(payloads(broker)[0][7:])
    assert message.parts["k"].z == "1"
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    (decoded,) = broker.records("events", options=servers | options)
    assert decoded.value == row


def _remove_protoc(monkeypatch: pytest.MonkeyPatch) -> None:
    protobuf_compiler._run_protoc.cache_clear()
    monkeypatch.setitem(EXTRAS, "protobuf", replace(EXTRAS["protobuf"], modules=("absent",)))


def _fail(_: str) -> str:
    raise ValueError


def test_error_names_the_extra_if_a_registry_returns_no_descriptor(
    broker: EmbeddedBroker, registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.serialize = _fail
    registry.put("events-value", 'syntax = "proto3"; message Value { string id = 1; }', "PROTOBUF")
    _remove_protoc(monkeypatch)
    options = {**PROTOBUF, **LATEST, "schema.registry.url": registry.url, "max.retries": "0"}
    with pytest.raises(SchemaRegistryError, match="not installed: absent") as caught:
        write_rows(broker, ORDER, ROWS, **options)
    assert "[protobuf]" in (caught.value.hint or "")


def columns(names: str, **types: DataType) -> StructType:
    """Return nullable columns, by default strings."""
    return StructType([StructField(name, types.get(name, StringType())) for name in names.split()])


def reader_of(registry: SmallRegistry, version: int, part: str = "value") -> Any:
    """Return Google's class of a version, as protoc compiles it."""
    text = registry.schemas[registry.subjects[f"events-{part}"][version - 1] - 1]["schema"]
    return message_class(compile_files({"v.proto": text}).values(), part.capitalize())


def write_texts(broker: EmbeddedBroker, schema: StructType, **options: str) -> None:
    """Write a row in which each string is its column's name."""
    row = {name: name for name in schema.names}
    write_rows(broker, schema, [row], **PROTOBUF, **options)


def test_readers_of_the_first_version_find_values_under_their_names(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    options = {"schema.registry.url": registry.url}
    for names in ("id a b", "id b a", "b id", "new id a", "b a id", "id a"):
        write_texts(broker, columns(names), **options)
        versions = len(registry.subjects["events-value"])
        payload = payloads(broker)[-1][6:]
        for version in range(1, versions + 1):
            message = reader_of(registry, version).FromString(payload)
            fields = [(field.name, value) for field, value in message.ListFields()]
            assert fields
            assert all(name == value for name, value in fields)
    assert registry.subjects == {"events-value": [1, 2, 3, 4, 5]}
    texts = [schema["schema"] for schema in registry.schemas]
    assert 'reserved 2;\n  reserved "a";' in texts[1]
    assert 'reserved 3;\n  reserved "b";' in texts[2]
    ids = [int.from_bytes(payload[1:5]) for payload in payloads(broker)]
    assert ids == [1, 1, 2, 3, 4, 5]


def test_nested_columns_and_keys_keep_their_numbers(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    options = {**PROTOBUF, "schema.registry.url": registry.url, "key.format": "protobuf-confluent"}
    rows: list[dict[str, Any]] = []
    for names in ("x y", "y x", "new y"):
        inner = columns(names)
        row = {name: name for name in names.split()}
        types = {"one": inner, "many": ArrayType(inner), "map": MapType(StringType(), inner)}
        schema = StructType(
            [StructField("key", inner), StructField("value", columns("one many map", **types))]
        )
        rows = [{"key": row, "value": {"one": row, "many": [row], "map": [("k", row)]}}]
        write_rows(broker, schema, rows, **options)
    assert {subject: len(ids) for subject, ids in registry.subjects.items()} == {
        "events-key": 2,
        "events-value": 2,
    }
    last = broker.records("events")[-1]
    value = reader_of(registry, 1).FromString((last.value or b"")[6:])
    for message in (value.one, value.many[0], value.map["k"]):
        assert (message.x, message.y) == ("", "y")
    key = reader_of(registry, 1, "key").FromString((last.key or b"")[6:])
    assert (key.x, key.y) == ("", "y")


def test_without_registration_the_numbers_of_the_latest_version_are_found(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    options = {"schema.registry.url": registry.url, "auto.register.schemas": "false"}
    with pytest.raises(SchemaRegistryError, match="40401"):
        write_texts(broker, columns("a b"), **options)
    registry.put("events-value", _text("string b = 5; string a = 3;"), "PROTOBUF")
    with pytest.raises(SchemaRegistryError, match="40403"):
        write_texts(broker, columns("a b c"), **options)
    optional = "optional string a = 3; optional string b = 5;"
    number = registry.put("events-value", _text(optional), "PROTOBUF")
    write_texts(broker, columns("b a"), **options)
    assert payloads(broker)[0][4] == number
    message = reader_of(registry, 1).FromString(payloads(broker)[0][6:])
    assert (message.a, message.b) == ("a", "b")


def _text(fields: str) -> str:
    """Return a message as text in the form in which the sink prints it."""
    lines = "".join(f"  {field.strip()};\n" for field in fields.split(";")[:-1])
    return f'syntax = "proto3";\n\nmessage Value {{\n{lines}}}\n'


def test_dry_run_checks_the_schema_that_is_registered(
    broker: EmbeddedBroker, registry: SmallRegistry
) -> None:
    options = {"schema.registry.url": registry.url}
    write_texts(broker, columns("a b"), **options)
    write_texts(broker, columns("b new"), **options, dryRun="true")
    assert registry.subjects == {"events-value": [1]}
    write_texts(broker, columns("b new"), **options)
    checks = [body["schema"] for path, body in registry.bodies if path.startswith("/compat")]
    assert checks == [registry.schemas[1]["schema"]]
    assert "string b = 2;" in checks[0]


@pytest.mark.parametrize("other", ["AVRO", "message"])
def test_latest_version_without_the_message_leaves_the_numbers(
    broker: EmbeddedBroker, registry: SmallRegistry, other: str
) -> None:
    if other == "AVRO":
        registry.put("events-value", '"string"')
    else:
        text = _text("string a = 5;").replace("Value", "Other")
        registry.put("events-value", text, "PROTOBUF")
    write_texts(broker, columns("b a"), **{"schema.registry.url": registry.url})
    fields = reader_of(registry, 2).DESCRIPTOR.fields
    assert [(field.name, field.number) for field in fields] == [("b", 1), ("a", 2)]


def test_new_columns_need_a_readable_version(
    broker: EmbeddedBroker, registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"schema.registry.url": registry.url}
    write_texts(broker, columns("a b"), **options)
    _remove_protoc(monkeypatch)
    write_texts(broker, columns("a b"), **options)
    with pytest.raises(SchemaRegistryError, match="not installed: absent") as caught:
        write_texts(broker, columns("b a"), **options)
    assert "[protobuf]" in (caught.value.hint or "")
    registry.serialize = lambda text: _base64(next(iter(compile_files({"t": text}).values())))
    write_texts(broker, columns("b a"), **options)
    assert registry.subjects == {"events-value": [1]}


def test_micro_batches_register_no_further_version(
    broker: EmbeddedBroker, registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_kafka_sink.spark.write_plan.reject_continuous", lambda: None)
    monkeypatch.setattr("spark_kafka_sink.spark.write_plan.latest_query_start", lambda: None)
    write_texts(broker, columns("a b"), **{"schema.registry.url": registry.url})
    stream = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": "events",
        "preflight": "off",
        "schema.registry.url": registry.url,
        "checkpointLocation": "/nowhere",
        **PROTOBUF,
    }
    for _ in range(3):
        KafkaProdDataSource(stream).streamWriter(columns("b c"), overwrite=False)
    assert registry.subjects == {"events-value": [1, 2]}
    assert reader_of(registry, 2).DESCRIPTOR.fields_by_name["b"].number == 2
