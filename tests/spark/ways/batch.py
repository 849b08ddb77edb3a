"""The ways of DataFrameWriter and DataFrameWriterV2."""

from __future__ import annotations

from pyspark.sql import functions as sf

from tests.spark.ways.way import NO_OPTIONS, OURS, OVERWRITE, PARTITIONING, ROWS, Way

BATCH = (
    Way(name="save", act=lambda w: (w.writer().save(), w.check_report())),
    Way(
        name="save-a-bad-row",
        act=lambda w: (
            w.frame()
            .selectExpr("value", "7 AS partition")
            .write.format(OURS)
            .options(**w.options)
            .mode("append")
            .save()
        ),
        refused=r"ColumnError \S+-save-a-bad-row 7$",
    ),
    Way(
        name="save-exactly-once",
        transactional=True,
        act=lambda w: w.writer().options(**w.once, batchId="1").save(),
    ),
    Way(
        name="save-as-table-exactly-once-twice",
        transactional=True,
        act=lambda w: (
            w.writer().options(**w.once, batchId="1").saveAsTable(w.table),
            w.writer().options(**w.once, batchId="1").saveAsTable(w.table),
        ),
    ),
    Way(name="save-to-a-path", act=lambda w: w.writer().save("somewhere")),
    Way(
        name="save-format-argument",
        act=lambda w: w.frame().write.save(format=OURS, mode="append", **w.options),
    ),
    Way(
        name="save-no-rows",
        act=lambda w: w.frame(0).write.format(OURS).mode("append").options(**w.options).save(),
        rows=0,
    ),
    Way(
        name="save-an-empty-relation",
        rows=0,
        act=lambda w: (
            w.frame().where("false").write.format(OURS).mode("append").options(**w.options).save()
        ),
    ),
    Way(
        name="save-more-tasks-than-rows",
        act=lambda w: w.frame(3, 8).write.format(OURS).mode("append").options(**w.options).save(),
        rows=3,
    ),
    Way(
        name="save-limit",
        act=lambda w: (
            w.frame().limit(7).write.format(OURS).mode("append").options(**w.options).save()
        ),
        rows=7,
    ),
    Way(
        name="save-union",
        act=lambda w: (
            w.frame().union(w.frame()).write.format(OURS).mode("append").options(**w.options).save()
        ),
        rows=2 * ROWS,
    ),
    Way(name="save-default-mode", act=lambda w: w.writer(None).save(), refused="Append"),
    Way(name="save-ignore", act=lambda w: w.writer("ignore").save(), refused='"Append"'),
    Way(name="save-errorifexists", act=lambda w: w.writer("error").save(), refused='"Append"'),
    Way(name="save-overwrite", act=lambda w: w.writer("overwrite").save(), refused=OVERWRITE),
    Way(
        name="save-partition-by",
        act=lambda w: w.writer().partitionBy("value").save(),
        refused=PARTITIONING,
    ),
    Way(
        name="save-bucket-by",
        act=lambda w: w.writer().bucketBy(2, "value").save(),
        refused="(?i)bucket",
    ),
    Way(name="save-sort-by", act=lambda w: w.writer().sortBy("value").save(), refused="(?i)sort"),
    Way(
        name="save-cluster-by",
        act=lambda w: w.writer().clusterBy("value").save(),
        refused="(?i)cluster",
    ),
    Way(name="save-as-table", act=lambda w: w.writer().saveAsTable(w.table)),
    Way(
        name="save-as-table-again",
        act=lambda w: (w.writer().saveAsTable(w.table), w.writer().saveAsTable(w.table)),
        rows=2 * ROWS,
    ),
    Way(name="save-as-table-default-mode", act=lambda w: w.writer(None).saveAsTable(w.table)),
    Way(
        name="save-as-table-overwrite",
        act=lambda w: w.writer("overwrite").saveAsTable(w.table),
        refused=OVERWRITE,
    ),
    Way(name="save-as-table-ignore", act=lambda w: w.writer("ignore").saveAsTable(w.table)),
    Way(
        name="save-as-table-partition-by",
        act=lambda w: w.writer().partitionBy("value").saveAsTable(w.table),
    ),
    Way(
        name="save-as-table-bucket-by",
        act=lambda w: w.writer().bucketBy(2, "value").saveAsTable(w.table),
    ),
    Way(
        name="save-as-table-cluster-by",
        act=lambda w: w.writer().clusterBy("value").saveAsTable(w.table),
    ),
    Way(
        name="insert-into",
        act=lambda w: w.make_table().table_rows().write.insertInto(w.table),
        refused=NO_OPTIONS,
    ),
    Way(
        name="insert-into-with-options",
        act=lambda w: (
            w.sql("CREATE TABLE {t} (value STRING) USING kafkaprod")
            .frame()
            .write.options(**w.options)
            .insertInto(w.table)
        ),
        refused=NO_OPTIONS,
    ),
    Way(
        name="insert-into-without-options",
        act=lambda w: (
            w.sql("CREATE TABLE {t} (value STRING) USING kafkaprod")
            .frame()
            .write.insertInto(w.table)
        ),
        refused=NO_OPTIONS,
    ),
    Way(
        name="insert-into-overwrite",
        act=lambda w: w.make_table().table_rows().write.insertInto(w.table, overwrite=True),
        refused=OVERWRITE,
    ),
    Way(
        name="write-to-append",
        act=lambda w: w.make_table().table_rows().writeTo(w.table).append(),
        refused=NO_OPTIONS,
    ),
    Way(
        name="write-to-append-with-options",
        act=lambda w: (
            w.sql("CREATE TABLE {t} (value STRING) USING kafkaprod")
            .frame()
            .writeTo(w.table)
            .options(**w.options)
            .append()
        ),
    ),
    Way(
        name="write-to-create",
        act=lambda w: w.frame().writeTo(w.table).using(OURS).options(**w.options).create(),
    ),
    Way(
        name="write-to-create-or-replace",
        act=lambda w: w.frame().writeTo(w.table).using(OURS).options(**w.options).createOrReplace(),
        refused=OVERWRITE,
    ),
    Way(
        name="write-to-replace",
        act=lambda w: w.make_table().table_rows().writeTo(w.table).using(OURS).replace(),
        refused=OVERWRITE,
    ),
    Way(
        name="write-to-overwrite",
        act=lambda w: w.make_table().table_rows().writeTo(w.table).overwrite(sf.lit(True)),
        refused=OVERWRITE,
    ),
    Way(
        name="write-to-overwrite-partitions",
        act=lambda w: w.make_table().table_rows().writeTo(w.table).overwritePartitions(),
        refused=OVERWRITE,
    ),
)
