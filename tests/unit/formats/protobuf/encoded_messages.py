"""Descriptors of `.proto` text, and rows encoded with them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2

from spark_kafka_sink.config.formats import Format, PartFormat
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder
from tests.support.protoc import compile_files

E2023 = 'edition = "2023"; package p; '
CLOSED = "enum Color { option features.enum_type = CLOSED; RED = 0; } "
INNER = "message S { int32 x = 1; } "
PROTO2 = 'syntax = "proto2"; package p; '
SKU = 'syntax = "proto3"; package shop.v1; message Sku { string code = 1; }'


def set_in_base64(text: str, imports: Mapping[str, str] | None = None) -> str:
    files = compile_files({**(imports or {}), "m.proto": text}).values()
    return base64.b64encode(
        descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
    ).decode()


def encode(schema: str, array: pa.Array[Any], message: str = "p.E") -> tuple[list[Any], list[Any]]:
    errors = EncodingErrors(len(array))
    spec = EncoderSpec(format=Format.PROTOBUF, schema=schema, message=message)
    encoded = compile_encoder(spec, array.type).encode(array, errors)  # type: ignore[arg-type]
    return encoded.to_pylist(), list(errors)


def part(schema: str | None, name: str | None = None, **more: Any) -> PartFormat:
    return PartFormat(part="value", format=Format.PROTOBUF, schema=schema, schema_name=name, **more)
