"""A sink with a schema registry, and its rows and options."""

from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, dual_schema_id_deserializer
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql.types import (
    DoubleType,
    StringType,
    StructField,
    StructType,
)

from spark_kafka_sink import EmbeddedBroker, SchemaRegistryError
from tests.integration.support.columnar import write_rows
from tests.support.schema_registry import SmallRegistry

ORDER = StructType([StructField("id", StringType()), StructField("price", DoubleType())])
ROWS: list[dict[str, Any]] = [{"id": "a", "price": 1.5}, {"id": None, "price": None}]
AVRO = {"value.format": "avro-confluent", "retries.wait.ms": "1", "retries.max.wait.ms": "2"}
LATEST = {"auto.register.schemas": "false", "use.latest.version": "true"}


@dataclass(frozen=True)
class RegistrySink:
    """Writes to the topic `events` with a schema of the registry."""

    broker: EmbeddedBroker
    registry: SmallRegistry

    @property
    def options(self) -> dict[str, str]:
        servers = self.broker.bootstrap_servers
        base = {"kafka.bootstrap.servers": servers, "topic": "events", "preflight": "off"}
        return {**base, "schema.registry.url": self.registry.url, **AVRO}

    def write(
        self, schema: StructType = ORDER, rows: list[dict[str, Any]] = ROWS, /, **options: str
    ) -> None:
        defaults = {**AVRO, "schema.registry.url": self.registry.url}
        write_rows(self.broker, schema, rows, **{**defaults, **options})

    def values(self) -> list[bytes]:
        return [record.value or b"" for record in self.broker.records("events")]

    def decoded(self) -> list[Any]:
        reader = AvroDeserializer(
            SchemaRegistryClient({"url": self.registry.url}),
            conf={"schema.id.deserializer": dual_schema_id_deserializer},
        )
        return [
            reader(
                record.value,
                SerializationContext("events", MessageField.VALUE, list(record.headers)),
            )
            for record in self.broker.records("events")
        ]

    def error_of(self, **options: str) -> str:
        with pytest.raises(SchemaRegistryError) as caught:
            self.write(**options)
        assert self.broker.records("events") == []
        return str(caught.value)
