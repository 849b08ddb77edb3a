"""The write methods of DataFrameWriter and DataFrameWriterV2."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_kafka_sink import ColumnError, last_report, write
from spark_kafka_sink.report.write_status import WriteStatus
from tests.spark.write_methods.write_method import (
    NO_OPTIONS,
    OURS,
    OVERWRITE,
    PARTITIONING,
    ROWS,
    Write,
    WriteMethod,
)


def _write(w: Write) -> None:
    """Check that the returned report is that of `last_report`."""
    assert write(w.frame(), w.options) == w.check_report()


def _write_in_threads(w: Write) -> None:
    """Write in two threads at the same time, without `register`."""
    halves = [w.frame().where(f"CAST(value AS INT) % 2 = {half}") for half in range(2)]
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(write, halves, [w.options] * 2))
    assert sum(report.persisted for report in reports) == ROWS


def _write_a_bad_row(w: Write) -> None:
    """Check that the error has its attributes and Spark's exception as its cause."""
    with pytest.raises(ColumnError) as caught:
        write(w.frame().selectExpr("value", "7 AS partition"), w.options)
    error = caught.value
    assert (error.topic, error.partition) == (w.topic, 7)
    assert "leave it null" in (error.hint or "")
    assert isinstance(error.__cause__, PySparkException)
    assert last_report().error.startswith("ColumnError: row 0 of Spark partition")
    raise error


def _write_exactly_once(w: Write) -> None:
    """Write the same batch twice."""
    options = w.exactly_once_options | {"batchId": "1"}
    outcomes = [write(w.frame(), options).transaction_outcome for _ in range(2)]
    assert outcomes == ["committed", "already written"]


def _write_empty(w: Write, options: dict[str, str]) -> None:
    """Write a DataFrame for which Spark starts no task."""
    report = write(w.frame().where("false"), options)
    assert (report.status, report.persisted) == (WriteStatus.SUCCEEDED, 0)


WRITES = (
    WriteMethod("write", _write),
    WriteMethod("write-in-threads", _write_in_threads),
    WriteMethod("write-a-bad-row", _write_a_bad_row, error="specifies a partition"),
    WriteMethod("write-exactly-once", _write_exactly_once, transactional=True),
    WriteMethod("write-empty", lambda w: _write_empty(w, w.options), rows=0),
    WriteMethod(
        "write-empty-exactly-once", lambda w: _write_empty(w, w.exactly_once_options), rows=0
    ),
    WriteMethod(
        "write-names-with-dots",
        lambda w: write(w.frame().selectExpr("1 AS `a.b`", "value", "2 AS `A.b`"), w.options),
    ),
    WriteMethod(
        "write-a-misspelled-option",
        lambda w: write(w.frame(), w.options | {"topick": "t"}),
        error="unknown option topick. Did you mean topic",
    ),
    WriteMethod(
        "write-a-stream", lambda w: write(w.rate(), w.options), error="the DataFrame is a stream"
    ),
)


def _save(w: Write, frame: DataFrame) -> None:
    frame.write.format(OURS).mode("append").options(**w.options).save()


def _value_table(w: Write) -> Write:
    """Create a table with the column `value` and without options."""
    return w.sql("CREATE TABLE {t} (value STRING) USING kafkaprod")


