"""Records as a consumer receives them, as a list, an Arrow table or a DataFrame."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from spark_kafka_sink.common.optional_dependencies import import_extra
from spark_kafka_sink.kafka.records.committed_records import CommittedRecords
from spark_kafka_sink.kafka.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from spark_kafka_sink.kafka.records.record_decoder import Record


_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("ms", "UTC")),
    ("headers", pa.list_(_HEADER)),
]
_SCHEMA = pa.schema(_COLUMNS)
"""The columns of Spark's Kafka source with `includeHeaders`, except `timestampType`.

Timestamps are in milliseconds, as in Kafka, because microseconds could not represent all
timestamps.
"""
_SPARK_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp bigint, "
    "headers array<struct<key: string, value: binary>>"
)
_SPARK_COLUMNS = [
    "timestamp_millis(timestamp) AS timestamp" if name == "timestamp" else name
    for name, _ in _COLUMNS
]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class ConsumerRecord(NamedTuple):
    """A record with its topic, partition and offset."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: datetime | int
    """A UTC datetime, or milliseconds since 1970 if the time is outside the years 1 to 9999."""
    headers: list[tuple[str, bytes | None]]


class ConsumerRecords(list[ConsumerRecord]):
    """Records ordered by partition and offset, which can be converted to tables.

    The tables have the columns of Spark's Kafka source. `headers` is null for a record without
    headers.
    """

    def to_arrow(self) -> pa.Table:
        """Return the records as an Arrow table."""
        rows = [
            {
                **record._asdict(),
                "headers": _header_dicts(record),
                "timestamp": _to_milliseconds(record.timestamp),
            }
            for record in self
        ]
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    def to_pandas(self) -> pd.DataFrame:
        """Return the records as a pandas DataFrame.

        Raises:
            ConfigError: pandas is not installed.
        """
        import_extra("testing", "pandas", "to_pandas()")
        return self.to_arrow().to_pandas()

    def to_spark(self, spark: Any) -> Any:
        """Return the records as a DataFrame of a SparkSession."""
        # As rows, because Spark 3.5 accepts no Arrow table; times as numbers, because datetime
        # cannot represent all of them.
        rows = [
            (*record[:5], _to_milliseconds(record.timestamp), record.headers or None)
            for record in self
        ]
        return spark.createDataFrame(rows, _SPARK_SCHEMA).selectExpr(*_SPARK_COLUMNS)


def _header_dicts(record: ConsumerRecord) -> list[dict[str, str | bytes | None]] | None:
    return [{"key": key, "value": value} for key, value in record.headers] or None


def _readable(key: str) -> str:
    return key.encode(errors="surrogateescape").decode(errors="replace")


def _to_datetime(milliseconds: int) -> datetime | int:
    try:
        return _EPOCH + milliseconds * _MILLISECOND
    except OverflowError:
        return milliseconds


def _to_milliseconds(moment: datetime | int) -> int:
    return moment if isinstance(moment, int) else (moment - _EPOCH) // _MILLISECOND


def read_committed(
    topic: str, partition: int, batches: Iterable[bytes | memoryview], end: int
) -> Iterator[ConsumerRecord]:
    """Yield the records below the offset `end` that a read_committed consumer receives, in order.

    Args:
        topic: the topic of the records.
        partition: the number of the partition.
        batches: all batches of the log, including transaction markers.
        end: the last stable offset.
    """
    committed = CommittedRecords()
    for batch in batches:
        committed.add(batch, BatchHeader.parse(batch))
    for record in committed.take():
        if record.offset < end:
            yield consumer_record(topic, partition, record)


def consumer_record(topic: str, partition: int, record: Record) -> ConsumerRecord:
    """Convert a decoded record to a `ConsumerRecord`.

    As in Java's consumer, invalid UTF-8 in a header's key is replaced by U+FFFD.
    """
    return ConsumerRecord(
        key=record.key,
        value=record.value,
        topic=topic,
        partition=partition,
        offset=record.offset,
        timestamp=_to_datetime(record.timestamp),
        headers=[(_readable(key), value) for key, value in record.headers],
    )
