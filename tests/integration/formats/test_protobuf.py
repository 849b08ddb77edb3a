"""Protobuf with a schema registry, read with Google's runtime."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_kafka_sink import EmbeddedBroker
from tests.integration.support.columnar import write_rows
from tests.support.schema_registry import SmallRegistry, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORDER = StructType([StructField("id", StringType()), StructField("n", LongType())])
ROWS: list[dict[str, Any]] = [{"id": "a", "n": 7}, {"id": None, "n": None}]
PROTOBUF = {"value.format": "protobuf-confluent"}


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"events": 1}) as broker:
        yield broker


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with running() as registry:
        yield registry


def message(files: list[bytes], name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def payloads(broker: EmbeddedBroker) -> list[bytes]:
    return [record.value or b"" for record in broker.records("events")]


def test_derived_message_is_registered(broker: EmbeddedBroker, registry: SmallRegistry) -> None:
    write_rows(broker, ORDER, ROWS, **PROTOBUF, **{"schema.registry.url": registry.url})
    (schema,) = registry.schemas
    assert schema["schemaType"] == "PROTOBUF"
    kind = message([base64.b64decode(schema["schema"])], "Value")
    found = payloads(broker)
    assert [each[:6] for each in found] == [b"\0\0\0\0\1\0"] * 2
    decoded = [kind.FromString(each[6:]) for each in found]
    assert [(each.id, each.n) for each in decoded] == [("a", 7), ("", 0)]


def descriptor_set(folder: Path) -> str:
    """Write a descriptor set of two files; the second one imports the first."""
    base = descriptor_pb2.FileDescriptorProto(name="base.proto", package="b", syntax="proto3")
    base.message_type.add(name="Unused").field.add(name="x", number=1, type=9, label=1)
    main = descriptor_pb2.FileDescriptorProto(
        name="main.proto", package="m", syntax="proto3", dependency=["base.proto"]
    )
    main.message_type.add(name="First").field.add(
        name="of", number=1, type=11, label=1, type_name=".b.Unused"
    )
    order = main.message_type.add(name="Order")
    order.field.add(name="n", number=4, type=3, label=1)
    order.field.add(name="id", number=2, type=9, label=1)
    path = folder / "order.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[base, main]).SerializeToString())
    return str(path)


def test_descriptor_set_is_registered_with_its_imports(
    broker: EmbeddedBroker, registry: SmallRegistry, tmp_path: Path
) -> None:
    given = {"value.schema.file": descriptor_set(tmp_path), "value.schema.name": "m.Order"}
    write_rows(broker, ORDER, ROWS, **PROTOBUF, **given, **{"schema.registry.url": registry.url})
    assert registry.subjects == {"base.proto": [1], "events-value": [2]}
    assert registry.schemas[1]["references"] == [
        {"name": "base.proto", "subject": "base.proto", "version": 1}
    ]
    files = [base64.b64decode(each["schema"]) for each in registry.schemas]
    kind = message(files, "m.Order")
    found = payloads(broker)
    assert [each[:7] for each in found] == [b"\0\0\0\0\2\2\2"] * 2
    decoded = [kind.FromString(each[7:]) for each in found]
    assert [(each.id, each.n) for each in decoded] == [("a", 7), ("", 0)]
