"""Convert the rows of a frame to what a consumer would decode, for `assert_written`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, types

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.common.time_zones import ZONE_SETTING
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.decoder import decode_payload
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, UnregisteredSchema, compile_encoder
from spark_kafka_sink.spark.rows.plain_names import with_plain_names
from spark_kafka_sink.spark.rows.serialization import (
    IGNORES_NULLS,
    encoded_structs,
    with_settings,
)
from spark_kafka_sink.spark.schema.arrow_schema import arrow_schema
from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles
from spark_kafka_sink.spark.schema.spec_completion import draft_specs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.config.formats import FormatsConfig
    from spark_kafka_sink.config.sink_config import SinkConfig


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """The records that a write of a frame creates."""

    names: tuple[str, ...]
    """The parts of a record that columns define: key, value, topic, headers."""
    rows: list[dict[str, Any]]
    """The values of these parts, with decoded keys and values."""
    sources: dict[str, UnregisteredSchema]
    """The schemas of "key" and "value" with which the frame is serialized."""

    @classmethod
    def of(cls, frame: DataFrame, config: SinkConfig, formats: FormatsConfig) -> ExpectedRows:
        """Serialize a frame on the driver, and decode the result. No schema is registered.

        Raises:
            ColumnError: a column or row does not fit its format or schema.
            ConfigError: a given schema cannot be read, or a library is not installed.
            SchemaRegistryError: the registered schema that the options select cannot be read.
        """
        roles = ColumnRoles.of(frame.schema, config)
        zone, ignores_nulls = map(frame.sparkSession.conf.get, (ZONE_SETTING, IGNORES_NULLS))
        specs = {
            part: with_settings(spec, str(zone), ignores_nulls)
            for part, spec in draft_specs(roles, frame.schema, config, formats).items()
        }
        nullable = cast("types.StructType", _as_nullable(frame.schema))
        # PyArrow cannot convert null structs whose fields are not nullable.
        schema = arrow_schema(nullable)
        table = _to_arrow(frame.to(nullable))
        batches = [] if table is None else table.cast(schema).combine_chunks().to_batches()
        batch = next(iter(batches), pa.RecordBatch.from_pylist([], schema))
        columns = {part: _decode_part(spec, batch, part) for part, spec in specs.items()}
        for name in ("key", "value", "topic", "headers"):
            index = getattr(roles, name)
            if index is not None:
                columns[name] = batch.column(index).to_pylist()
        if "headers" in columns:
            columns["headers"] = [
                [tuple(header.values()) for header in headers or ()]
                for headers in columns["headers"]
            ]
        return cls(
            names=tuple(columns),
            rows=[
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ],
            sources={
                part: UnregisteredSchema(spec.schema, "", spec.message)
                for part, spec in specs.items()
                if spec.schema is not None
            },
        )


def _as_nullable(data_type: types.DataType) -> types.DataType:
    """Return the type with nullable fields, items and values at any depth."""
    if isinstance(data_type, types.StructType):
        return types.StructType(
            [
                types.StructField(field.name, _as_nullable(field.dataType))
                for field in data_type.fields
            ]
        )
    if isinstance(data_type, types.ArrayType):
        return types.ArrayType(_as_nullable(data_type.elementType))
    if isinstance(data_type, types.MapType):
        return types.MapType(_as_nullable(data_type.keyType), _as_nullable(data_type.valueType))
    return data_type


def _decode_part(spec: EncoderSpec, batch: pa.RecordBatch, part: str) -> list[Any]:
    structs = encoded_structs(batch, spec)
    errors = EncodingErrors(len(structs))
    encoded = compile_encoder(spec, structs.type).encode(structs, errors)
    for error in errors:
        raise ColumnError(
            f"row {error.row} of the frame cannot be serialized: the field `{error.path}` of the "
            f"{part} {error.problem}"
        )
    source = None if spec.schema is None else UnregisteredSchema(spec.schema, "", spec.message)
    return [
        None if value is None else decode_payload(spec.format, source, value)
        for value in encoded.to_pylist()
    ]


def _to_arrow(frame: DataFrame) -> pa.Table | None:
    """Return the rows of a frame; None if there are none.

    `toArrow`, which 3.5 does not have, cannot convert void items.
    """
    rows = with_plain_names(frame).mapInArrow(_as_streams, "stream binary").collect()
    tables = [pa.ipc.open_stream(row.stream).read_all() for row in rows]
    return pa.concat_tables(tables).rename_columns(frame.columns) if tables else None


def _as_streams(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"stream": [sink.getvalue().to_pybytes()]})
