"""A write method of Spark and its expected result: all rows or an error."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from spark_kafka_sink import DeliveryReport, ReportError, error_of, last_report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROWS = 60
WAIT_S = 240
OURS = "kafkaprod"
PARTITIONING = "partitioning or clustering columns"
NO_OPTIONS = r"the write has no options.*writeTo\(t\).options"
OVERWRITE = "a Kafka topic cannot be overwritten|does not support (dynamic overwrite|overwrite by)"
_tables = itertools.count(1)


@dataclass(slots=True)
class Write:
    """Destination and frames of one write."""

    spark: SparkSession
    servers: str
    topic: str
    folder: Path
    security: dict[str, str] = field(default_factory=dict)
    table: str = field(default_factory=lambda: f"way_{next(_tables)}")

    @property
    def options(self) -> dict[str, str]:
        """Return the options of the sink."""
        return {"kafka.bootstrap.servers": self.servers, "topic": self.topic, **self.security}

    @property
    def exactly_once_options(self) -> dict[str, str]:
        """Return the options of the sink for exactly-once."""
        guarantee = {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": self.topic}
        return self.options | guarantee

    def frame(self, rows: int = ROWS, tasks: int = 3) -> DataFrame:
        """Return rows with a string value."""
        return self.spark.range(0, rows, 1, tasks).selectExpr("CAST(id AS STRING) AS value")

    def writer(self, mode: str | None = "append") -> Any:
        """Return a DataFrameWriter with the sink's options."""
        writer = self.frame().write.format(OURS).options(**self.options)
        return writer if mode is None else writer.mode(mode)

    def check_report(self) -> DeliveryReport:
        """Return the report of the last write; check that any thread of the driver can read it."""
        with ThreadPoolExecutor(1) as pool:
            report = pool.submit(last_report).result()
        if ({part.topic for part in report.partitions}, report.persisted) != ({self.topic}, ROWS):
            raise ReportError(f"it is that of another write: {report!r}")
        return report

    def sql(self, text: str) -> Write:
        """Run a statement; {t} is the table, {o} an OPTIONS clause, {w} a WITH clause."""
        pairs = self.options.items()
        assignments = ", ".join(f"'{name}' '{value}'" for name, value in pairs)
        equal = ", ".join(f"'{name}' = '{value}'" for name, value in pairs)
        self.spark.sql(text.format(t=self.table, o=f"OPTIONS ({assignments})", w=f"WITH ({equal})"))
        return self

    def make_table(self) -> Write:
        """Create the table with its options."""
        return self.sql("CREATE TABLE {t} USING kafkaprod {o}")

    def table_rows(self) -> DataFrame:
        """Return rows with the columns of the table."""
        return self.frame().selectExpr(
            "CAST(NULL AS BINARY) AS key",
            "CAST(value AS BINARY) AS value",
            "CAST(NULL AS STRING) AS topic",
            "CAST(NULL AS INT) AS partition",
            "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
        )

    def files(self) -> DataFrame:
        """Return a stream of two files."""
        source = self.folder / "input"
        if not source.exists():
            source.mkdir(parents=True)
            for number in range(2):
                lines = [f"{number}-{line}\n" for line in range(ROWS // 2)]
                (source / f"{number}.txt").write_text("".join(lines))
        return self.spark.readStream.option("maxFilesPerTrigger", "1").text(str(source))

    def rate(self) -> DataFrame:
        """Return an endless stream from a source that supports continuous mode."""
        rates = self.spark.readStream.format("rate").option("rowsPerSecond", "50")
        return rates.option("numPartitions", "2").load().selectExpr("CAST(value AS STRING) value")

    def stream(self, frame: DataFrame, mode: str, trigger: dict[str, Any]) -> Any:
        """Return a DataStreamWriter; an empty trigger is Spark's default."""
        writer = frame.writeStream.format(OURS).outputMode(mode).options(**self.options)
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        return writer.trigger(**trigger) if trigger else writer


@dataclass(frozen=True, slots=True)
class WriteMethod:
    """A write method.

    `error`: pattern of the expected error, if the method writes no rows. `transactional`: the
    topic also contains transaction markers.
    """

    name: str
    run: Callable[[Write], object]
    _: KW_ONLY
    rows: int = ROWS
    error: str | None = None
    transactional: bool = False


def run_method(method: WriteMethod, write: Write) -> str | None:
    """Write and return the error text, or None if the write succeeded."""
    try:
        method.run(write)
    except Exception as error:  # noqa: BLE001 - any error is a result
        ours = error_of(error)
        text = str(error).partition("JVM stacktrace:")[0]
        shown = f"{text} {type(ours).__name__} {ours.topic} {ours.partition}" if ours else text
        return " ".join(shown.split())
    return None
