"""How a client of Spark Connect gets the reports of its session: through a data source.

The server's folder of the session is no folder of the client. A data source is planned in a Python
worker beside the driver, as writes are, so that it finds the reports there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.spark.reports.report_folder import ReportFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_HINT = "Set the option reportPath to a place that you can read, and use DeliveryReport.read(path)."


class SessionReports(DataSource):
    """One row for each report that the session has."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return "kafkaprod_reports"

    def schema(self) -> str:
        """The reports as JSON."""
        return "report string"

    def reader(self, schema: StructType) -> _Reader:  # noqa: ARG002
        """Made beside the driver."""
        return _Reader()


class _Reader(DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        """Called beside the driver, so that the reports go to the task with its partition."""
        folder = ReportFolder.here()
        found = [] if folder is None else folder.reports()
        return [InputPartition([each.to_json(compact=True) for each in found])]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        for report in partition.value:
            yield (report,)


def session_reports(spark: SparkSession) -> list[DeliveryReport]:
    """The reports of a session of Spark Connect; runs a small job.

    Raises:
        ReportError: the server does not give them.
    """
    try:
        spark.dataSource.register(SessionReports)
        rows = spark.read.format(SessionReports.name()).load().collect()
    except PySparkException as error:
        raise ReportError(
            f"the Spark Connect server does not give the session's delivery reports: {error}",
            hint=_HINT,
        ) from error
    return [DeliveryReport.from_json(row.report) for row in rows]
