"""Write rows with the sink's writer, without a Spark session."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_kafka_sink.spark.datasource import KafkaProdDataSource
from spark_kafka_sink.spark.schema.arrow_schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

    from spark_kafka_sink import EmbeddedBroker


def write_rows(
    broker: EmbeddedBroker, schema: StructType, rows: Sequence[dict[str, Any]], **options: str
) -> None:
    """Plan, write and commit like Spark, which pickles the writer for its task."""
    settings = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": "events",
        "preflight": "off",
        "summary": "off",
        **options,
    }
    source = KafkaProdDataSource({name.lower(): text for name, text in settings.items()})
    writer = pickle.loads(pickle.dumps(source.writer(schema, overwrite=False)))
    fields = arrow_schema(schema)
    columns = [_column([row[field.name] for row in rows], field.type) for field in fields]
    batch = pa.RecordBatch.from_arrays(columns, schema=fields)
    writer.commit([writer.write(iter([batch]))])


def _column(values: list[Any], type_: pa.DataType) -> pa.Array[Any]:
    """Return a column; string columns can contain invalid UTF-8, as in Spark."""
    if any(isinstance(value, bytes) for value in values) and pa.types.is_string(type_):
        raw = [value.encode() if isinstance(value, str) else value for value in values]
        return pa.array(raw, pa.binary()).view(pa.string())
    return pa.array(values, type_)
