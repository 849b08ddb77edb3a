"""Avro types that several tests use as branches of unions."""

import datetime as dt
from typing import Any

from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
OTHER_ENUM = {"type": "enum", "name": "E2", "symbols": ["B", "C"]}
FOUR = {"type": "fixed", "name": "F4", "size": 4}
TWO = {"type": "fixed", "name": "F2", "size": 2}
NARROW = {
    "type": "fixed",
    "name": "D",
    "size": 2,
    "logicalType": "decimal",
    "precision": 4,
    "scale": 2,
}
WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
TIME_MILLIS = {"type": "int", "logicalType": "time-millis"}
TIME_MICROS = {"type": "long", "logicalType": "time-micros"}
NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
INT, LONG, FLOAT, DOUBLE = "int", "long", "float", "double"


def logical(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "logicalType": name}


TIMES = [logical("long", f"timestamp-{unit}") for unit in ("micros", "nanos", "millis")]


def encoded_by(spec: EncoderSpec, array: Any) -> list[bytes | None]:
    return compile_encoder(spec, array.type).encode(array, EncodingErrors(len(array))).to_pylist()
