"""Writes from `foreachBatch`: the way of a stream in update mode, which Spark gives no Python sink.

`DataStreamWriter.start` refuses the output mode `update` for every Python data source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from spark_kafka_sink.common.arguments import check_options
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.exactly_once import DeliveryGuarantee
from spark_kafka_sink.spark.reports.report_folder import ReportFolder
from spark_kafka_sink.spark.reports.stream_reports import (
    StreamIdentity,
    micro_batch_path,
    own_report_path,
    warn_of_own_path,
)
from spark_kafka_sink.spark.session_conf import QUERY_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

_BATCH_ID, _GUARANTEE, _REPORT = "batchid", "deliveryguarantee", "reportpath"


def micro_batch_writer(options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that writes each micro-batch with these options.

    Of a query whose output mode is update, each batch has the rows that have changed::

        counts.writeStream.outputMode("update").foreachBatch(micro_batch_writer(kafka)).start()

    `reportPath` means what it means to a stream: of two queries of an application that name the
    same one, the second gets a subfolder, except with Spark Connect. With
    `deliveryGuarantee=exactly-once` the micro-batch's number is the `batchId`.

    Args:
        options: those of `format("kafkaprod")`, names in any case.

    Raises:
        ConfigError: there is a `batchId`, or the options are no dict of names and values.
    """
    check_options("micro_batch_writer(options)", options)
    given = {name.lower(): _text(value) for name, value in options.items()}
    if _BATCH_ID in given:
        raise ConfigError(
            "option batchId: each micro-batch has a number of its own", hint="Leave it out."
        )

    def write(frame: DataFrame, batch_id: int) -> None:
        of_batch = batch_options(_with_own_reports(given, frame), batch_id)
        frame.write.format("kafkaprod").options(**of_batch).mode("append").save()

    return write


def _with_own_reports(given: dict[str, str], frame: DataFrame) -> dict[str, str]:
    """The options, with a place for reports that no other query of the application has."""
    path, folder, query = given.get(_REPORT), ReportFolder.here(), _query_of(frame)
    if path is None or folder is None or not query:
        return given
    own = own_report_path(path, StreamIdentity("", query), folder.application)
    if own != path:
        warn_of_own_path(path, own, folder.application)
    return {**given, _REPORT: own}


def _query_of(frame: DataFrame) -> str:
    """The id of the query whose micro-batch this is; empty with Spark Connect, which hides it."""
    session = getattr(frame, "sparkSession", None)
    if not isinstance(session, SparkSession):
        return ""
    return session.sparkContext.getLocalProperty(QUERY_ID) or ""


def _text(value: object) -> str:
    """As Spark's `option` takes values."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def batch_options(given: Mapping[str, str], batch_id: int) -> dict[str, str]:
    """The options of one micro-batch, by lower-case names."""
    options = dict(given)
    if _REPORT in options:
        options[_REPORT] = micro_batch_path(options[_REPORT], batch_id)
    if options.get(_GUARANTEE, "").strip() == DeliveryGuarantee.EXACTLY_ONCE:
        options[_BATCH_ID] = str(batch_id)
    return options
