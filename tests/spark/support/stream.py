"""A streaming write of files, with its checkpoint, reports and records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink import DeliveryReport, micro_batch_writer
from spark_kafka_sink.report.file_storage import read_report
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES
from tools.support.readers import by_confluent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tests.spark.support.sink import Sink

WAIT_S = 240


def start_stream(
    writer: DataStreamWriter, options: Mapping[str, Any], *, by_format: bool = HAS_DATA_SOURCES
) -> StreamingQuery:
    """Start a query with the format, or with `micro_batch_writer`, as on PySpark 3.5."""
    if by_format:
        return writer.format("kafkaprod").options(**options).start()
    named = dict(options)
    if "queryName" in named:
        writer = writer.queryName(named.pop("queryName"))
    return writer.foreachBatch(micro_batch_writer(named)).start()


@dataclass(frozen=True, slots=True)
class Stream:
    """A streaming write with a checkpoint and a report folder."""

    sink: Sink
    folder: Path
    topic: str
    by_format: bool = HAS_DATA_SOURCES

    def start(self, frame: DataFrame, mode: str = "append", **options: Any) -> StreamingQuery:
        """Start a query; `trigger` contains the arguments of `DataStreamWriter.trigger`."""
        trigger = options.pop("trigger", {"availableNow": True})
        writer = frame.writeStream.outputMode(mode).trigger(**trigger)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        named = {
            "kafka.bootstrap.servers": self.sink.bootstrap_servers,
            "reportPath": str(self.folder / "reports"),
            "topic": self.topic,
            **options,
        }
        return start_stream(writer, named, by_format=self.by_format)

    def run(self, frame: DataFrame, **options: Any) -> None:
        """Run a query until it ends."""
        query = self.start(frame, **options)
        try:
            assert query.awaitTermination(WAIT_S), "the query did not end"
        finally:
            query.stop()

    def reports(self) -> list[DeliveryReport]:
        """Return the reports of all micro-batches, in order."""
        paths = sorted((self.folder / "reports").glob("batch-*.json"))
        return [DeliveryReport.from_json(read_report(str(path))) for path in paths]

    def put(self, name: str, lines: list[str]) -> None:
        """Add a file to the file source atomically."""
        (self.folder / "input").mkdir(exist_ok=True)
        (self.folder / f"{name}.part").write_text("".join(f"{line}\n" for line in lines))
        (self.folder / f"{name}.part").rename(self.folder / "input" / name)

    def files(self) -> DataFrame:
        """Return the file source with one file per micro-batch."""
        reader = self.sink.spark.readStream.option("maxFilesPerTrigger", "1")
        return reader.text(str(self.folder / "input"))

    def written(self) -> list[bytes | None]:
        """Return all values in the topic, by partition and offset."""
        return [r.value for r in by_confluent(self.sink.bootstrap_servers, self.topic)]
