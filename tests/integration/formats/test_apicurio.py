"""Schemas in a real registry (Apicurio): registration and evolution, read by Confluent's client."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from spark_kafka_sink import EmbeddedBroker, SchemaRegistryError
from tests.integration.support.columnar import write_rows
from tests.support.apicurio import apicurio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import DataType

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with apicurio(port, tmp_path_factory.mktemp("apicurio") / "log") as url:
        SchemaRegistryClient({"url": url}).set_compatibility(level="BACKWARD")
        yield url


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(auto_create_topics=True) as broker:
        yield broker


def frame(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_avro_schema_evolution(broker: EmbeddedBroker, url: str) -> None:
    options = {"value.format": "avro-confluent", "schema.registry.url": url, "topic": "avro"}
    old: list[dict[str, Any]] = [{"id": "a", "price": 1.5}]
    new: list[dict[str, Any]] = [{"id": "b", "tax": 0.5, "price": None}]
    write_rows(broker, frame(id=StringType(), price=DoubleType()), old, **options)
    wider = frame(id=StringType(), tax=DoubleType(), price=DoubleType())
    write_rows(broker, wider, new, **options)
    client = SchemaRegistryClient({"url": url})
    reader = AvroDeserializer(client)
    context = SerializationContext("avro", MessageField.VALUE)
    assert [reader(each.value, context) for each in broker.records("avro")] == old + new
    assert client.get_versions("avro-value") == [1, 2]
    with pytest.raises(SchemaRegistryError) as caught:
        write_rows(broker, frame(id=LongType()), [{"id": 1}], **options)
    assert "HTTP status 409" in str(caught.value)
    assert len(broker.records("avro")) == 2


@pytest.mark.parametrize("format_", ["json-confluent", "protobuf-confluent", "avro-confluent"])
def test_schema_is_registered_once(broker: EmbeddedBroker, url: str, format_: str) -> None:
    options = {"value.format": format_, "schema.registry.url": url, "topic": format_}
    rows = [{"id": "a", "price": 1.5}]
    schema = frame(id=StringType(), price=DoubleType())
    for _ in range(2):
        write_rows(broker, schema, rows, **options)
    write_rows(broker, schema, rows, **options, **{"auto.register.schemas": "false"})
    assert SchemaRegistryClient({"url": url}).get_versions(f"{format_}-value") == [1]
    values = {each.value for each in broker.records(format_)}
    assert len(values) == 1
