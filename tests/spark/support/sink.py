"""Write frames to Kafka and read topics as frames."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import NewTopic
from pyspark.sql.types import ArrayType, MapType, StructType

from spark_kafka_sink import write
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES
from tests.spark.support.append import append

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from tools.support.kafka_cluster import KafkaCluster
    from tools.support.readers import ForeignRecord

OURS, JVM, WRITE = "kafkaprod", "kafka", "write()"
_FORMAT = [pytest.param(OURS, id="format")] if HAS_DATA_SOURCES else []
BOTH_WAYS = pytest.mark.parametrize(
    "sink", [*_FORMAT, pytest.param(WRITE, id="write")], indirect=True
)
"""Runs a test with `format("kafkaprod")`, if the release has data sources, and with `write`."""
SHORT = {
    "kafka.max.block.ms": "3000",
    "kafka.delivery.timeout.ms": "3000",
    "kafka.request.timeout.ms": "2000",
}
"""Options with which a failing write fails quickly."""

RECORD_SCHEMA = (
    "partition int, offset bigint, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
_ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}


@dataclass(frozen=True, slots=True)
class Sink:
    """Writes to one cluster with one of the two formats, or with `write`.

    On PySpark 3.5, `write` replaces `format("kafkaprod")`.
    """

    spark: SparkSession
    bootstrap_servers: str
    format: str = OURS

    def frame(self, schema: str, *rows: tuple[Any, ...]) -> DataFrame:
        """Return a frame with one partition and these rows."""
        return local_frame(self.spark, schema, rows).coalesce(1)

    def write(self, frame: DataFrame, **options: str) -> None:
        """Append the frame; double underscores in option names become dots."""
        named = {name.replace("__", "."): value for name, value in options.items()}
        self.append(frame, {"kafka.bootstrap.servers": self.bootstrap_servers, **named})

    def append(self, frame: DataFrame, options: dict[str, str]) -> None:
        """Append the frame with exactly these options."""
        if self.format == WRITE:
            write(frame, options)
        elif self.format == OURS:
            append(frame, options)
        else:
            frame.write.format(self.format).mode("append").options(**options).save()

    def jobs_of(self, write: Any) -> tuple[Exception | None, int]:
        """Call `write` and return its error, if any, and the number of Spark jobs."""
        context = self.spark.sparkContext
        group = uuid.uuid4().hex
        context.setJobGroup(group, "a write")
        try:
            write()
        except Exception as error:  # noqa: BLE001
            return error, len(context.statusTracker().getJobIdsForGroup(group))
        return None, len(context.statusTracker().getJobIdsForGroup(group))


def as_frame(spark: SparkSession, records: list[ForeignRecord]) -> DataFrame:
    """Convert records of another client to a frame."""
    rows = [
        (
            record.partition,
            record.offset,
            record.key,
            record.value,
            [(name, value) for name, value in record.headers] or None,
        )
        for record in records
    ]
    return local_frame(spark, RECORD_SCHEMA, rows)


def local_frame(spark: SparkSession, schema: str, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """Return a local frame, since PySpark 4.0 created and collected without a Spark job."""
    parsed = spark.createDataFrame([], schema).schema
    if not HAS_DATA_SOURCES:
        return spark.createDataFrame(list(rows), parsed)
    arrow = pa.schema([(field.name, _arrow_type(field.dataType)) for field in parsed.fields])
    columns = [
        pa.array(
            [_plain(row[location], field.dataType) for row in rows], arrow.field(location).type
        )
        for location, field in enumerate(parsed.fields)
    ]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), parsed)


def _arrow_type(kind: DataType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([(field.name, _arrow_type(field.dataType)) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(_arrow_type(kind.elementType))
    if isinstance(kind, MapType):
        return pa.map_(_arrow_type(kind.keyType), _arrow_type(kind.valueType))
    return _ARROW_TYPES[kind.simpleString()]


def _plain(value: Any, kind: DataType) -> Any:
    """Convert tuples (structs) and dicts (maps) of rows to dicts and pairs for Arrow."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {
            field.name: _plain(part, field.dataType)
            for field, part in zip(kind.fields, value, strict=True)
        }
    if isinstance(kind, ArrayType):
        return [_plain(part, kind.elementType) for part in value]
    return list(value.items()) if isinstance(value, dict) else value


def create_topics(kafka: KafkaCluster, names: list[str]) -> None:
    """Create topics with four partitions each."""
    kafka.admin.create_topics(*(NewTopic(name, 4, 1) for name in names))
