"""Rows encoded by this package, and read and written by fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa

from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder


def encode(array: pa.Array[Any], schema: Any) -> list[bytes | None]:
    """Encode structs without errors."""
    encoded, errors = try_to_encode(array, schema)
    assert not errors, list(errors)
    return encoded


def try_to_encode(array: pa.Array[Any], schema: Any) -> tuple[list[bytes | None], EncodingErrors]:
    errors = EncodingErrors(len(array))
    spec = EncoderSpec(format=Format.AVRO, schema=json.dumps(schema))
    encoded = compile_encoder(spec, array.type).encode(array, errors)  # type: ignore[arg-type]
    encoded.validate(full=True)
    return encoded.to_pylist(), errors


def written(schema: Any, value: Any) -> bytes:
    """Return what fastavro writes."""
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


def read(schema: Any, data: bytes | None) -> Any:
    """Return what fastavro reads."""
    source = io.BytesIO(data or b"")
    value = fastavro.schemaless_reader(source, fastavro.parse_schema(schema), None)
    assert not source.read()
    return value


def record(*fields: tuple[str, Any] | dict[str, Any]) -> dict[str, Any]:
    declared = [
        field if isinstance(field, dict) else {"name": field[0], "type": field[1]}
        for field in fields
    ]
    return {"type": "record", "name": "R", "namespace": "n", "fields": declared}
