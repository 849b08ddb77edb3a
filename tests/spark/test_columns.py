"""Columns specific to Spark: strings with invalid UTF-8, local times, other string types."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_kafka_sink import ColumnError, error_of
from tests.spark.support.console import Console
from tests.spark.support.sink import BOTH_WAYS, JVM, Sink, create_topics
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import by_confluent, count

ZONE = "spark.sql.session.timeZone"
TOLERATE = {"errors.tolerance": "all"}
BAD_KEY = "struct(CAST(unhex('FF') AS STRING) AS key, unhex('01') AS value)"
NULL_HEADER = "CAST(NULL AS STRUCT<key: STRING, value: BINARY>)"
BAD_ROWS = {
    "a name that is not UTF-8": (
        "CAST(unhex('FF') AS STRING) AS topic, NULL AS headers, NULL AS timestamp",
        "not a valid topic name, first in row 1",
        "INVALID_TOPIC",
    ),
    "a name with a slash": (
        "'a/b' AS topic, NULL AS headers, NULL AS timestamp",
        "'a/b', which is not a valid topic name, first in row 1",
        "INVALID_TOPIC",
    ),
    "a header key that is not UTF-8": (
        f"'{{topic}}' AS topic, array({BAD_KEY}) AS headers, NULL AS timestamp",
        "a header key that is not UTF-8 in row 1",
        "INVALID_HEADER_KEY",
    ),
    "a null header": (
        f"'{{topic}}' AS topic, array({NULL_HEADER}) AS headers, NULL AS timestamp",
        "a header without a key in row 1",
        "NULL_HEADER_KEY",
    ),
    "the millisecond before 1970": (
        "'{topic}' AS topic, NULL AS headers, timestamp_millis(-1) AS timestamp",
        "a timestamp before 1970 (-1 ms) in row 1",
        "NEGATIVE_TIMESTAMP",
    ),
    "the year 1": (
        "'{topic}' AS topic, NULL AS headers, TIMESTAMP'0001-01-01 00:00:00Z' AS timestamp",
        "a timestamp before 1970",
        "NEGATIVE_TIMESTAMP",
    ),
}
SAME_RESULT = {
    "bytes that are no text": "CAST(unhex('FF00') AS STRING) AS key, CAST(unhex('80') AS STRING) "
    "AS value",
    "fixed and bounded text": "CAST('k' AS CHAR(3)) AS key, CAST('v' AS VARCHAR(5)) AS value",
    "upper case columns": "'k' AS KEY, 'v' AS VALUE",
    "camel case columns": "'k' AS Key, 'v' AS vAlue",
    "a column twice in other case": "'k' AS key, 'v' AS value, 'w' AS VALUE",
    "a long header key": "'v' AS value, array(struct(repeat('h', 70000) AS key, unhex('01') AS "
    "value)) AS headers",
    "a column of nothing": "NULL AS value",
    "headers in upper case": "'v' AS value, array(struct('a' AS KEY, unhex('01') AS Value)) AS "
    "headers",
    "headers of other names": "'v' AS value, array(struct('a' AS k, unhex('01') AS v)) AS headers",
    "a key of nothing": "NULL AS key, 'v' AS value",
    "a variant as value": "parse_json('[1]') AS value",
}
ONLY_KAFKAPROD = {
    "collated text": "collate('k', 'UTF8_LCASE') AS key, collate('V', 'UNICODE_CI') AS value",
    "with a variant column": "'k' AS key, 'V' AS value, parse_json('[1]') AS other",
}
"""Types that Spark's Kafka sink rejects."""
NAMES = ["a b", "a.b", "a-b", 'a"b', "a`b", "é", "1x", "A", "b", "\u0130", "k.x"]
"""Columns whose names SQL must quote, or that differ only in case."""


def frame(sink: Sink, *rows: str) -> DataFrame:
    """Return a frame with one partition; each row is a SQL select list."""
    return sink.spark.sql(" UNION ALL ".join(f"SELECT {row}" for row in rows)).coalesce(1)


