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

    from pyspark.sql import Row, SparkSession
    from pyspark.sql.types import StructType

_QUERIES = "queries"
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
        return _Reader(queries=self.options.get(_QUERIES) == "true")


class _Reader(DataSourceReader):
    def __init__(self, *, queries: bool) -> None:
        self._queries = queries

    def partitions(self) -> Sequence[InputPartition]:
        """Called beside the driver, so that the reports go to the task with its partition."""
        folder = ReportFolder.here()
        found = [] if folder is None else folder.reports(queries=self._queries)
        return [InputPartition([each.to_json(compact=True) for each in found])]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        for report in partition.value:
            yield (report,)


def is_connect_session(spark: object) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def session_reports(spark: SparkSession, *, queries: bool) -> list[DeliveryReport]:
    """The reports of a session of Spark Connect; runs a small job.

    Args:
        spark: the session.
        queries: also those of streaming queries, of all sessions of the server.

    Raises:
        ReportError: the server does not give them.
    """
    try:
        spark.dataSource.register(SessionReports)
        rows = _read(spark, queries=queries)
    except PySparkException as error:
        raise ReportError(
            f"the Spark Connect server does not give the session's delivery reports: {error}",
            hint=_HINT,
        ) from error
    return [DeliveryReport.from_json(row.report) for row in rows]


def _read(spark: SparkSession, *, queries: bool) -> list[Row]:
    reader = spark.read.format(SessionReports.name())
    return reader.option(_QUERIES, str(queries).lower()).load().collect()
