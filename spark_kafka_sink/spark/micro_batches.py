"""`micro_batch_writer`: write the micro-batches of a stream from `foreachBatch`.

`DataStreamWriter.start` rejects the output mode `update` for every Python data source, but not for
`foreachBatch`. Spark then also starts no Python workers to plan and commit a micro-batch.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from spark_kafka_sink.common.arguments import options_as_text
from spark_kafka_sink.common.errors import ConfigError, ReportError
from spark_kafka_sink.config.exactly_once import DeliveryGuarantee
from spark_kafka_sink.spark.reports import report_paths
from spark_kafka_sink.spark.reports.report_folder import ReportFolder
from spark_kafka_sink.spark.runtime.internals import QUERY_ID
from spark_kafka_sink.spark.write import write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LOG = logging.getLogger(__name__)
_BATCH_ID = "batchid"
_GUARANTEE = "deliveryguarantee"
_REPORT = "reportpath"


def micro_batch_writer(
    options: Mapping[str, Any], *batch_id: object
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes each micro-batch with these options.

    With output mode update, each micro-batch contains the rows that have changed::

        counts.writeStream.outputMode("update").foreachBatch(micro_batch_writer(kafka)).start()

    `reportPath` has the same meaning as for a stream: if two queries of an application use the same
    path, the second query gets a subfolder, except with Spark Connect. If a report cannot be
    written, the first micro-batch fails, and later ones continue without a report. With
    `deliveryGuarantee=exactly-once`, the number of the micro-batch is the `batchId`.

    Args:
        options: the options of `format("kafkaprod")`, with names in any case.
        batch_id: passed only by `foreachBatch(micro_batch_writer)`, which is an error.

    Raises:
        ConfigError: `batchId` is set, or the options are not a dict of names and values.
    """
    if batch_id:
        raise ConfigError(
            "foreachBatch needs the function that micro_batch_writer(options) returns",
            hint="Use .foreachBatch(micro_batch_writer(options)).",
        )
    texts = options_as_text("micro_batch_writer(options)", options)
    options_by_name = {name.lower(): value for name, value in texts.items()}
    if not options_by_name.get(_REPORT, "").strip():
        options_by_name.pop(_REPORT, None)
    if _BATCH_ID in options_by_name:
        raise ConfigError(
            "option batchId is not allowed: Spark provides the id of each micro-batch",
            hint="Remove it.",
        )

    is_first = True

    def write_micro_batch(frame: DataFrame, batch_id: int) -> None:
        nonlocal is_first
        own_options = _with_own_reports(options_by_name, frame)
        path = own_options.get(_REPORT)
        try:
            report = write(frame, _batch_options(own_options, batch_id))
        except ReportError as error:  # Raised by planning, before any task.
            if is_first:
                raise
            _LOG.warning("micro-batch %d has no report: %s", batch_id, error)
            without_path = {name: own_options[name] for name in own_options if name != _REPORT}
            report = write(frame, _batch_options(without_path, batch_id))
        is_first = False
        if path is not None:
            from spark_kafka_sink.spark.reports import publication  # only for reportPath

            publication.delete_reports_of_foreach_batch(report, path)

    return write_micro_batch


def _with_own_reports(options_by_name: dict[str, str], frame: DataFrame) -> dict[str, str]:
    """Return the options with a report path that no other query of the application uses."""
    path = options_by_name.get(_REPORT)
    folder = ReportFolder.here()
    query = _query_of(frame)
    if path is None or folder is None or not query:
        return options_by_name
    own_path = report_paths.own_report_path(
        path, report_paths.StreamIdentity("", query), folder.application
    )
    if own_path != path:
        report_paths.warn_of_own_path(path, own_path, folder.application)
    return {**options_by_name, _REPORT: own_path}


def _query_of(frame: DataFrame) -> str:
    """Return the query id of this micro-batch; empty with Spark Connect, which hides it."""
    session = getattr(frame, "sparkSession", None)
    if not isinstance(session, SparkSession):
        return ""
    return session.sparkContext.getLocalProperty(QUERY_ID) or ""


def _batch_options(options_by_name: Mapping[str, str], batch_id: int) -> dict[str, str]:
    """Return the options of one micro-batch, with lower-case names."""
    options = dict(options_by_name)
    if _REPORT in options:
        options[_REPORT] = report_paths.micro_batch_path(options[_REPORT], batch_id)
    if options.get(_GUARANTEE, "").strip() == DeliveryGuarantee.EXACTLY_ONCE:
        options[_BATCH_ID] = str(batch_id)
    return options
