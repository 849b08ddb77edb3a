"""Writes from Spark to brokers of releases before 4.0, and with their API versions."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from spark_kafka_sink import EmbeddedBroker
from tests.spark.support.sink import JVM, Sink
from tools.support.kafka_cluster import ZooKeeperCluster
from tools.support.readers import by_confluent

ROWS = 3_000
RELEASES = ("2.8.2", "3.9.1")


@pytest.fixture(scope="module")
def brokers() -> Iterator[Mapping[str, ZooKeeperCluster]]:
    """Run a broker of each release; they start at the same time."""
    clusters = {release: ZooKeeperCluster(release, nodes=1) for release in RELEASES}
    with ExitStack() as stack:
        for kafka in clusters.values():
            stack.callback(kafka.close)
            kafka.start()
        for kafka in clusters.values():
            kafka.wait_ready()
        yield clusters


@pytest.mark.parametrize("release", RELEASES)
def test_write_to_an_older_release(
    spark: SparkSession, brokers: Mapping[str, ZooKeeperCluster], release: str
) -> None:
    kafka = brokers[release]
    kafka.admin.create_topic("t", 3)
    frame = spark.range(0, ROWS, 1, 3).selectExpr(
        "if(id % 3 = 0, null, cast(id AS string)) AS key",
        "concat('value ', id) AS value",
        "array(named_struct('key', 'from', 'value', cast('spark' AS binary))) AS headers",
    )
    sink = Sink(spark, kafka.bootstrap_servers)
    sink.write(frame, topic="t", kafka__compression__type="zstd")
    records = by_confluent(kafka.bootstrap_servers, "t")
    assert {record.value: record.key for record in records} == {
        b"value %d" % number: b"%d" % number if number % 3 else None for number in range(ROWS)
    }
    assert len(records) == ROWS
    assert all(record.headers == (("from", b"spark"),) for record in records)


@pytest.mark.parametrize("release", ["2.1", "2.8", "3.9"])
def test_spark_kafka_sink_with_older_api_versions(spark: SparkSession, release: str) -> None:
    frame = spark.range(0, 500, 1, 2).selectExpr("concat('value ', id) AS value")
    with EmbeddedBroker(topics={"t": 2}, api_versions_of=release) as kafka:
        Sink(spark, kafka.bootstrap_servers, JVM).write(frame, topic="t")
        records = by_confluent(kafka.bootstrap_servers, "t")
    assert {record.value for record in records} == {b"value %d" % number for number in range(500)}
    assert len(records) == 500
