"""The ways of SQL."""

from __future__ import annotations

from tests.spark.ways.way import NO_OPTIONS, OVERWRITE, Way

SQL = (
    Way(
        name="sql-insert",
        act=lambda w: w.make_table().sql(
            "INSERT INTO {t} (value) SELECT CAST(CAST(id AS STRING) AS BINARY) FROM range(60)"
        ),
    ),
    Way(
        name="sql-insert-with-options",
        act=lambda w: w.sql("CREATE TABLE {t} (value STRING) USING kafkaprod").sql(
            "INSERT INTO {t} {w} SELECT CAST(id AS STRING) FROM range(60)"
        ),
    ),
    Way(
        name="sql-insert-overwrite",
        act=lambda w: w.make_table().sql("INSERT OVERWRITE {t} (value) SELECT CAST('a' AS BINARY)"),
        refused=OVERWRITE,
    ),
    Way(
        name="sql-insert-replace-where",
        act=lambda w: w.make_table().sql(
            "INSERT INTO {t} REPLACE WHERE value IS NULL SELECT CAST(NULL AS BINARY), "
            "CAST('a' AS BINARY), NULL, NULL, NULL"
        ),
        refused=OVERWRITE,
    ),
    Way(
        name="sql-ctas",
        act=lambda w: w.sql(
            "CREATE TABLE {t} USING kafkaprod {o} "
            "AS SELECT CAST(id AS STRING) AS value FROM range(60)"
        ),
        refused=NO_OPTIONS,
    ),
    Way(
        name="sql-ctas-partitioned",
        act=lambda w: w.sql(
            "CREATE TABLE {t} USING kafkaprod {o} PARTITIONED BY (value) "
            "AS SELECT CAST(id AS STRING) AS value FROM range(60)"
        ),
        refused=NO_OPTIONS,
    ),
    Way(
        name="sql-create-or-replace-as",
        act=lambda w: w.sql(
            "CREATE OR REPLACE TABLE {t} USING kafkaprod {o} "
            "AS SELECT CAST(id AS STRING) AS value FROM range(60)"
        ),
        refused=OVERWRITE,
    ),
    Way(
        name="sql-update",
        act=lambda w: w.make_table().sql("UPDATE {t} SET value = CAST('a' AS BINARY)"),
        refused="UPDATE",
    ),
    Way(
        name="sql-delete",
        act=lambda w: w.make_table().sql("DELETE FROM {t}"),
        refused="does not support deletes",
    ),
    Way(
        name="sql-truncate",
        act=lambda w: w.make_table().sql("TRUNCATE TABLE {t}"),
        refused="(?i)truncat",
    ),
)
