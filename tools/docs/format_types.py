"""The table of Spark's types in JSON, Avro and Protobuf."""

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import types

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder, derive_schema
from spark_kafka_sink.formats.protobuf.protobuf_schema import ProtoField, ProtoSchema
from spark_kafka_sink.spark.schema.arrow_schema import arrow_schema
from tools.docs.pages import table

_INT, _TEXT = types.IntegerType(), types.StringType()
_AT = dt.datetime(2024, 2, 29, 12, 34, 56, 789_012)  # noqa: DTZ001 - for both timestamps
_EXAMPLES: tuple[tuple[types.DataType, Any], ...] = (
    (types.BooleanType(), True),
    (types.ByteType(), 7),
    (types.ShortType(), 7),
    (types.IntegerType(), 7),
    (types.LongType(), 7),
    (types.FloatType(), 1.5),
    (types.DoubleType(), 1.5),
    (types.DecimalType(9, 2), Decimal("7.00")),
    (types.StringType(), "a"),
    (types.BinaryType(), b"\0\1"),
    (types.DateType(), dt.date(2024, 2, 29)),
    (types.TimeType(), dt.time(12, 34, 56, 789_000)),
    (types.TimestampType(), _AT),
    (types.TimestampNTZType(), _AT),
    (types.DayTimeIntervalType(), dt.timedelta(days=1, seconds=1)),
    (types.YearMonthIntervalType(), None),
    (types.CalendarIntervalType(), None),
    (types.StructType([types.StructField("x", _INT)]), {"x": 7}),
    (types.ArrayType(_INT, containsNull=False), [7]),
    (types.ArrayType(_INT), [7, None]),
    (types.MapType(_TEXT, _INT, valueContainsNull=False), [("k", 7)]),
    (types.MapType(_INT, _TEXT, valueContainsNull=False), [(7, "a")]),
    (types.NullType(), None),
    (types.VariantType(), None),
    (types.GeometryType(0), None),
    (types.GeographyType(4326), None),
)
"""Spark types, each with an example value."""
_UNSUPPORTED = "not supported"


def render_format_types() -> str:
    """Return a table of Spark types, with an example in JSON and the types of Avro and Protobuf."""
    rows = [
        (
            f"`{_type_name(data_type)}`",
            *(_or_unsupported(encode, data_type, value) for encode in (_json, _avro, _protobuf)),
        )
        for data_type, value in _EXAMPLES
    ]
    return table(("Spark", "JSON, for example", "Avro", "Protobuf"), rows)


def _type_name(data_type: types.DataType) -> str:
    """Return the SQL name of a type, with a note for arrays whose items can be null."""
    name = data_type.simpleString()
    nullable = isinstance(data_type, types.ArrayType) and data_type.containsNull
    return f"{name}, items null" if nullable else name


def _or_unsupported(
    render: Callable[[pa.StructType, Any], str], data_type: types.DataType, value: Any
) -> str:
    nullable = isinstance(data_type, types.NullType)
    schema = types.StructType([types.StructField("c", data_type, nullable=nullable)])
    try:
        return f"`{render(pa.struct(list(arrow_schema(schema))), value)}`"
    except ColumnError:
        return _UNSUPPORTED


def _json(type_: pa.StructType, value: Any) -> str:
    spec = EncoderSpec(format=Format.JSON, zone="Europe/Berlin", writes_nulls=True)
    array: Any = pa.array([{"c": value}], type_)
    encoded = compile_encoder(spec, type_).encode(array, EncodingErrors(1))
    text: str = encoded[0].as_py().decode()
    return text.removeprefix('{"c":').removesuffix("}")


def _avro(type_: pa.StructType, _value: Any) -> str:
    derived = derive_schema(Format.AVRO, type_, "Value")
    return _avro_name(json.loads(derived.text)["fields"][0]["type"])


def _avro_name(schema: Any) -> str:
    if isinstance(schema, list):
        return ", ".join(map(_avro_name, schema))
    if isinstance(schema, str):
        return schema
    logical = schema.get("logicalType")
    inner = schema.get("items", schema.get("values"))
    name = schema["type"] if inner is None else f"{schema['type']} of {_avro_name(inner)}"
    return f"{name} ({logical})" if logical else str(name)


def _protobuf(type_: pa.StructType, _value: Any) -> str:
    derived = derive_schema(Format.PROTOBUF, type_, "Value")
    schema = ProtoSchema.parse(derived.text)
    return _proto_name(schema, schema.message(None).fields[0])


def _proto_name(schema: ProtoSchema, field: ProtoField) -> str:
    message = schema.messages.get(field.type_name)
    if message is not None and message.is_map_entry:
        return f"map<{', '.join(_proto_name(schema, field_type) for field_type in message.fields)}>"
    declared = "message" if field.type_name.startswith("Value") else field.type_name
    name = declared or field.kind.name.lower()
    return f"repeated {name}" if field.is_repeated else name
