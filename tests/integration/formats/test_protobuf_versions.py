"""Versions of Protobuf schemas: columns keep their numbers."""

from typing import Any

import pytest
from pyspark.sql.types import StructType

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
