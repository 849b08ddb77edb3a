"""The same rows and options with Spark's Kafka sink and with this sink."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tests.spark.support.scenarios import ACCEPTED, FAILING, HEADERS, Scenario
from tests.spark.support.sink import JVM, OURS, Sink, create_topics, local_frame
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import by_confluent

READ_SCHEMA = (
    "topic string, partition int, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)


def name_of(scenario: Scenario) -> str:
    return scenario.name


def topics_of(scenario: Scenario) -> set[str]:
    """Return all topics of the scenario, with its own names."""
    columns = [part.split()[0] for part in scenario.schema.split(", ")]
    named = {scenario.topic or "one"}
    if "topic" in columns:
        location = columns.index("topic")
        named |= {row[location] for row in scenario.rows if isinstance(row[location], str)}
    return named


def prefix_of(scenario: Scenario, sink: Sink) -> str:
    return f"{scenario.name}-{sink.format}."


def write(scenario: Scenario, sink: Sink) -> None:
    frame = sink.frame(scenario.schema, *scenario.rows)
    prefix = prefix_of(scenario, sink)
    if ("topic", "string") in frame.dtypes:
        frame = frame.withColumn("topic", sf.concat(sf.lit(prefix), "topic"))
    topic = {} if scenario.topic is None else {"topic": prefix + scenario.topic}
    sink.write(frame, **topic, **scenario.options)


def written(sink: Sink, scenario: Scenario) -> DataFrame:
    """Return the records of one format; in log order if partitions are fixed."""
    topics, prefix = sorted(topics_of(scenario)), prefix_of(scenario, sink)
    with ThreadPoolExecutor(8) as pool:
        read = list(
            pool.map(lambda name: by_confluent(sink.bootstrap_servers, prefix + name), topics)
        )
    rows = [
        (topic, record.partition, record.key, record.value, list(record.headers) or None)
        for topic, records in zip(topics, read, strict=True)
        for record in records
    ]
    assert len(rows) == len(scenario.rows)
    frame = local_frame(sink.spark, READ_SCHEMA, rows)
    return frame if scenario.fixed_partitions else frame.drop("partition")


@pytest.mark.parametrize("scenario", ACCEPTED, ids=name_of)
def test_both_formats_write_the_same(
    scenario: Scenario, sink: Sink, real_kafka: KafkaCluster
) -> None:
    ours, theirs = sink, replace(sink, format=JVM)
    create_topics(
        real_kafka,
        [
            prefix_of(scenario, topic_prefix) + name
            for topic_prefix in (ours, theirs)
            for name in topics_of(scenario)
        ],
    )
    write(scenario, theirs)
    write(scenario, ours)
    assert_df_equality(
        written(ours, scenario),
        written(theirs, scenario),
        ignore_row_order=not scenario.fixed_partitions,
    )


def test_spark_reader_reads_the_records(sink: Sink, topic: str) -> None:
    schema = f"partition int, key binary, value binary, {HEADERS}"
    frame = sink.frame(
        schema,
        (0, b"k", b"v", [("h", b"x"), ("null", None)]),
        (1, None, None, None),
        (3, b"", b"", None),
    )
    sink.write(frame, topic=topic)
    reader = sink.spark.read.format("kafka").option("includeHeaders", "true")
    reader = reader.option("kafka.bootstrap.servers", sink.bootstrap_servers)
    read = reader.option("subscribe", topic).load().orderBy("partition")
    assert_df_equality(read.select(*frame.columns), frame, ignore_nullable=True)


def test_frame_read_from_kafka_can_be_written(
    sink: Sink, topic: str, real_kafka: KafkaCluster
) -> None:
    """The frame also has the columns topic, offset, timestamp and timestampType."""
    copy = f"{topic}-copy"
    create_topics(real_kafka, [copy])
    sink.write(sink.frame("key string, value string", ("a", "1"), ("b", None)), topic=topic)
    reader = sink.spark.read.format("kafka").option("includeHeaders", "true")
    reader = reader.option("kafka.bootstrap.servers", sink.bootstrap_servers)
    sink.write(reader.option("subscribe", topic).load(), topic=copy)
    originals = by_confluent(sink.bootstrap_servers, topic)
    copies = by_confluent(sink.bootstrap_servers, copy)
    assert [(r.partition, r.key, r.value) for r in copies] == [
        (r.partition, r.key, r.value) for r in originals
    ]
    assert len(copies) == 2
    assert min(r.timestamp for r in copies) > max(r.timestamp for r in originals)


def test_timestamp_column(sink: Sink, topic: str) -> None:
    moments = [datetime(2001, 9, 9, 1, 46, 40, 123_999, tzinfo=UTC), None]
    moments.append(datetime(1970, 1, 1, 0, 0, 0, 999, tzinfo=UTC))
    frame = sink.frame(
        "value string, partition int, timestamp timestamp",
        *((f"v{location}", location, moment) for location, moment in enumerate(moments)),
    )
    before = time.time_ns() // 1_000_000
    sink.write(frame, topic=topic, useTimestampColumn="true")
    first, second, third = by_confluent(sink.bootstrap_servers, topic)
    assert first.timestamp == 1_000_000_000_123
    assert before <= second.timestamp <= time.time_ns() // 1_000_000
    assert third.timestamp == 0


@pytest.mark.parametrize("scenario", FAILING, ids=name_of)
@pytest.mark.parametrize("form", [OURS, pytest.param(JVM, marks=pytest.mark.deep)])
def test_both_formats_fail(
    scenario: Scenario, form: str, sink: Sink, real_kafka: KafkaCluster
) -> None:
    writer = replace(sink, format=form)
    if not scenario.early:
        create_topics(
            real_kafka, [prefix_of(scenario, writer) + name for name in topics_of(scenario)]
        )
    error, jobs = writer.jobs_of(lambda: write(scenario, writer))
    assert error is not None, "the write was accepted"
    assert scenario.error is not None
    assert scenario.error in str(error)
    if scenario.early:
        assert jobs == 0
