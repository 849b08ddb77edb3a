"""A streaming write of files, with its checkpoint, reports and records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.report.storage import read_report
from tools.support.readers import by_confluent

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from tests.spark.support.sink import Sink

WAIT_S = 240


@dataclass(frozen=True, slots=True)
class Stream:
    """A streaming write with a checkpoint and a report folder."""

    sink: Sink
    folder: Path
    topic: str

    def start(self, frame: DataFrame, mode: str = "append", **options: Any) -> StreamingQuery:
        """Start a query; `trigger` contains the arguments of `DataStreamWriter.trigger`."""
        trigger = options.pop("trigger", {"availableNow": True})
        writer = frame.writeStream.format("kafkaprod").outputMode(mode).trigger(**trigger)
        writer = writer.option("kafka.bootstrap.servers", self.sink.bootstrap_servers)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        writer = writer.option("reportPath", str(self.folder / "reports"))
        return writer.options(topic=self.topic, **options).start()

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
