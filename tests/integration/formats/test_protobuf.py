"""Protobuf with a registry: protoc compiles the registered text, and Google reads the records."""

import base64
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from pyspark.sql.types import IntegerType, MapType, StringType, StructField, StructType

from spark_kafka_sink import EmbeddedBroker, SchemaRegistryError
from tests.integration.formats.protobuf_writes import (
    ORDER,
    PROTOBUF,
    columns,
    in_base64,
    payloads,
    remove_protoc,
)
from tests.integration.support.columnar import write_rows
from tests.support.protoc import compile_files, message_class
from tests.support.schema_registry import SmallRegistry

ROWS: list[dict[str, Any]] = [{"id": "a", "n": 7}, {"id": None, "n": None}]
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


@pytest.mark.quick
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


@pytest.mark.quick
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


def test_version_with_a_missing_reference_is_another_one(
    broker: EmbeddedBroker, registry: SmallRegistry, tmp_path: Path
) -> None:
    """Confluent's API of Apicurio returns a reference to another group without its group."""
    (tmp_path / "base.proto").write_text(BASE)
    (tmp_path / "main.proto").write_text(MAIN)
    nested = {"name": "nested.proto", "subject": "of-another-group", "version": 1}
    registry.put("nested", BASE, "PROTOBUF", references=[nested])
    reference = {"name": "base.proto", "subject": "nested", "version": 1}
    registry.put("events-value", f"{MAIN} message Other {{}}", "PROTOBUF", references=[reference])
    options = {
        **PROTOBUF,
        "schema.registry.url": registry.url,
        "value.schema.file": str(tmp_path / "main.proto"),
        "value.schema.name": "m.Order",
    }
    for settings in ({"dryRun": "true"}, {}):
        write_rows(broker, ORDER, ROWS, **options, **settings)
    assert registry.subjects == {"nested": [1], "events-value": [2, 4], "base.proto": [3]}


@pytest.mark.quick
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
        reduce(message)
    return in_base64(file)


def reduce(message: DescriptorProto) -> None:
    del message.oneof_decl[:], message.nested_type[:]
    for field in message.field:
        field.ClearField("oneof_index")
        if field.type_name:
            field.ClearField("type")
            field.type_name = "map<string, Part>"


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
        remove_protoc(monkeypatch)
    else:
        stored = {text: text.replace("string", "text") for text in stored}
    forms = {stored[texts[name]]: in_base64(file) for name, file in compiled.items()}
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


def fail(_: str) -> str:
    raise ValueError


def test_error_names_the_extra_if_a_registry_returns_no_descriptor(
    broker: EmbeddedBroker, registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.serialize = fail
    registry.put("events-value", 'syntax = "proto3"; message Value { string id = 1; }', "PROTOBUF")
    remove_protoc(monkeypatch)
    options = {**PROTOBUF, **LATEST, "schema.registry.url": registry.url, "max.retries": "0"}
    with pytest.raises(SchemaRegistryError, match="not installed: absent") as caught:
        write_rows(broker, ORDER, ROWS, **options)
    assert "[protobuf]" in (caught.value.hint or "")
