"""Streams with restarts, outdated, deleted or shared checkpoints, and failing batches."""

import shutil
from dataclasses import replace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from spark_kafka_sink import DeliveryReport, EmbeddedBroker, WriteStatus, last_report
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.exactly_once.operator_commands import TransactionOperator
from tests.spark.exactly_once.exactly_once_writes import options
from tests.spark.support.stream import Stream
from tests.support.waiting import wait_until, wait_until_equal
from tools.support.readers import numbers_in


def put_files(stream: Stream, first: int, last: int) -> None:
    """Write files with ten numbers each."""
    for number in range(first, last):
        stream.put(f"{number}.txt", [str(10 * number + line) for line in range(10)])


def run(stream: Stream, **more: str) -> None:
    stream.run(stream.files(), **options(stream.topic), **more)


def read(stream: Stream) -> list[int]:
    return numbers_in(stream.sink.bootstrap_servers, stream.topic)


def outcomes(stream: Stream) -> list[str]:
    return [report.transaction_outcome for report in stream.reports()]


def remove_commit(stream: Stream, batch: int) -> None:
    """Simulate a driver crash before Spark's commit log contains the batch."""
    commits = stream.folder / "checkpoint" / "commits"
    for path in (commits / str(batch), commits / f".{batch}.crc"):
        path.unlink()


def test_batch_without_spark_commit_is_not_written_again(stream: Stream) -> None:
    put_files(stream, 0, 2)
    run(stream)
    for _ in range(2):
        remove_commit(stream, 1)
        run(stream)
        report = last_report()
        assert (report.transaction_outcome, report.rows) == ("already written", 0)
        assert [(report.transaction_outcome, report.rows) for report in stream.reports()] == [
            ("committed", 10),
            ("committed", 10),
        ]
    remove_commit(stream, 1)
    failing = stream.files().selectExpr(
        "IF(value LIKE '%5', raise_error('broken'), value) AS value"
    )
    with pytest.raises(StreamingQueryException, match="broken"):
        stream.run(failing, **options(stream.topic))
    report = stream.reports()[1]
    assert (report.status, report.transaction_outcome, report.rows) == ("failed", "committed", 10)
    assert report.error.startswith("a task failed")
    put_files(stream, 2, 3)
    run(stream)
    assert outcomes(stream) == ["committed"] * 3
    assert {report.status for report in stream.reports()} == {WriteStatus.SUCCEEDED}
    assert read(stream) == list(range(30))


def test_checkpoint_reset_by_one_batch(stream: Stream) -> None:
    """Spark plans the batch again with new rows; an operator allows the query to continue."""
    checkpoint, backup = stream.folder / "checkpoint", stream.folder / "backup"
    put_files(stream, 0, 1)
    many = stream.sink.spark.readStream.text(str(stream.folder / "input"))
    stream.run(many, **options(stream.topic))
    shutil.copytree(checkpoint, backup)
    put_files(stream, 1, 2)
    stream.run(many, **options(stream.topic))
    shutil.rmtree(checkpoint)
    shutil.copytree(backup, checkpoint)
    put_files(stream, 2, 3)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="10 rows"):
            stream.run(many, **options(stream.topic))
    assert outcomes(stream) == ["committed", "committed"]
    assert [(report.status, report.rows) for report in stream.reports()] == [
        ("succeeded", 10),
        ("failed", 10),
    ]
    assert read(stream) == list(range(20))
    config = SinkConfig.parse(
        {"kafka.bootstrap.servers": stream.sink.bootstrap_servers, **options(stream.topic)}
    )
    TransactionOperator(config).accept_loss(f"{stream.topic}/stream")
    stream.run(many, **options(stream.topic))
    put_files(stream, 3, 4)
    stream.run(many, **options(stream.topic))
    assert read(stream) == [*range(20), *range(30, 40)]


def test_new_checkpoint_with_used_prefix_requires_reset(stream: Stream) -> None:
    put_files(stream, 0, 1)
    run(stream)
    shutil.rmtree(stream.folder / "checkpoint")
    with pytest.raises(StreamingQueryException, match="resetTransactionalState"):
        run(stream)
    assert read(stream) == list(range(10))
    # With the reset, the new query writes all rows again.
    run(stream, resetTransactionalState="true")
    put_files(stream, 1, 2)
    run(stream, resetTransactionalState="true")
    assert read(stream) == sorted([*range(10), *range(20)])


def test_second_query_with_the_same_prefix_is_rejected(stream: Stream) -> None:
    put_files(stream, 0, 1)
    run(stream)
    other = replace(stream, folder=stream.folder / "other")
    other.folder.mkdir()
    put_files(other, 5, 6)
    with pytest.raises(StreamingQueryException, match="transactionalIdPrefix"):
        other.run(other.files(), **options(stream.topic))
    put_files(stream, 1, 2)
    run(stream)
    assert read(stream) == list(range(20))


