"""The write methods of SQL."""

from tests.spark.write_methods.write_method import NO_OPTIONS, OVERWRITE, WriteMethod

SQL = (
    WriteMethod(
        "sql-insert",
        lambda w: w.make_table().sql(
            "INSERT INTO {t} (value) SELECT CAST(CAST(id AS STRING) AS BINARY) FROM range(60)"
        ),
    ),
    WriteMethod(
        "sql-insert-with-options",
        lambda w: w.sql("CREATE TABLE {t} (value STRING) USING kafkaprod").sql(
            "INSERT INTO {t} {w} SELECT CAST(id AS STRING) FROM range(60)"
        ),
    ),
    WriteMethod(
        "sql-insert-overwrite",
        lambda w: w.make_table().sql("INSERT OVERWRITE {t} (value) SELECT CAST('a' AS BINARY)"),
        error=OVERWRITE,
    ),
    WriteMethod(
        "sql-insert-replace-where",
        lambda w: w.make_table().sql(
            "INSERT INTO {t} REPLACE WHERE value IS NULL SELECT CAST(NULL AS BINARY), "
            "CAST('a' AS BINARY), NULL, NULL, NULL"
        ),
        error=OVERWRITE,
    ),
    WriteMethod(
        "sql-ctas",
        lambda w: w.sql(
            "CREATE TABLE {t} USING kafkaprod {o} "
            "AS SELECT CAST(id AS STRING) AS value FROM range(60)"
        ),
        error=NO_OPTIONS,
    ),
    WriteMethod(
        "sql-ctas-partitioned",
        lambda w: w.sql(
            "CREATE TABLE {t} USING kafkaprod {o} PARTITIONED BY (value) "
            "AS SELECT CAST(id AS STRING) AS value FROM range(60)"
        ),
        error=NO_OPTIONS,
    ),
    WriteMethod(
        "sql-create-or-replace-as",
        lambda w: w.sql(
            "CREATE OR REPLACE TABLE {t} USING kafkaprod {o} "
            "AS SELECT CAST(id AS STRING) AS value FROM range(60)"
        ),
        error=OVERWRITE,
    ),
    WriteMethod(
        "sql-update",
        lambda w: w.make_table().sql("UPDATE {t} SET value = CAST('a' AS BINARY)"),
        error="UPDATE",
    ),
    WriteMethod(
        "sql-delete",
        lambda w: w.make_table().sql("DELETE FROM {t}"),
        error="does not support deletes",
    ),
    WriteMethod(
        "sql-truncate", lambda w: w.make_table().sql("TRUNCATE TABLE {t}"), error="(?i)truncat"
    ),
)
