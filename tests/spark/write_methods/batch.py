"""The write methods of DataFrameWriter and DataFrameWriterV2."""

from __future__ import annotations

from pyspark.sql import functions as sf

from tests.spark.write_methods.write_method import (
    NO_OPTIONS,
    OURS,
    OVERWRITE,
    PARTITIONING,
    ROWS,
    WriteMethod,
)

BATCH = (
    WriteMethod(name="save", run=lambda w: (w.writer().save(), w.check_report())),
    WriteMethod(
        name="save-a-bad-row",
        run=lambda w: (
            w.frame()
            .selectExpr("value", "7 AS partition")
            .write.format(OURS)
            .options(**w.options)
            .mode("append")
            .save()
        ),
        error=r"ColumnError \S+-save-a-bad-row 7$",
    ),
    WriteMethod(
        name="save-exactly-once",
        transactional=True,
        run=lambda w: w.writer().options(**w.exactly_once_options, batchId="1").save(),
    ),
    WriteMethod(
        name="save-as-table-exactly-once-twice",
        transactional=True,
        run=lambda w: (
            w.writer().options(**w.exactly_once_options, batchId="1").saveAsTable(w.table),
            w.writer().options(**w.exactly_once_options, batchId="1").saveAsTable(w.table),
        ),
    ),
    WriteMethod(name="save-to-a-path", run=lambda w: w.writer().save("somewhere")),
    WriteMethod(
        name="save-format-argument",
        run=lambda w: w.frame().write.save(format=OURS, mode="append", **w.options),
    ),
    WriteMethod(
        name="save-no-rows",
        run=lambda w: w.frame(0).write.format(OURS).mode("append").options(**w.options).save(),
        rows=0,
    ),
    WriteMethod(
        name="save-an-empty-relation",
        rows=0,
        run=lambda w: (
            w.frame().where("false").write.format(OURS).mode("append").options(**w.options).save()
        ),
    ),
    WriteMethod(
        name="save-more-tasks-than-rows",
        run=lambda w: w.frame(3, 8).write.format(OURS).mode("append").options(**w.options).save(),
        rows=3,
    ),
    WriteMethod(
        name="save-limit",
        run=lambda w: (
            w.frame().limit(7).write.format(OURS).mode("append").options(**w.options).save()
        ),
        rows=7,
    ),
    WriteMethod(
        name="save-union",
        run=lambda w: (
            w.frame().union(w.frame()).write.format(OURS).mode("append").options(**w.options).save()
        ),
        rows=2 * ROWS,
    ),
    WriteMethod(name="save-default-mode", run=lambda w: w.writer(None).save(), error="Append"),
    WriteMethod(name="save-ignore", run=lambda w: w.writer("ignore").save(), error='"Append"'),
    WriteMethod(
        name="save-errorifexists", run=lambda w: w.writer("error").save(), error='"Append"'
    ),
    WriteMethod(name="save-overwrite", run=lambda w: w.writer("overwrite").save(), error=OVERWRITE),
    WriteMethod(
        name="save-partition-by",
        run=lambda w: w.writer().partitionBy("value").save(),
        error=PARTITIONING,
    ),
    WriteMethod(
        name="save-bucket-by",
        run=lambda w: w.writer().bucketBy(2, "value").save(),
        error="(?i)bucket",
    ),
    WriteMethod(
        name="save-sort-by", run=lambda w: w.writer().sortBy("value").save(), error="(?i)sort"
    ),
    WriteMethod(
        name="save-cluster-by",
        run=lambda w: w.writer().clusterBy("value").save(),
        error="(?i)cluster",
    ),
    WriteMethod(name="save-as-table", run=lambda w: w.writer().saveAsTable(w.table)),
    WriteMethod(
        name="save-as-table-again",
        run=lambda w: (w.writer().saveAsTable(w.table), w.writer().saveAsTable(w.table)),
        rows=2 * ROWS,
    ),
    WriteMethod(
        name="save-as-table-default-mode", run=lambda w: w.writer(None).saveAsTable(w.table)
    ),
    WriteMethod(
        name="save-as-table-overwrite",
        run=lambda w: w.writer("overwrite").saveAsTable(w.table),
        error=OVERWRITE,
    ),
    WriteMethod(name="save-as-table-ignore", run=lambda w: w.writer("ignore").saveAsTable(w.table)),
    WriteMethod(
        name="save-as-table-partition-by",
        run=lambda w: w.writer().partitionBy("value").saveAsTable(w.table),
    ),
    WriteMethod(
        name="save-as-table-bucket-by",
        run=lambda w: w.writer().bucketBy(2, "value").saveAsTable(w.table),
    ),
    WriteMethod(
        name="save-as-table-cluster-by",
        run=lambda w: w.writer().clusterBy("value").saveAsTable(w.table),
    ),
    WriteMethod(
        name="insert-into",
        run=lambda w: w.make_table().table_rows().write.insertInto(w.table),
        error=NO_OPTIONS,
    ),
    WriteMethod(
        name="insert-into-with-options",
        run=lambda w: (
            w.sql("CREATE TABLE {t} (value STRING) USING kafkaprod")
            .frame()
            .write.options(**w.options)
            .insertInto(w.table)
        ),
        error=NO_OPTIONS,
    ),
    WriteMethod(
        name="insert-into-without-options",
        run=lambda w: (
            w.sql("CREATE TABLE {t} (value STRING) USING kafkaprod")
            .frame()
            .write.insertInto(w.table)
        ),
        error=NO_OPTIONS,
    ),
    WriteMethod(
        name="insert-into-overwrite",
        run=lambda w: w.make_table().table_rows().write.insertInto(w.table, overwrite=True),
        error=OVERWRITE,
    ),
    WriteMethod(
        name="write-to-append",
        run=lambda w: w.make_table().table_rows().writeTo(w.table).append(),
        error=NO_OPTIONS,
    ),
    WriteMethod(
        name="write-to-append-with-options",
        run=lambda w: (
            w.sql("CREATE TABLE {t} (value STRING) USING kafkaprod")
            .frame()
            .writeTo(w.table)
            .options(**w.options)
            .append()
        ),
    ),
    WriteMethod(
        name="write-to-create",
        run=lambda w: w.frame().writeTo(w.table).using(OURS).options(**w.options).create(),
    ),
    WriteMethod(
        name="write-to-create-or-replace",
        run=lambda w: w.frame().writeTo(w.table).using(OURS).options(**w.options).createOrReplace(),
        error=OVERWRITE,
    ),
    WriteMethod(
        name="write-to-replace",
        run=lambda w: w.make_table().table_rows().writeTo(w.table).using(OURS).replace(),
        error=OVERWRITE,
    ),
    WriteMethod(
        name="write-to-overwrite",
        run=lambda w: w.make_table().table_rows().writeTo(w.table).overwrite(sf.lit(True)),
        error=OVERWRITE,
    ),
    WriteMethod(
        name="write-to-overwrite-partitions",
        run=lambda w: w.make_table().table_rows().writeTo(w.table).overwritePartitions(),
        error=OVERWRITE,
    ),
)
