"""The ways of a stream: every trigger, every output mode, tables, foreachBatch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from spark_kafka_sink import ReportError, last_report
from tests.spark.ways.way import ROWS, WAIT_S, Way, Write

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def to_the_end(query: StreamingQuery) -> None:
    """Wait until a query has written both files, or ends by itself.

    Raises:
        TimeoutError: it did neither.
    """
    try:
        deadline = time.monotonic() + WAIT_S
        while query.isActive:
            progress = query.lastProgress
            if (
                progress is not None
                and progress["batchId"] >= 1
                and not query.status["isDataAvailable"]
                and not query.status["isTriggerActive"]
            ):
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"still active: {query.status}")
            time.sleep(0.05)
        error = query.exception()
        if error is not None:
            raise error
    finally:
        query.stop()


def _stream(mode: str, trigger: dict[str, Any]) -> Callable[[Write], None]:
    def act(write: Write) -> None:
        frame = write.files()
        if mode == "complete":  # Spark wants an aggregation
            frame = frame.groupBy("value").count()
        to_the_end(write.stream(frame, mode, trigger).start())

    return act


def _reported(write: Write) -> None:
    """The driver's Python has the report of a query's last micro-batch."""
    query = write.stream(write.files(), "append", {"availableNow": True}).start()
    to_the_end(query)
    report = last_report(query)
    if (report.query_id, report.batch_id, report.persisted) != (query.id, 1, ROWS // 2):
        raise ReportError(f"it is that of another write: {report!r}")


def _bad_row(write: Write) -> None:
    frame = write.files().selectExpr("value", "7 AS partition")
    to_the_end(write.stream(frame, "append", {"availableNow": True}).start())


def _exactly_once(write: Write) -> None:
    stream = write.stream(write.files(), "append", {"availableNow": True})
    to_the_end(stream.options(**write.once).start())


def _continuous_exactly_once(write: Write) -> None:
    stream = write.stream(write.rate(), "append", {"continuous": "1 second"})
    to_the_end(stream.options(**write.once).start())


def _continuous(write: Write) -> None:
    to_the_end(write.stream(write.rate(), "append", {"continuous": "1 second"}).start())


def _to_table(write: Write) -> None:
    frame = write.files().selectExpr("CAST(value AS BINARY) AS value")
    write.sql("CREATE TABLE {t} (value BINARY) USING kafkaprod")
    to_the_end(write.stream(frame, "append", {"availableNow": True}).toTable(write.table))


def _foreach_batch(write: Write) -> None:
    options = write.options

    def each(frame: DataFrame, number: int) -> None:
        frame.write.format("kafkaprod").mode("append").options(**options).save()

    _write_each_batch(write, each)


def _foreach_batch_exactly_once(write: Write) -> None:
    options = write.once

    def each(frame: DataFrame, number: int) -> None:
        writer = frame.write.format("kafkaprod").mode("append").options(**options)
        writer.option("batchId", str(number)).save()

    _write_each_batch(write, each)


def _write_each_batch(write: Write, each: Callable[[DataFrame, int], None]) -> None:
    stream = write.files().writeStream.foreachBatch(each).trigger(availableNow=True)
    to_the_end(stream.option("checkpointLocation", str(write.folder / "checkpoint")).start())


_TRIGGERS: dict[str, dict[str, Any]] = {
    "default": {},
    "processing-time": {"processingTime": "100 milliseconds"},
    "once": {"once": True},
    "available-now": {"availableNow": True},
}

STREAMS = (
    *(
        Way(name=f"stream-append-{name}", act=_stream("append", trigger))
        for name, trigger in _TRIGGERS.items()
    ),
    *(
        Way(name=f"stream-{mode}-{name}", act=_stream(mode, _TRIGGERS[name]), refused=refused)
        for mode, name, refused in (
            ("update", "default", "(?i)update"),
            ("complete", "default", "output mode complete.*append"),
            ("complete", "available-now", "output mode complete.*append"),
        )
    ),
    Way(name="stream-continuous", act=_continuous, refused="without writing them.*processingTime"),
    Way(name="stream-reported", act=_reported),
    Way(name="stream-a-bad-row", act=_bad_row, refused=r"ColumnError \S+-stream-a-bad-row 7$"),
    Way(name="stream-exactly-once", act=_exactly_once, transactional=True),
    Way(
        name="stream-continuous-exactly-once",
        act=_continuous_exactly_once,
        refused="without writing them.*processingTime",
    ),
    Way(name="stream-to-table", act=_to_table),
    Way(name="stream-for-each-batch", act=_foreach_batch),
    Way(
        name="stream-for-each-batch-exactly-once",
        act=_foreach_batch_exactly_once,
        transactional=True,
    ),
)
