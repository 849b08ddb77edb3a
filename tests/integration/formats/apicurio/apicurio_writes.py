"""Options of writes with a schema of a real registry, and what readers decode."""

from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from google.protobuf import json_format
from pyspark.sql.types import (
    DataType,
    StructField,
    StructType,
)

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.formats.protobuf.protobuf_indexes import read_indexes
from tests.support.protoc import compile_files, message_class

DECIMAL = """syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"""
LATEST = {"auto.register.schemas": "false", "use.latest.version": "true"}
MONEY = 'syntax = "proto3";\npackage given;\nmessage Money { string currency = 1; }\n'


def frame(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def options_of(client: SchemaRegistryClient, topic: str, format_: str) -> dict[str, str]:
    url = client._rest_client.base_urls[0]
    return {"value.format": f"{format_}-confluent", "schema.registry.url": url, "topic": topic}


def decoded(client: SchemaRegistryClient, broker: EmbeddedBroker, topic: str, name: str) -> Any:
    """Decode a topic's last record with what protoc compiles from the registered texts."""
    value = broker.records(topic)[-1].value or b""
    texts = {"confluent/type/decimal.proto": DECIMAL}

    def collect(schema: Schema, file: str | None) -> None:
        for reference in schema.references or ():
            version: Any = client.get_version(str(reference.subject), reference.version or 1)
            collect(version.schema, reference.name)
        texts[str(file)] = str(schema.schema_str)

    collect(client.get_schema(int.from_bytes(value[1:5])), "main.proto")
    _, payload = read_indexes(value[5:])
    cls = message_class(compile_files(texts).values(), name)
    return json_format.MessageToDict(cls.FromString(payload), preserving_proto_field_name=True)
