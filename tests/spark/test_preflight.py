"""Invalid options fail a write immediately, and missing topics are created on request."""

import re
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafka_sink.broker.embedded import EmbeddedBroker
from spark_kafka_sink.common.errors import (
    AuthorizationError,
    ColumnError,
    KafkaProdError,
    UnknownTopicError,
)
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.spark.runtime.spark_errors import error_of
from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles
from tests.spark.support.console import Console
from tests.spark.support.sink import Sink

DEAD_LETTERS = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "letters"}


@pytest.fixture
def kafka() -> Iterator[EmbeddedBroker]:
    """Run a broker without automatic topic creation."""
    with EmbeddedBroker(topics={"events": 2}) as broker:
        yield broker


def test_error_is_the_start_of_spark_errors(
    spark: SparkSession, kafka: EmbeddedBroker, console: Console
) -> None:
    sink, mark = Sink(spark, kafka.bootstrap_servers), console.mark()
    for options in ({"kafka.lingr.ms": "1"}, {"topic": "event"}):
        error, _ = sink.jobs_of(lambda o=options: sink.write(rows(sink, "events"), **o))
        first = str(error).splitlines()[0]
        assert "Error: " in first
        assert ("unknown option kafka.lingr.ms" in first) == ("topic" not in options)
        assert "Traceback" not in str(error)
    bad = sink.frame("topic string, value string", (None, "v"))
    error, _ = sink.jobs_of(lambda: sink.write(bad))
    assert "Traceback" not in str(error).partition("ColumnError: null topic")[0]
    assert "null topic" in str(error)
    assert console.text(mark).count("topic event does not exist") == 0


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        ("map('a', 'b', 'c', 'd')", ["a", "c"]),
        ("array(struct('b' AS value, 'a' AS key))", ["a"]),
        ("array(struct('a' AS name, cast('b' AS binary) AS content))", ["a"]),
        ("array('a')", ["k"]),
        ("'a'", ["k"]),
    ],
)
def test_hint_about_headers_works(spark: SparkSession, column: str, keys: list[str]) -> None:
    frame = spark.range(1).selectExpr("'v' AS value", f"{column} AS headers")
    config = SinkConfig.parse({"kafka.bootstrap.servers": "kafka:9092", "topic": "t"})
    with pytest.raises(ColumnError) as caught:
        ColumnRoles.of(frame.schema, config)
    expression = re.search(r"expr\((['\"])(.*)\1\)\)", caught.value.hint or "")
    assert expression is not None
    converted = frame.selectExpr("value", f"{expression[2]} AS headers")
    assert ColumnRoles.of(converted.schema, config).headers == 1
    [row] = converted.collect()
    assert [header.key for header in row["headers"]] == keys


def failure(spark: SparkSession, kafka: EmbeddedBroker, **options: str) -> KafkaProdError:
    """Write a row and return the error; check that it was raised before any task."""
    sink = Sink(spark, kafka.bootstrap_servers)
    error, jobs = sink.jobs_of(lambda: sink.write(rows(sink, "events"), **options))
    assert jobs == 0
    parsed = error_of(error)
    assert parsed is not None
    return parsed


def rows(sink: Sink, *topics: str) -> DataFrame:
    return sink.frame("topic string, value string", *((topic, "v") for topic in topics))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"topic": "event"}, "topic event does not exist"),
        ({"topic": "events", **DEAD_LETTERS}, "dead letter topic letters does not exist"),
        (DEAD_LETTERS, "dead letter topic letters does not exist"),
    ],
)
def test_missing_topic_fails_before_any_task(
    spark: SparkSession, kafka: EmbeddedBroker, options: dict[str, str], expected: str
) -> None:
    error = failure(spark, kafka, **options)
    assert isinstance(error, UnknownTopicError)
    assert expected in error.message
    if options.get("topic") == "event":
        assert (error.hint or "").startswith("Did you mean events? ")


def test_missing_topics_are_created(spark: SparkSession, kafka: EmbeddedBroker) -> None:
    sink = Sink(spark, kafka.bootstrap_servers)
    options = {"topic.create": "true", "topic.partitions": "3", **DEAD_LETTERS}
    frame = rows(sink, "new-1", "new-2", "events", "new-1").unionAll(rows(sink, "new-1", "new-3"))
    bad = sink.frame("topic string, value string", ("events", "v"), (None, "v"))
    sink.write(frame.unionAll(bad), **options)
    written = {name: kafka.end_offsets(name) for name in ("new-1", "new-2", "new-3", "events")}
    assert {name: sum(ends) for name, ends in written.items()} == {
        "new-1": 3,
        "new-2": 1,
        "new-3": 1,
        "events": 2,
    }
    assert len(written["new-1"]) == 3
    assert sum(kafka.end_offsets("letters")) == 1


def test_invalid_topic_in_a_column(spark: SparkSession, kafka: EmbeddedBroker) -> None:
    sink = Sink(spark, kafka.bootstrap_servers)
    kafka.deny("*", "Create", topic="new")
    kafka.deny("*", "Create")
    error, _ = sink.jobs_of(lambda: sink.write(rows(sink, "new"), **{"topic.create": "true"}))
    denied = error_of(error)
    assert isinstance(denied, AuthorizationError)
    assert "Create" in denied.message
