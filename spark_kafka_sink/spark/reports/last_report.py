"""`last_report`, also for clients of Spark Connect, which read it with `connect_reports`."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from spark_kafka_sink.common.arguments import SESSION, check_argument
from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.spark.reports.report_folder import ReportFolder, kept_in_process, latest
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES

_HINT = (
    "Set the option reportPath to a location that you can read, and use DeliveryReport.read(path)."
)

_NONE_YET = "A write that fails before its first task has no report."
_NONE_YET_OF_QUERY = (
    "If no task of a micro-batch finished and the checkpoint is not on a disk of the driver, only "
    "the query's name identifies its report: set queryName. For a write within foreachBatch, call "
    "last_report() without a query if no task finished, and within the function with Spark Connect."
)


def is_connect_session(spark: object) -> bool:
    """Return True for a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _server_reports(spark: SparkSession, *, queries: bool) -> list[DeliveryReport]:
    """Return the reports of a Spark Connect session from its server, with a small Spark job.

    Args:
        spark: the Spark session.
        queries: also include streaming queries, from all sessions on the server.

    Raises:
        ReportError: the server does not provide them.
    """
    if not HAS_DATA_SOURCES:
        raise ReportError("PySpark 3.5 cannot read reports with Spark Connect", hint=_HINT)
    from spark_kafka_sink.spark.reports.connect_reports import read_report_rows

    try:
        rows = read_report_rows(spark, queries=queries)
    except PySparkException as error:
        raise ReportError(
            "the Spark Connect server does not provide the delivery reports of the session: "
            f"{error}",
            hint=_HINT,
        ) from error
    return [DeliveryReport.from_json(row.report) for row in rows]


class NamedQuery(Protocol):
    """The attributes of a ``StreamingQuery`` that are used here, with and without Spark Connect."""

    @property
    def id(self) -> str:
        """The query's id, which is stable across restarts from the checkpoint."""

    @property
    def name(self) -> str | None:
        """The query's name, as set with ``queryName``."""


def last_report(
    query: NamedQuery | str | None = None, *, spark: SparkSession | None = None
) -> DeliveryReport:
    """Return the report of the last write that ended, including failed ones.

    A batch write has ended when `save()` returns or raises. A write that failed before its first
    task, for example in an earlier stage, has no report: the previous write's report is returned.

    Args:
        query: a ``StreamingQuery``, or its name or id, to get the report of its latest micro-batch.
        spark: the Spark session; None for the active one. Only needed with Spark Connect.

    Raises:
        ConfigError: an argument is not a query or a Spark session.
        ReportError: there is no report or no Spark session, or a Spark Connect server does not
            provide the report.
    """
    if query is not None and not isinstance(query, str):
        check_argument(
            "last_report(query)",
            query,
            "a StreamingQuery, or its name or id",
            ("id", "name"),
            "Pass a session by keyword: last_report(spark=spark).",
        )
    if spark is not None:
        check_argument("last_report(spark=...)", spark, SESSION, ("createDataFrame",))
    reports = _all_reports(spark, queries=query is not None)
    if isinstance(query, str):
        report = latest(reports, query_id=query) or latest(reports, query_name=query)
    elif query is not None:
        report = latest(reports, query_id=str(query.id), query_name=query.name or "")
    else:
        report = latest(reports)
    if report is None:
        target = "write" if query is None else f"micro-batch of {_query_label(query)}"
        raise ReportError(
            f"no {target} with format('kafkaprod') has ended in this Spark application yet",
            hint=_NONE_YET if query is None else _NONE_YET_OF_QUERY,
        )
    return report


def _all_reports(spark: SparkSession | None, *, queries: bool) -> list[DeliveryReport]:
    remote = is_remote() if spark is None else is_connect_session(spark)
    with suppress(PySparkRuntimeError):  # Without a Spark session, the next line raises.
        if remote:
            kept = _kept_by_client()
            try:
                reports = _server_reports(spark or SparkSession.active(), queries=queries)
            except ReportError:
                if not kept:
                    raise
                return kept
            return reports + kept
    folder = None if remote else ReportFolder.here()
    if folder is None:
        raise ReportError(
            "there is no active Spark session; reports are deleted when their session ends",
            hint="Call last_report() before spark.stop(), or use the option reportPath and "
            "DeliveryReport.read(path).",
        )
    return folder.reports()


def _kept_by_client() -> list[DeliveryReport]:
    """Return the reports of `write` in this process, a client of Spark Connect.

    A client that started its server with `remote("local")` has a SparkContext, and so a folder.
    """
    folder = ReportFolder.here()
    return [*kept_in_process.values(), *(() if folder is None else folder.reports())]


def _query_label(query: NamedQuery | str) -> str:
    return f"query {query if isinstance(query, str) else query.name or query.id}"
