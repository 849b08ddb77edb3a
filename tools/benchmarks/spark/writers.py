"""How each contestant writes a DataFrame to a topic; the null sink is what all could reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import KafkaException, Producer
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    Write = Callable[[DataFrame, str, dict[str, str]], None]

_POLL_EVERY = 1000


def kafkaprod(frame: DataFrame, topic: str, options: dict[str, str]) -> None:
    """This sink."""
    _by_format("kafkaprod", frame, topic, options)


def jvm(frame: DataFrame, topic: str, options: dict[str, str]) -> None:
    """Spark's own sink."""
    _by_format("kafka", frame, topic, options)


def null(frame: DataFrame, topic: str, options: dict[str, str]) -> None:
    """A Python sink that takes the Arrow batches and throws them away."""
    frame.sparkSession.dataSource.register(NullDataSource)
    frame.write.format("bench-null").mode("append").save()


def noop(frame: DataFrame, topic: str, options: dict[str, str]) -> None:
    """Spark's sink that reads every row and keeps none."""
    frame.write.format("noop").mode("overwrite").save()


def confluent(frame: DataFrame, topic: str, options: dict[str, str]) -> None:
    """confluent-kafka in mapInArrow, one produce() a row: what people write by hand."""

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _produce(batches, topic, options)

    failed = sum(row.failed for row in frame.mapInArrow(send, "failed long").collect())
    if failed:
        raise RuntimeError(f"confluent-kafka did not deliver {failed} records")


WRITERS: dict[str, Write] = {
    "kafkaprod": kafkaprod,
    "jvm": jvm,
    "confluent": confluent,
    "null": null,
    "noop": noop,
}


def _by_format(name: str, frame: DataFrame, topic: str, options: dict[str, str]) -> None:
    writer = frame.write.format(name).mode("append")
    if topic:
        writer = writer.option("topic", topic)
    for key, value in options.items():
        writer = writer.option(f"kafka.{key}", value)
    writer.save()


def _produce(
    batches: Iterator[pa.RecordBatch], topic: str, options: dict[str, str]
) -> pa.RecordBatch:
    failed = 0

    def delivered(error: KafkaException | None, message: Any) -> None:
        nonlocal failed
        failed += error is not None

    producer = Producer({**options, "on_delivery": delivered})
    for batch in batches:
        for number, value in enumerate(batch.column("value").to_pylist()):
            _send(producer, topic, value)
            if number % _POLL_EVERY == 0:
                producer.poll(0)
    failed += producer.flush()
    return pa.RecordBatch.from_pydict({"failed": pa.array([failed], pa.int64())})


def _send(producer: Producer, topic: str, value: str | None) -> None:
    while True:
        try:
            producer.produce(topic, value)
        except BufferError:
            producer.poll(0.01)
        else:
            return


class NullDataSource(DataSource):
    """Where `null` writes to."""

    @classmethod
    def name(cls) -> str:
        return "bench-null"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002
        return _NullWriter()


class _NullWriter(DataSourceArrowWriter):
    def write(  # type: ignore[override]  # Declared for rows, called with Arrow batches.
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