def test_one_of_two_running_queries_with_the_same_prefix_fails(stream: Stream) -> None:
    """Either query can fail."""
    other = replace(stream, folder=stream.folder / "other")
    other.folder.mkdir()
    put_files(stream, 0, 1)
    put_files(other, 5, 6)
    live: dict[str, Any] = {
        "trigger": {"processingTime": "0 seconds"},
        **options(stream.topic),
    }
    queries = {
        0: stream.start(stream.files(), **live),
        5: other.start(other.files(), **live),
    }
    try:
        wait_until(lambda: any(map(has_failed, queries.values())))
        stopped = [prefix for prefix in queries if has_failed(queries[prefix])]
        assert len(stopped) == 1
        assert "transactionalIdPrefix" in str(queries.pop(stopped[0]).exception())
        ((first, winner),) = queries.items()
        put_files(other if first else stream, first + 1, first + 3)
        winner.processAllAvailable()
        assert winner.isActive
    finally:
        for query in queries.values():
            query.stop()
    assert read(stream) == list(range(10 * first, 10 * first + 30))


def has_failed(query: StreamingQuery) -> bool:
    try:
        return bool(query.awaitTermination(1))
    except StreamingQueryException:
        return True


def test_failed_batch_is_retried_without_duplicates(stream: Stream) -> None:
    """One task has written its rows when the other one fails."""
    stream.put("0.txt", ["1"])
    stream.put("1.txt", ["2"])
    frame = (
        stream.sink.spark.readStream.option("maxFilesPerTrigger", "2")
        .text(str(stream.folder / "input"))
        .repartition(2, "value")
    )
    failing = frame.selectExpr("value", "IF(value = '2', 99, 0) AS partition")
    with pytest.raises(StreamingQueryException, match="specifies a partition"):
        stream.run(failing, **options(stream.topic))
    assert read(stream) == []
    assert outcomes(stream) == ["aborted"]
    mended = frame.selectExpr("value", "IF(value = '2', 1, 0) AS partition")
    stream.run(mended, **options(stream.topic))
    assert read(stream) == [1, 2]
    assert outcomes(stream) == ["committed"]


@pytest.mark.parametrize("atomic", ["false", "true"])
def test_stopped_query_leaves_no_open_transaction(stream: Stream, atomic: str) -> None:
    """Neither of a running task nor of a task that starts after abort() has returned."""
    stream.put("0.txt", ["0"])
    slow = (
        stream.files()
        .selectExpr("explode(sequence(0, 100000)) AS id")
        .repartition(4, "id")
        .selectExpr(
            "CAST(id AS STRING) AS value",
            "spark_partition_id() AS partition",
            "reflect('java.lang.Thread', 'sleep', 1L) AS slept",
        )
        .filter("slept = 'null' OR partition >= 0")
        .drop("slept")
    )
    stream_options = options(stream.topic, atomicBatch=atomic)
    operator = TransactionOperator(
        SinkConfig.parse(
            {"kafka.bootstrap.servers": stream.sink.bootstrap_servers, **stream_options}
        )
    )
    conf = stream.sink.spark.conf
    conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    try:
        query = stream.start(slow, **stream_options, **{"kafka.linger.ms": "0"})
        wait_until(
            lambda: any(
                transaction.description.partitions
                for transaction in operator.overview().transactions
            )
        )
        query.stop()
    finally:
        conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    # The coordinator writes the markers after its response to EndTxn.
    wait_until_equal(lambda: operator.overview().transactions, ())
    assert outcomes(stream) == ["aborted"]


def test_batch_id_is_only_for_batches(stream: Stream) -> None:
    put_files(stream, 0, 1)
    with pytest.raises(Exception, match="batchId"):
        run(stream, batchId="1")


def test_async_progress_tracking_is_rejected(stream: Stream) -> None:
    put_files(stream, 0, 1)
    more = {"asyncProgressTrackingEnabled": "true", "trigger": {"processingTime": "0 seconds"}}
    with pytest.raises(Exception, match=r"async progress|asyncProgress"):
        stream.run(stream.files(), **options(stream.topic), **more)
    assert read(stream) == []


def test_failed_commit_after_the_decision_is_rolled_forward(
    stream: Stream, embedded_broker: EmbeddedBroker, unique_topic: str
) -> None:
    """Spark calls abort() with the messages of all tasks."""
    embedded_broker.create_topic(unique_topic, 2)
    sink = replace(stream.sink, bootstrap_servers=embedded_broker.bootstrap_servers)
    stream = replace(stream, sink=sink, topic=unique_topic)
    put_files(stream, 0, 1)
    run(stream)
    put_files(stream, 1, 2)
    # The first EndTxn is that of the preflight check, the second that of the decision.
    embedded_broker.faults.add("end_txn:after=2:next=1:error=TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    with pytest.raises(StreamingQueryException, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        run(stream)
    assert outcomes(stream) == ["committed", "rolled forward"]
    assert read(stream) == list(range(20))
    assert [report.status for report in stream.reports()] == ["succeeded", "failed"]
    run(stream)
    assert outcomes(stream) == ["committed", "rolled forward"]
    whole = sum(stream.reports(), DeliveryReport())
    assert (whole.status, whole.error, whole.persisted) == ("succeeded", "", 20)
    assert read(stream) == list(range(20))
