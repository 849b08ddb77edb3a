"""The format in SQL, and its registration."""

from collections.abc import Iterator

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from spark_kafka_sink import KafkaProdDataSource, error_of
from tests.spark.support.sink import RECORD_SCHEMA, Sink, as_frame, create_topics, local_frame
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import by_confluent


@pytest.fixture
def table(spark: SparkSession, topic: str) -> Iterator[str]:
    """Yield the name of a table that is dropped afterwards."""
    name = topic.replace("-", "_")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def options_of(sink: Sink, topic: str) -> str:
    return f"OPTIONS ('kafka.bootstrap.servers' '{sink.bootstrap_servers}', 'topic' '{topic}')"


def written(sink: Sink, topic: str) -> DataFrame:
    return as_frame(sink.spark, by_confluent(sink.bootstrap_servers, topic)).drop("offset")


def expected_rows(sink: Sink, *rows: tuple[object, ...]) -> DataFrame:
    return local_frame(sink.spark, RECORD_SCHEMA, rows).drop("offset")


def test_insert_into_a_table_without_columns(sink: Sink, topic: str, table: str) -> None:
    sink.spark.sql(f"CREATE TABLE {table} USING kafkaprod {options_of(sink, topic)}")
    sink.spark.sql(
        f"INSERT INTO {table} VALUES "
        "(X'6B', X'76', NULL, 3, ARRAY(NAMED_STRUCT('key', 'h', 'value', X'78'))), "
        "(NULL, NULL, NULL, 1, NULL)"
    )
    assert_df_equality(
        written(sink, topic),
        expected_rows(sink, (1, 0, None, None, None), (3, 0, b"k", b"v", [("h", b"x")])),
        ignore_row_order=True,
    )


def test_insert_query_with_options(
    sink: Sink, topic: str, table: str, real_kafka: KafkaCluster
) -> None:
    create_topics(real_kafka, [f"{topic}-2"])
    sink.spark.sql(f"CREATE TABLE {table} USING kafkaprod {options_of(sink, topic)}")
    sink.spark.sql(
        f"INSERT INTO {table} WITH ('topic' = '{topic}-2', 'kafka.compression.type' = 'zstd') "
        "(value, partition) SELECT CAST(CAST(id AS STRING) AS BINARY), CAST(id % 4 AS INT) "
        "FROM range(0, 100, 1, 3)"
    )
    rows = [(i % 4, 0, None, b"%d" % i, None) for i in range(100)]
    assert_df_equality(
        written(sink, f"{topic}-2"), expected_rows(sink, *rows), ignore_row_order=True
    )
    assert by_confluent(sink.bootstrap_servers, topic) == []


def test_table_with_columns_and_options_of_the_insert(sink: Sink, topic: str, table: str) -> None:
    sink.spark.sql(
        f"CREATE TABLE {table} (value STRING, partition INT, extra DATE) USING kafkaprod"
    )
    assignments = f"'kafka.bootstrap.servers' = '{sink.bootstrap_servers}', 'topic' = '{topic}'"
    sink.spark.sql(f"INSERT INTO {table} WITH ({assignments}) VALUES ('a', 2, current_date())")
    assert_df_equality(written(sink, topic), expected_rows(sink, (2, 0, None, b"a", None)))
    error, jobs = sink.jobs_of(
        lambda: sink.spark.sql(f"INSERT INTO {table} VALUES ('a', 2, current_date())")
    )
    assert "INSERT INTO t WITH" in str(error)
    assert jobs == 0


def test_strings_need_a_cast_in_a_table_without_columns(sink: Sink, topic: str, table: str) -> None:
    sink.spark.sql(f"CREATE TABLE {table} USING kafkaprod {options_of(sink, topic)}")
    error, _ = sink.jobs_of(
        lambda: sink.spark.sql(f"INSERT INTO {table} (key, value) SELECT 'k', 'v'")
    )
    assert error is not None
    cause = error_of(error)
    assert cause is not None
    assert "accepts only BINARY" in cause.message
    columns = "CAST('k' AS BINARY), CAST('v' AS BINARY)"
    sink.spark.sql(f"INSERT INTO {table} (key, value) SELECT {columns}")
    (record,) = by_confluent(sink.bootstrap_servers, topic)
    assert (record.key, record.value) == (b"k", b"v")


def test_save_as_table_with_overwrite_drops_the_table(sink: Sink, topic: str, table: str) -> None:
    writer = sink.frame("value string", ("a",)).write.format("kafkaprod").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", sink.bootstrap_servers)
    writer.mode("append").saveAsTable(table)
    error, _ = sink.jobs_of(lambda: writer.mode("overwrite").saveAsTable(table))
    assert "Spark has already dropped the table" in str(error)
    assert not sink.spark.catalog.tableExists(table)
    writer.mode("append").saveAsTable(table)
    assert len(by_confluent(sink.bootstrap_servers, topic)) == 2


def test_invalid_option_of_a_table_fails_the_insert(sink: Sink, topic: str, table: str) -> None:
    sink.spark.sql(
        f"CREATE TABLE {table} USING kafkaprod OPTIONS ('kafka.acks' '2', 'topic' '{topic}', "
        f"'kafka.bootstrap.servers' '{sink.bootstrap_servers}')"
    )
    error, jobs = sink.jobs_of(
        lambda: sink.spark.sql(f"INSERT INTO {table} (value) VALUES (X'61')")
    )
    assert "option kafka.acks is '2'" in str(error)
    assert jobs == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("'kafka.lingerms' '5'", "Did you mean kafka.linger.ms?"),
        ("'kafka.sasl.jaas.config' 'x'", "option kafka.sasl.jaas.config is a secret"),
    ],
)
def test_table_with_unknown_or_secret_option_is_not_created(
    options: str, expected: str, sink: Sink, table: str
) -> None:
    error, _ = sink.jobs_of(
        lambda: sink.spark.sql(f"CREATE TABLE {table} USING kafkaprod OPTIONS ({options})")
    )
    assert expected in str(error)
    assert not sink.spark.catalog.tableExists(table)


def test_explicit_registration(sink: Sink, topic: str) -> None:
    session = sink.spark.newSession()
    session.dataSource.register(KafkaProdDataSource)
    own = Sink(session, sink.bootstrap_servers)
    own.write(own.frame("value string", ("a",)), topic=topic)
    assert [r.value for r in by_confluent(sink.bootstrap_servers, topic)] == [b"a"]
