"""Versions of Protobuf schemas: columns keep their numbers."""

from typing import Any

import pytest
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

from spark_kafka_sink import EmbeddedBroker, SchemaRegistryError
from spark_kafka_sink.spark.datasource import KafkaProdDataSource
from tests.integration.formats.protobuf_writes import (
    PROTOBUF,
    columns,
    in_base64,
    payloads,
    remove_protoc,
)
from tests.integration.support.columnar import write_rows
from tests.support.protoc import compile_files, message_class
from tests.support.schema_registry import SmallRegistry


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
    registry.put("events-value", message_text("string b = 5; string a = 3;"), "PROTOBUF")
    with pytest.raises(SchemaRegistryError, match="40403"):
        write_texts(broker, columns("a b c"), **options)
    optional = "optional string a = 3; optional string b = 5;"
    number = registry.put("events-value", message_text(optional), "PROTOBUF")
    write_texts(broker, columns("b a"), **options)
    assert payloads(broker)[0][4] == number
    message = reader_of(registry, 1).FromString(payloads(broker)[0][6:])
    assert (message.a, message.b) == ("a", "b")


def message_text(fields: str) -> str:
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
    checks = [body["schema"] for path, body in registry.bodies if path.endswith("/versions/latest")]
    assert checks == [registry.schemas[1]["schema"]]
    assert "string b = 2;" in checks[0]


@pytest.mark.parametrize("other", ["AVRO", "message"])
def test_latest_version_without_the_message_leaves_the_numbers(
    broker: EmbeddedBroker, registry: SmallRegistry, other: str
) -> None:
    if other == "AVRO":
        registry.put("events-value", '"string"')
    else:
        text = message_text("string a = 5;").replace("Value", "Other")
        registry.put("events-value", text, "PROTOBUF")
    write_texts(broker, columns("b a"), **{"schema.registry.url": registry.url})
    fields = reader_of(registry, 2).DESCRIPTOR.fields
    assert [(field.name, field.number) for field in fields] == [("b", 1), ("a", 2)]


def test_new_columns_need_a_readable_version(
    broker: EmbeddedBroker, registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"schema.registry.url": registry.url}
    write_texts(broker, columns("a b"), **options)
    remove_protoc(monkeypatch)
    write_texts(broker, columns("a b"), **options)
    with pytest.raises(SchemaRegistryError, match="not installed: absent") as caught:
        write_texts(broker, columns("b a"), **options)
    assert "[protobuf]" in (caught.value.hint or "")
    registry.serialize = lambda text: in_base64(next(iter(compile_files({"t": text}).values())))
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