BATCH = (
    *WRITES,
    WriteMethod("save", lambda w: (w.writer().save(), w.check_report())),
    WriteMethod(
        "save-a-bad-row",
        lambda w: _save(w, w.frame().selectExpr("value", "7 AS partition")),
        error=r"ColumnError \S+-save-a-bad-row 7$",
    ),
    WriteMethod(
        "save-exactly-once",
        lambda w: w.writer().options(**w.exactly_once_options, batchId="1").save(),
        transactional=True,
    ),
    WriteMethod(
        "save-as-table-exactly-once-twice",
        lambda w: (
            w.writer().options(**w.exactly_once_options, batchId="1").saveAsTable(w.table),
            w.writer().options(**w.exactly_once_options, batchId="1").saveAsTable(w.table),
        ),
        transactional=True,
    ),
    WriteMethod("save-to-a-path", lambda w: w.writer().save("somewhere")),
    WriteMethod(
        "save-format-argument",
        lambda w: w.frame().write.save(format=OURS, mode="append", **w.options),
    ),
    WriteMethod("save-no-rows", lambda w: _save(w, w.frame(0)), rows=0),
    WriteMethod("save-an-empty-relation", lambda w: _save(w, w.frame().where("false")), rows=0),
    WriteMethod("save-more-tasks-than-rows", lambda w: _save(w, w.frame(3, 8)), rows=3),
    WriteMethod("save-limit", lambda w: _save(w, w.frame().limit(7)), rows=7),
    WriteMethod("save-union", lambda w: _save(w, w.frame().union(w.frame())), rows=2 * ROWS),
    WriteMethod("save-default-mode", lambda w: w.writer(None).save(), error="Append"),
    WriteMethod("save-ignore", lambda w: w.writer("ignore").save(), error='"Append"'),
    WriteMethod("save-errorifexists", lambda w: w.writer("error").save(), error='"Append"'),
    WriteMethod("save-overwrite", lambda w: w.writer("overwrite").save(), error=OVERWRITE),
    WriteMethod(
        "save-partition-by", lambda w: w.writer().partitionBy("value").save(), error=PARTITIONING
    ),
    WriteMethod(
        "save-bucket-by", lambda w: w.writer().bucketBy(2, "value").save(), error="(?i)bucket"
    ),
    WriteMethod("save-sort-by", lambda w: w.writer().sortBy("value").save(), error="(?i)sort"),
    WriteMethod(
        "save-cluster-by", lambda w: w.writer().clusterBy("value").save(), error="(?i)cluster"
    ),
    WriteMethod("save-as-table", lambda w: w.writer().saveAsTable(w.table)),
    WriteMethod(
        "save-as-table-again",
        lambda w: (w.writer().saveAsTable(w.table), w.writer().saveAsTable(w.table)),
        rows=2 * ROWS,
    ),
    WriteMethod("save-as-table-default-mode", lambda w: w.writer(None).saveAsTable(w.table)),
    WriteMethod(
        "save-as-table-overwrite",
        lambda w: w.writer("overwrite").saveAsTable(w.table),
        error=OVERWRITE,
    ),
    WriteMethod("save-as-table-ignore", lambda w: w.writer("ignore").saveAsTable(w.table)),
    WriteMethod(
        "save-as-table-partition-by", lambda w: w.writer().partitionBy("value").saveAsTable(w.table)
    ),
    WriteMethod(
        "save-as-table-bucket-by", lambda w: w.writer().bucketBy(2, "value").saveAsTable(w.table)
    ),
    WriteMethod(
        "save-as-table-cluster-by", lambda w: w.writer().clusterBy("value").saveAsTable(w.table)
    ),
    WriteMethod(
        "insert-into",
        lambda w: w.make_table().table_rows().write.insertInto(w.table),
        error=NO_OPTIONS,
    ),
    WriteMethod(
        "insert-into-with-options",
        lambda w: _value_table(w).frame().write.options(**w.options).insertInto(w.table),
        error=NO_OPTIONS,
    ),
    WriteMethod(
        "insert-into-without-options",
        lambda w: _value_table(w).frame().write.insertInto(w.table),
        error=NO_OPTIONS,
    ),
    WriteMethod(
        "insert-into-overwrite",
        lambda w: w.make_table().table_rows().write.insertInto(w.table, overwrite=True),
        error=OVERWRITE,
    ),
    WriteMethod(
        "write-to-append",
        lambda w: w.make_table().table_rows().writeTo(w.table).append(),
        error=NO_OPTIONS,
    ),
    WriteMethod(
        "write-to-append-with-options",
        lambda w: _value_table(w).frame().writeTo(w.table).options(**w.options).append(),
    ),
    WriteMethod(
        "write-to-create",
        lambda w: w.frame().writeTo(w.table).using(OURS).options(**w.options).create(),
    ),
    WriteMethod(
        "write-to-create-or-replace",
        lambda w: w.frame().writeTo(w.table).using(OURS).options(**w.options).createOrReplace(),
        error=OVERWRITE,
    ),
    WriteMethod(
        "write-to-replace",
        lambda w: w.make_table().table_rows().writeTo(w.table).using(OURS).replace(),
        error=OVERWRITE,
    ),
    WriteMethod(
        "write-to-overwrite",
        lambda w: w.make_table().table_rows().writeTo(w.table).overwrite(sf.lit(True)),
        error=OVERWRITE,
    ),
    WriteMethod(
        "write-to-overwrite-partitions",
        lambda w: w.make_table().table_rows().writeTo(w.table).overwritePartitions(),
        error=OVERWRITE,
    ),
)