@pytest.fixture
def restore_zone(spark: SparkSession) -> Iterator[SparkSession]:
    """Yield the session and restore its time zone afterwards."""
    before = spark.conf.get(ZONE)
    yield spark
    assert before is not None
    spark.conf.set(ZONE, before)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "+08:00", "GMT+3", "Europe/Berlin"])
def test_local_times_are_cast_like_in_spark(
    zone: str, restore_zone: SparkSession, sink: Sink, topic: str
) -> None:
    restore_zone.conf.set(ZONE, zone)
    moments = ("2024-06-01 12:00:00.123", "2024-03-31 02:30:00", "2024-10-27 02:30:00")
    rows = [f"'{moment}' AS value, TIMESTAMP_NTZ'{moment}' AS timestamp" for moment in moments]
    local = frame(sink, *rows)
    sink.write(local, topic=topic, useTimestampColumn="true")
    cast = local.selectExpr("value", "unix_millis(CAST(timestamp AS TIMESTAMP)) AS ms").collect()
    assert {
        record.value: record.timestamp for record in by_confluent(sink.bootstrap_servers, topic)
    } == {row.value.encode(): row.ms for row in cast}


def test_local_times_without_time_zone_setting(sink: Sink, topic: str) -> None:
    sink.spark.conf.unset(ZONE)
    row = "'v' AS value, TIMESTAMP_NTZ'2024-06-01 12:00:00' AS timestamp"
    local = frame(sink, row)
    sink.write(local, topic=topic, useTimestampColumn="true")
    expected = local.selectExpr("unix_millis(CAST(timestamp AS TIMESTAMP)) AS ms").collect()[0].ms
    assert [record.timestamp for record in by_confluent(sink.bootstrap_servers, topic)] == [
        expected
    ]


def write_bad_row(sink: Sink, topic: str, row: str) -> DataFrame:
    """Write a valid row, a bad row and a valid row."""
    kinds = (
        "CAST(topic AS STRING) AS topic, value, CAST(timestamp AS TIMESTAMP) AS timestamp, "
        "CAST(headers AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"
    )
    good = f"'{topic}' AS topic, NULL AS headers, NULL AS timestamp"
    rows = (f"'a' AS value, {good}", f"'b' AS value, {row.format(topic=topic)}")
    return frame(sink, *rows, f"'c' AS value, {good}").selectExpr(*kinds.split(", ", 3))


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_row_fails_with_its_row(name: str, sink: Sink, topic: str) -> None:
    row, message, _ = BAD_ROWS[name]
    rows = write_bad_row(sink, topic, row)
    error, _ = sink.jobs_of(lambda: sink.write(rows, useTimestampColumn="true"))
    assert isinstance(error_of(error), ColumnError)
    assert message in str(error)
    assert count(sink.bootstrap_servers, topic) == 0


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_row_becomes_a_dead_letter(
    name: str, sink: Sink, topic: str, tmp_path: Path, real_kafka: KafkaCluster
) -> None:
    row, _, reason = BAD_ROWS[name]
    create_topics(real_kafka, [dead := f"{topic}-dead"])
    options = {**TOLERATE, "errors.deadletterqueue.topic.name": dead}
    path = tmp_path / "report.json"
    rows = write_bad_row(sink, topic, row)
    sink.write(rows, useTimestampColumn="true", reportPath=str(path), **options)
    good = by_confluent(sink.bootstrap_servers, topic)
    assert {record.value for record in good} == {b"a", b"c"}
    (letter,) = by_confluent(sink.bootstrap_servers, dead)
    assert letter.value == b"b"
    assert letter.timestamp > 1_600_000_000_000
    assert [bad_rows["reason"] for bad_rows in json.loads(path.read_text())["poison"]] == [reason]


