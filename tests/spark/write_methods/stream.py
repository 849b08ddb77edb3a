"""The write methods of streams: all triggers and output modes, tables, foreachBatch."""

from collections.abc import Callable
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.utils import is_remote

from spark_kafka_sink import ReportError, last_report, micro_batch_writer
from tests.spark.write_methods.write_method import ROWS, WAIT_S, Write, WriteMethod
from tools.support.waiting import poll

IDENTIFIES_RUNS = pyspark.__version__ >= "4.2"
"""False if foreachBatch with Spark Connect has the session of the user (before SPARK-44462)."""
_TRIGGERS: dict[str, dict[str, Any]] = {
    "default": {},
    "processing-time": {"processingTime": "100 milliseconds"},
    "once": {"once": True},
    "available-now": {"availableNow": True},
}


def run_to_the_end(query: StreamingQuery) -> None:
    """Wait until a query has written both files or has ended.

    Raises:
        TimeoutError: neither happened.
    """

    def has_written() -> bool:
        progress, status = query.lastProgress, query.status
        is_busy = status["isDataAvailable"] or status["isTriggerActive"]
        return progress is not None and progress["batchId"] >= 1 and not is_busy

    try:
        if not poll(lambda: not query.isActive or has_written(), WAIT_S):
            raise TimeoutError(f"still active: {query.status}")
        error = query.exception()
        if error is not None:
            raise error
    finally:
        query.stop()


def _stream(mode: str, trigger: dict[str, Any]) -> Callable[[Write], None]:
    def run(write: Write) -> None:
        frame = write.files()
        if mode == "complete":  # Spark requires an aggregation
            frame = frame.groupBy("value").count()
        run_to_the_end(write.stream(frame, mode, trigger).start())

    return run


def _with_report(write: Write) -> None:
    """Check that the driver has the report of the last micro-batch."""
    query = write.stream(write.files(), "append", {"availableNow": True}).start()
    run_to_the_end(query)
    report = last_report(query)
    if (report.query_id, report.batch_id, report.persisted) != (query.id, 1, ROWS // 2):
        raise ReportError(f"it is that of another write: {report!r}")


def _bad_row(write: Write) -> None:
    frame = write.files().selectExpr("value", "7 AS partition")
    run_to_the_end(write.stream(frame, "append", {"availableNow": True}).start())


def _exactly_once(write: Write) -> None:
    stream = write.stream(write.files(), "append", {"availableNow": True})
    run_to_the_end(stream.options(**write.exactly_once_options).start())


def _continuous_exactly_once(write: Write) -> None:
    stream = write.stream(write.rate(), "append", {"continuous": "1 second"})
    run_to_the_end(stream.options(**write.exactly_once_options).start())


def _continuous(write: Write) -> None:
    run_to_the_end(write.stream(write.rate(), "append", {"continuous": "1 second"}).start())


def _to_table(write: Write) -> None:
    frame = write.files().selectExpr("CAST(value AS BINARY) AS value")
    write.sql("CREATE TABLE {t} (value BINARY) USING kafkaprod")
    run_to_the_end(write.stream(frame, "append", {"availableNow": True}).toTable(write.table))


def _foreach_batch(write: Write) -> None:
    options = write.options

    def each(frame: DataFrame, number: int) -> None:
        frame.write.format("kafkaprod").mode("append").options(**options).save()
        report = last_report()
        if report.persisted != frame.count():
            raise ReportError(f"it is that of another write: {report!r}")

    _write_each_batch(write, each)


def _foreach_batch_exactly_once(write: Write) -> None:
    options = write.exactly_once_options

    def each(frame: DataFrame, number: int) -> None:
        writer = frame.write.format("kafkaprod").mode("append").options(**options)
        writer.option("batchId", str(number)).save()

    _write_each_batch(write, each)


def _foreach_batch_twice(write: Write) -> None:
    """Write two halves with the same number of rows: the second one must not be skipped.

    Except with Spark Connect on PySpark 4.1, as docs/exactly-once.md states.
    """
    options = write.exactly_once_options

    def each(frame: DataFrame, number: int) -> None:
        for remainder in range(2):
            half = frame.where(f"CAST(split(value, '-')[1] AS INT) % 2 = {remainder}")
            writer = half.write.format("kafkaprod").mode("append").options(**options)
            writer.option("batchId", str(number)).save()

    try:
        _write_each_batch(write, each)
    except PySparkException as error:
        if "another write in the same run of foreachBatch" not in str(error):
            raise
    else:
        if IDENTIFIES_RUNS or not is_remote():
            raise ReportError("the second write was not rejected")


def _write_each_batch(write: Write, function: Callable[[DataFrame, int], None]) -> None:
    stream = write.files().writeStream.foreachBatch(function).trigger(availableNow=True)
    run_to_the_end(stream.option("checkpointLocation", str(write.folder / "checkpoint")).start())


STREAMS = (
    *(
        WriteMethod(f"stream-append-{name}", _stream("append", trigger))
        for name, trigger in _TRIGGERS.items()
    ),
    *(
        WriteMethod(f"stream-{mode}-{name}", _stream(mode, _TRIGGERS[name]), error=error)
        for mode, name, error in (
            ("update", "default", "(?i)update"),
            ("complete", "default", "output mode complete.*foreachBatch"),
            ("complete", "available-now", "output mode complete.*foreachBatch"),
        )
    ),
    WriteMethod("stream-continuous", _continuous, error="without writing them.*processingTime"),
    WriteMethod("stream-reported", _with_report),
    WriteMethod("stream-a-bad-row", _bad_row, error=r"ColumnError \S+-stream-a-bad-row 7$"),
    WriteMethod("stream-exactly-once", _exactly_once, transactional=True),
    WriteMethod(
        "stream-continuous-exactly-once",
        _continuous_exactly_once,
        error="without writing them.*processingTime",
    ),
    WriteMethod("stream-to-table", _to_table),
    WriteMethod("stream-for-each-batch", _foreach_batch),
    WriteMethod(
        "stream-micro-batches", lambda w: _write_each_batch(w, micro_batch_writer(w.options))
    ),
    WriteMethod(
        "stream-micro-batches-exactly-once",
        lambda w: _write_each_batch(w, micro_batch_writer(w.exactly_once_options)),
        transactional=True,
    ),
    WriteMethod(
        "stream-for-each-batch-exactly-once", _foreach_batch_exactly_once, transactional=True
    ),
    WriteMethod(
        "stream-for-each-batch-twice", _foreach_batch_twice, rows=ROWS // 4, transactional=True
    ),
)
