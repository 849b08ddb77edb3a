"""Batch writes with exactly-once, and what a read_committed reader sees of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.report.storage import read_report
from tools.support.readers import by_confluent

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from tests.spark.support.sink import Sink

GUARANTEE = "exactly-once"


def options(prefix: str, **more: str) -> dict[str, str]:
    """The options of the guarantee."""
    return {"deliveryGuarantee": GUARANTEE, "transactionalIdPrefix": prefix, **more}


@dataclass(frozen=True, slots=True)
class ExactlyOnce:
    """Batch writes to one topic; the prefix is the topic's name."""

    sink: Sink
    topic: str
    folder: Path

    @property
    def options(self) -> dict[str, str]:
        """All that a write needs."""
        servers = {"kafka.bootstrap.servers": self.sink.bootstrap_servers, "topic": self.topic}
        report = {"reportPath": str(self.folder / "report.json")}
        return servers | report | options(self.topic)

    def numbers(self, start: int, end: int, tasks: int = 3) -> DataFrame:
        """Rows whose values are the numbers from start to end, in as many tasks."""
        frame = self.sink.spark.range(start, end, 1, tasks)
        return frame.selectExpr("CAST(id AS STRING) AS value")

    def write(self, frame: DataFrame, **more: str) -> DeliveryReport:
        """Append the frame; a name's double underscores stand for dots."""
        named = {name.replace("__", "."): value for name, value in more.items()}
        frame.write.format("kafkaprod").mode("append").options(**self.options, **named).save()
        return self.report()

    def by_column(self, frame: DataFrame, **more: str) -> None:
        """Append a frame whose rows name their topics."""
        options = {name: value for name, value in self.options.items() if name != "topic"}
        frame.write.format("kafkaprod").mode("append").options(**options, **more).save()

    def report(self) -> DeliveryReport:
        """Of the last write."""
        return DeliveryReport.from_json(read_report(str(self.folder / "report.json")))

    def read(self) -> list[int]:
        """The numbers that a read_committed reader finds, sorted."""
        return committed_numbers(self.sink.bootstrap_servers, self.topic)


def committed_numbers(servers: str, topic: str) -> list[int]:
    """The numbers that a read_committed reader, librdkafka by default, finds in a topic, sorted."""
    return sorted(int(record.value or b"") for record in by_confluent(servers, topic))