@pytest.mark.parametrize("name", SAME_RESULT)
def test_same_result_as_spark_kafka_sink(
    name: str, sink: Sink, topic: str, real_kafka: KafkaCluster
) -> None:
    create_topics(real_kafka, [theirs := f"{topic}-theirs"])
    rows = frame(sink, SAME_RESULT[name])
    ours, _ = sink.jobs_of(lambda: sink.write(rows, topic=topic, includeHeaders="true"))
    jvm = replace(sink, format=JVM)
    other, _ = sink.jobs_of(lambda: jvm.write(rows, topic=theirs, includeHeaders="true"))
    assert (ours is None) == (other is None), f"kafkaprod: {ours}\nkafka: {other}"
    actual, expected = (
        [(record.key, record.value, record.headers) for record in by_confluent(*location)]
        for location in ((sink.bootstrap_servers, topic), (sink.bootstrap_servers, theirs))
    )
    assert actual == expected


@pytest.mark.parametrize("name", ONLY_KAFKAPROD)
def test_types_that_only_kafkaprod_supports(name: str, sink: Sink, topic: str) -> None:
    sink.write(frame(sink, ONLY_KAFKAPROD[name]), topic=topic)
    (record,) = by_confluent(sink.bootstrap_servers, topic)
    assert (record.key, record.value) == (b"k", b"V")


def test_collated_header_keys(sink: Sink, topic: str) -> None:
    header = "struct(collate('A', 'UTF8_LCASE') AS key, unhex('01') AS value)"
    sink.write(frame(sink, f"'v' AS value, array({header}) AS headers"), topic=topic)
    (record,) = by_confluent(sink.bootstrap_servers, topic)
    assert record.headers == (("A", b"\x01"),)


@BOTH_WAYS
def test_all_column_names_are_written(sink: Sink, topic: str) -> None:
    quoted = [name.replace("`", "``") for name in NAMES]
    values = ", ".join(f"{number} AS `{name}`" for number, name in enumerate(quoted))
    rows = frame(sink, f"struct('k' AS x) AS `k k`, {values}")
    expected = rows.drop("k k").select(sf.to_json(sf.struct("*")).alias("text")).first()
    assert expected is not None
    options = {"value.format": "json", "key.format": "json", "key.fields": "k k"}
    sink.write(rows, topic=topic, **options, **{"value.fields-include": "EXCEPT_KEY"})
    (record,) = by_confluent(sink.bootstrap_servers, topic)
    assert record.value == expected.text.encode()
    assert record.key == b'{"k k":{"x":"k"}}'
    assert list(json.loads(record.value or b"")) == NAMES


@BOTH_WAYS
def test_columns_that_differ_only_in_case(sink: Sink, topic: str) -> None:
    sink.spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        rows = frame(sink, "1 AS a, 2 AS B, 3 AS A")
        sink.write(rows, topic=topic, **{"value.format": "json"})
        sink.write(rows, topic=topic, **{"value.format": "avro"})
    finally:
        sink.spark.conf.unset("spark.sql.caseSensitive")
    values = {record.value for record in by_confluent(sink.bootstrap_servers, topic)}
    assert values == {b'{"a":1,"B":2,"A":3}', b"\2\4\6"}


def test_duplicate_column_fails_before_any_task(sink: Sink, topic: str) -> None:
    """Spark cannot pass such a frame to Python; without the check, a task would fail."""
    twice = frame(sink, "'v' AS value, 'w' AS value")
    error, jobs = sink.jobs_of(lambda: sink.write(twice, topic=topic))
    assert isinstance(error_of(error), ColumnError)
    assert "the DataFrame has the column `value` twice" in str(error)
    assert jobs == 0


def test_uppercase_key_column_is_logged_on_the_driver(
    sink: Sink, topic: str, console: Console
) -> None:
    """Spark's Kafka sink also ignores the column, without a message."""
    capitals, mark = frame(sink, "'k' AS KEY, 'v' AS value"), console.mark()
    for writer in (sink, replace(sink, format=JVM)):
        writer.write(capitals, topic=topic)
    console.wait_for("column `KEY` is ignored (as in format('kafka'))", mark)
    records = by_confluent(sink.bootstrap_servers, topic)
    assert [(record.key, record.value) for record in records] == [(None, b"v")] * 2
