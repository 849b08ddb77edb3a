"""What a consumer would read of a topic, as a list, for pandas and for Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import pyarrow as pa

from spark_kafka_sink.common.extras import import_extra
from spark_kafka_sink.records.decoder import read_marker, read_records
from spark_kafka_sink.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from spark_kafka_sink.records.decoder import Record

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_COLUMNS: Final[list[tuple[str, pa.DataType]]] = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("ms", "UTC")),
    ("headers", pa.list_(_HEADER)),
]
SCHEMA: Final = pa.schema(_COLUMNS)
"""The columns of Spark's own Kafka source with `includeHeaders`, but for `timestampType`.

Timestamps have Kafka's milliseconds, as microseconds do not hold all of them.
"""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class ConsumerRecord(NamedTuple):
    """A record with the place where it lies."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: datetime | int
    """With the time zone UTC; outside the years 1 to 9999 the milliseconds since 1970."""
    headers: list[tuple[str, bytes | None]]


class _Session(Protocol):
    """What is needed of a SparkSession."""

    def createDataFrame(self, data: Any, /) -> Any:  # noqa: N802
        """A frame of rows."""


class ConsumerRecords(list[ConsumerRecord]):
    """Records by partition and offset; as a table, too, with the columns of Spark's Kafka source.

    `headers` is null there for a record that has none.
    """

    def to_arrow(self) -> pa.Table:
        """The records as columns."""
        rows = [
            {**each._asdict(), "headers": _pairs(each), "timestamp": _milliseconds(each.timestamp)}
            for each in self
        ]
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def to_pandas(self) -> pd.DataFrame:
        """The same for pandas.

        Raises:
            ConfigError: pandas is not installed.
        """
        import_extra("testing", "pandas", "to_pandas()")
        return self.to_arrow().to_pandas()

    def to_spark(self, spark: _Session) -> Any:
        """The same as a DataFrame of a session's."""
        return spark.createDataFrame(self.to_arrow())


def _pairs(record: ConsumerRecord) -> list[dict[str, str | bytes | None]] | None:
    return [{"key": key, "value": value} for key, value in record.headers] or None


def _moment(milliseconds: int) -> datetime | int:
    try:
        return _EPOCH + milliseconds * _MILLISECOND
    except OverflowError:
        return milliseconds


def _milliseconds(moment: datetime | int) -> int:
    return moment if isinstance(moment, int) else (moment - _EPOCH) // _MILLISECOND


def read_committed(
    topic: str, partition: int, batches: Iterable[bytes | memoryview], end: int
) -> Iterator[ConsumerRecord]:
    """The records below the offset `end` that a read_committed consumer gets, by offset.

    Args:
        topic: where they lie.
        partition: its number.
        batches: the whole log, batch by batch, markers of transactions included.
        end: the last stable offset.
    """
    committed: list[Record] = []
    pending: dict[int, list[Record]] = {}
    for batch in batches:
        header = BatchHeader.parse(batch)
        if header.is_control:
            marker = read_marker(batch, header)
            ended = [] if marker is None else pending.pop(marker.producer_id, [])
            committed += ended if marker is not None and marker.commit else []
        elif header.is_transactional:
            pending.setdefault(header.producer_id, []).extend(read_records(batch))
        else:
            committed += read_records(batch)
    for record in sorted(committed, key=lambda each: each.offset):
        if record.offset < end:
            yield ConsumerRecord(
                key=record.key,
                value=record.value,
                topic=topic,
                partition=partition,
                offset=record.offset,
                timestamp=_moment(record.timestamp),
                headers=list(record.headers),
            )
