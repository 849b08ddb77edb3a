"""One transaction for all tasks of a write from Spark."""

import pytest
from pyspark.sql import DataFrame

from spark_kafka_sink import repartition_by_kafka_partition
from tests.spark.exactly_once.exactly_once_writes import ExactlyOnce, options
from tests.spark.support.sink import create_topics
from tests.spark.support.stream import Stream, start_stream
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import by_confluent, numbers_in

ATOMIC = {"atomicBatch": "true"}


def partitions_by_key(servers: str, topic: str) -> dict[bytes | None, int]:
    """Return the partition of each key."""
    records = by_confluent(servers, topic)
    locations = {record.key: record.partition for record in records}
    assert {(record.key, record.partition) for record in records} == set(locations.items())
    return locations


def test_batch_in_one_transaction(once: ExactlyOnce, real_kafka: KafkaCluster) -> None:
    """Keys are partitioned as by the producer, and each batchId is written once."""
    rows = once.numbers(0, 200).selectExpr(
        "IF(value % 5 = 0, NULL, CONCAT('key ', value % 40)) AS key", "value"
    )
    frame = repartition_by_kafka_partition(rows, once.options | ATOMIC)
    report = once.write(frame, batchId="2026-11-20", **ATOMIC)
    assert (report.transaction_outcome, report.tasks) == ("committed", 4)
    assert len(report.transactions) == 1
    report = once.write(frame, batchId="2026-11-20", **ATOMIC)
    assert (report.transaction_outcome, report.persisted) == ("already written", 0)
    assert report.transactions == ()
    assert once.read() == list(range(200))
    plain = f"{once.topic}-plain"
    create_topics(real_kafka, [plain])
    keyed = rows.where("key IS NOT NULL")
    once.sink.write(keyed, topic=plain)
    servers = once.sink.bootstrap_servers
    partitions = {record.key: record.partition for record in by_confluent(servers, once.topic)}
    assert {key: partitions[key] for key in partitions if key} == partitions_by_key(servers, plain)
    keyless = {
        record.partition for record in by_confluent(servers, once.topic) if record.key is None
    }
    assert keyless == set(range(4))


def test_two_tasks_on_one_partition_are_rejected(once: ExactlyOnce) -> None:
    rows = once.numbers(0, 20, tasks=2).selectExpr("value", "1 AS partition")
    with pytest.raises(Exception, match="tasks 0 and 1"):
        once.write(rows, **ATOMIC)
    assert once.report().transaction_outcome == "aborted"
    assert once.read() == []
    once.sink.spark.sparkContext.setLocalProperty("spark.speculation", "true")
    try:
        with pytest.raises(Exception, match=r"spark\.speculation"):
            once.write(rows.coalesce(1), **ATOMIC)
    finally:
        once.sink.spark.sparkContext.setLocalProperty("spark.speculation", "false")
    assert once.write(rows.coalesce(1), **ATOMIC).transaction_outcome == "committed"
    assert once.read() == list(range(20))


def test_stream_with_one_transaction_per_batch(stream: Stream, real_kafka: KafkaCluster) -> None:
    """Multiple topics; a batch without an entry in Spark's commit log is not written again."""
    other = f"{stream.topic}-other"
    create_topics(real_kafka, [other])
    stream_options = options(stream.topic, **ATOMIC)
    servers = {"kafka.bootstrap.servers": stream.sink.bootstrap_servers}

    def frame() -> DataFrame:
        topic = f"IF(value % 2 = 0, '{stream.topic}', '{other}') AS topic"
        rows = stream.files().selectExpr("value AS key", "value", topic)
        topics = [stream.topic, other]
        return repartition_by_kafka_partition(
            rows, servers | stream_options, topics=topics, tasks=3
        )

    def run() -> None:
        writer = frame().writeStream
        writer = writer.option("checkpointLocation", str(stream.folder / "checkpoint"))
        query = start_stream(writer.trigger(availableNow=True), servers | stream_options)
        try:
            assert query.awaitTermination(90)
        finally:
            query.stop()

    for number in range(2):
        stream.put(f"{number}.txt", [str(10 * number + line) for line in range(10)])
    run()
    commits = stream.folder / "checkpoint" / "commits"
    for path in (commits / "1", commits / ".1.crc"):
        path.unlink()
    stream.put("2.txt", [str(20 + line) for line in range(10)])
    run()
    numbers = [numbers_in(stream.sink.bootstrap_servers, topic) for topic in (stream.topic, other)]
    assert numbers == [list(range(0, 30, 2)), list(range(1, 30, 2))]
