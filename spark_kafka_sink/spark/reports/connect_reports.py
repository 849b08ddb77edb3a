"""A data source that reads the reports of a Spark Connect session.

A client of Spark Connect cannot read the Spark session's folder on the server. Like a write, this
data source is planned in a Python worker on the driver, which can read the folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from spark_kafka_sink.spark.reports.report_folder import ReportFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Row, SparkSession
    from pyspark.sql.types import StructType

_QUERIES = "queries"


class _ConnectReports(DataSource):
    """A data source with one row for each report of the session."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format(...)``."""
        return "kafkaprod_reports"

    def schema(self) -> str:
        """Return the schema: one column with the reports as JSON."""
        return "report string"

    def reader(self, schema: StructType) -> _ReportReader:  # noqa: ARG002
        """Return the reader; called on the driver."""
        return _ReportReader(queries=self.options.get(_QUERIES) == "true")


class _ReportReader(DataSourceReader):
    def __init__(self, *, queries: bool) -> None:
        self._queries = queries

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition that contains the reports, which are already read on the driver."""
        folder = ReportFolder.here()
        reports = [] if folder is None else folder.reports(queries=self._queries)
        return [InputPartition([report.to_json(compact=True) for report in reports])]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        for report in partition.value:
            yield (report,)


def read_report_rows(spark: SparkSession, *, queries: bool) -> list[Row]:
    """Return one row for each report of the session, and of the server's queries if requested."""
    spark.dataSource.register(_ConnectReports)
    reader = spark.read.format(_ConnectReports.name())
    return reader.option(_QUERIES, str(queries).lower()).load().collect()
