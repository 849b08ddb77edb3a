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


def partitions_by_key(servers: str, topic: str) -> dict[bytes | None, set[int]]:
    """Return the partitions that contain each key."""
    partitions: dict[bytes | None, set[int]] = {}
    for record in by_confluent(servers, topic):
        partitions.setdefault(record.key, set()).add(record.partition)
    return partitions


def keyed_rows(once: ExactlyOnce) -> DataFrame:
    """Return 200 rows, each fifth without a key, repartitioned for one task per partition."""
    rows = once.numbers(0, 200).selectExpr(
        "IF(value % 5 = 0, NULL, CONCAT('key ', value % 40)) AS key", "value"
    )
    return repartition_by_kafka_partition(rows, once.options | ATOMIC)


def test_batch_in_one_transaction(once: ExactlyOnce) -> None:
    report = once.write(keyed_rows(once), **ATOMIC)
    assert (report.transaction_outcome, report.tasks) == ("committed", 4)
    assert len(report.transactions) == 1
    assert once.read() == list(range(200))


def test_repeated_batch_id_is_written_once(once: ExactlyOnce) -> None:
    frame = keyed_rows(once)
    once.write(frame, batchId="2026-11-20", **ATOMIC)
    report = once.write(frame, batchId="2026-11-20", **ATOMIC)
    assert (report.transaction_outcome, report.persisted) == ("already written", 0)
    assert report.transactions == ()
    assert once.read() == list(range(200))


def test_keys_are_partitioned_as_by_the_producer(
    once: ExactlyOnce, real_kafka: KafkaCluster
) -> None:
    """Rows without a key are distributed to all partitions."""
    frame = keyed_rows(once)
    once.write(frame, **ATOMIC)
    plain = f"{once.topic}-plain"
    create_topics(real_kafka, [plain])
    once.sink.write(frame.where("key IS NOT NULL"), topic=plain)
    servers = once.sink.bootstrap_servers
    partitions = partitions_by_key(servers, once.topic)
    assert partitions.pop(None) == set(range(4))
    assert partitions == partitions_by_key(servers, plain)
    assert all(len(partitions_of_key) == 1 for partitions_of_key in partitions.values())


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
