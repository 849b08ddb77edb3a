"""Protobuf messages that are written to an embedded broker."""

import base64
from dataclasses import replace

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.optional_dependencies import EXTRAS
from spark_kafka_sink.formats.protobuf import protobuf_compiler

ORDER = StructType([StructField("id", StringType()), StructField("n", LongType())])
PROTOBUF = {"value.format": "protobuf-confluent"}


def payloads(broker: EmbeddedBroker) -> list[bytes]:
    return [record.value or b"" for record in broker.records("events")]


def in_base64(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def remove_protoc(monkeypatch: pytest.MonkeyPatch) -> None:
    protobuf_compiler._run_protoc.cache_clear()
    monkeypatch.setitem(EXTRAS, "protobuf", replace(EXTRAS["protobuf"], modules=("absent",)))


def columns(names: str, **types: DataType) -> StructType:
    """Return nullable columns, by default strings."""
    return StructType([StructField(name, types.get(name, StringType())) for name in names.split()])
