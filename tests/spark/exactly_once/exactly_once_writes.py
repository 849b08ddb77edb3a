"""Exactly-once batch writes and reads with read_committed."""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.report.file_storage import read_report
from tests.spark.support.sink import Sink
from tools.support.readers import numbers_in

GUARANTEE = "exactly-once"


def options(prefix: str, **more: str) -> dict[str, str]:
    """Return the options for exactly-once."""
    return {"deliveryGuarantee": GUARANTEE, "transactionalIdPrefix": prefix, **more}


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """Writes batches to one topic, whose name is also the prefix."""

    sink: Sink
    topic: str
    folder: Path

    @property
    def options(self) -> dict[str, str]:
        """Return all options of a write."""
        servers = {"kafka.bootstrap.servers": self.sink.bootstrap_servers, "topic": self.topic}
        report = {"reportPath": str(self.folder / "report.json")}
        return servers | report | options(self.topic)

    def numbers(self, start: int, end: int, tasks: int = 3) -> DataFrame:
        """Return rows with the numbers from start to end, in `tasks` tasks."""
        frame = self.sink.spark.range(start, end, 1, tasks)
        return frame.selectExpr("CAST(id AS STRING) AS value")

    def write(self, frame: DataFrame, **more: str) -> DeliveryReport:
        """Append the frame; double underscores in option names become dots."""
        named = {name.replace("__", "."): value for name, value in more.items()}
        self.sink.append(frame, self.options | named)
        return self.report()

    def by_column(self, frame: DataFrame, **more: str) -> None:
        """Append a frame with a topic column."""
        options = {name: value for name, value in self.options.items() if name != "topic"}
        self.sink.append(frame, options | more)

    def report(self) -> DeliveryReport:
        """Return the report of the last write."""
        return DeliveryReport.from_json(read_report(str(self.folder / "report.json")))

    def read(self) -> list[int]:
        """Return the committed numbers in the topic, sorted."""
        return numbers_in(self.sink.bootstrap_servers, self.topic)
