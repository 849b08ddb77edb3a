"""Batch jobs write all rows or none, and once for each batchId."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark import inheritable_thread_target
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_kafka_sink import register
from spark_kafka_sink.report.write_status import WriteStatus
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES
from tests.spark.exactly_once.exactly_once_writes import ExactlyOnce
from tests.spark.support.console import Console
from tests.spark.support.sink import BOTH_WAYS, WRITE, create_topics
from tests.spark.support.stream import WAIT_S, Stream
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import by_confluent, numbers_in


@BOTH_WAYS
def test_batch_is_committed_atomically(once: ExactlyOnce) -> None:
    report = once.write(once.numbers(0, 300))
    assert (report.transaction_outcome, report.persisted, report.tasks) == ("committed", 300, 3)
    assert len({transaction.transactional_id for transaction in report.transactions}) == 3
    assert once.read() == list(range(300))


@BOTH_WAYS
def test_failed_batch_writes_nothing(once: ExactlyOnce) -> None:
    """One of three tasks fails when the others may have written all rows."""
    failing = once.numbers(0, 300).selectExpr(
        "value", "IF(value = '299', 99, CAST(value AS INT) % 4) AS partition"
    )
    with pytest.raises(Exception, match="specifies a partition"):
        once.write(failing)
    assert once.report().status is WriteStatus.FAILED
    assert once.read() == []
    report = once.write(once.numbers(1000, 1010))
    assert report.transaction_outcome == "committed"
    assert once.read() == list(range(1000, 1010))  # no open transaction blocks readers


@BOTH_WAYS
def test_batch_id_is_written_once(
    once: ExactlyOnce, console: Console, caplog: pytest.LogCaptureFixture
) -> None:
    first = once.write(once.numbers(0, 100), batchId="2026-11-20")
    assert (first.transaction_outcome, first.persisted) == ("committed", 100)
    mark = console.mark()
    again = once.write(once.numbers(0, 100), batchId="2026-11-20")
    assert (again.transaction_outcome, again.persisted) == ("already written", 0)
    warning = "batchId 2026-11-20 was already written"
    if once.sink.format == WRITE:
        assert warning in caplog.text
    else:
        console.wait_for(warning, mark)
    with pytest.raises(Exception, match="100 rows, but now has 110"):
        once.write(once.numbers(0, 110), batchId="2026-11-20")
    by_column = {"batchId": "2026-11-20", "writeName": "by column"}
    rows = once.numbers(100, 150)
    once.by_column(rows.selectExpr("value", f"'{once.topic}' AS topic"), **by_column)
    with pytest.raises(Exception, match=f"topics {once.topic}"):
        once.by_column(rows.selectExpr("value", "'another' AS topic"), **by_column)
    assert once.read() == list(range(150))
    other = once.write(once.numbers(150, 200), batchId="2026-11-21")
    assert (other.transaction_outcome, other.persisted) == ("committed", 50)
    assert once.read() == list(range(200))


@BOTH_WAYS
def test_dead_letters_are_in_the_transaction(once: ExactlyOnce, real_kafka: KafkaCluster) -> None:
    dead = f"{once.topic}-dead"
    create_topics(real_kafka, [dead])
    tolerant = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead}
    rows = once.numbers(0, 100, tasks=2).selectExpr(
        "value", "IF(value = '7', 99, CAST(value AS INT) % 4) AS partition"
    )
    failing = rows.selectExpr("IF(value = '99', raise_error('late'), value) AS value", "partition")
    with pytest.raises(Exception, match="late"):
        once.write(failing, **tolerant)
    assert once.read() == []
    assert by_confluent(real_kafka.bootstrap_servers, dead) == []
    once.write(rows, **tolerant)
    assert once.read() == [number for number in range(100) if number != 7]
    assert [letter.value for letter in by_confluent(real_kafka.bootstrap_servers, dead)] == [b"7"]


@dataclass(frozen=True, slots=True)
class ForEachBatch:
    """A query with a foreachBatch function; it starts with two files of ten numbers."""

    once: ExactlyOnce
    stream: Stream

    def __post_init__(self) -> None:
        for number in range(2):
            lines = [str(10 * number + line) for line in range(10)]
            self.stream.put(f"{number}.txt", lines)

    def write(self, frame: DataFrame, number: int, **more: str) -> None:
        """Append a frame with the number of the micro-batch as batchId."""
        options = {**self.once.options, "batchId": str(number), **more}
        if "topic" in frame.columns:
            del options["topic"]
        self.once.sink.append(frame, options)

    def run(self, function: Callable[[DataFrame, int], None]) -> None:
        """Run the query until all files are processed."""
        writer = self.stream.files().writeStream.foreachBatch(function).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        assert query.awaitTermination(WAIT_S)

    def remove_commit(self, number: int) -> None:
        """Remove a batch from Spark's commit log, so that the next start repeats it."""
        for name in (f"{number}", f".{number}.crc"):
            (self.checkpoint / "commits" / name).unlink()

    @property
    def checkpoint(self) -> Path:
        """Return Spark's checkpoint folder."""
        return self.stream.folder / "checkpoint"


@pytest.fixture
def for_each(once: ExactlyOnce, stream: Stream) -> ForEachBatch:
    """Return a query with foreachBatch."""
    return ForEachBatch(once, stream)


@BOTH_WAYS
def test_for_each_batch_with_a_batch_id(once: ExactlyOnce, for_each: ForEachBatch) -> None:
    for_each.run(for_each.write)
    written = once.report()
    assert (written.transaction_outcome, written.persisted) == ("committed", 10)
    for_each.remove_commit(1)
    for_each.run(for_each.write)
    assert once.report() == written
    assert once.read() == list(range(20))
    # A new checkpoint starts at batch 0, possibly with different rows, which must not be dropped.
    shutil.rmtree(for_each.checkpoint)
    with pytest.raises(StreamingQueryException, match="foreachBatch of another query"):
        for_each.run(for_each.write)
    assert once.read() == list(range(20))


@BOTH_WAYS
@pytest.mark.parametrize("atomic", ["false", "true"])
def test_for_each_batch_to_two_topics(
    once: ExactlyOnce, for_each: ForEachBatch, real_kafka: KafkaCluster, atomic: str
) -> None:
    """The query fails between the writes (with equal row counts) and after both."""
    other = f"{once.topic}-other"
    create_topics(real_kafka, [other])
    dies = [True]

    def both(frame: DataFrame, number: int) -> None:
        rows = frame.coalesce(1)
        for_each.write(rows, number, atomicBatch=atomic)
        if dies.pop() if dies else False:
            raise RuntimeError("between the writes")
        for_each.write(rows, number, topic=other, atomicBatch=atomic)

    with pytest.raises(StreamingQueryException, match="between the writes"):
        for_each.run(both)
    assert len(once.read()) == 10
    assert numbers_in(real_kafka.bootstrap_servers, other) == []
    for_each.run(both)
    for_each.remove_commit(1)
    for_each.run(both)
    for topic in (once.topic, other):
        assert numbers_in(real_kafka.bootstrap_servers, topic) == list(range(20))


@BOTH_WAYS
@pytest.mark.parametrize("by_column", [False, True])
def test_two_writes_of_for_each_batch_to_one_topic(
    once: ExactlyOnce, for_each: ForEachBatch, *, by_column: bool
) -> None:
    """Writes with equal row counts require a name; without one the query fails."""
    name: dict[str, str] = {}

    def halves(frame: DataFrame, number: int) -> None:
        for remainder, more in ((0, {}), (1, name)):
            rows = frame.where(f"CAST(value AS INT) % 2 = {remainder}")
            if by_column:
                rows = rows.selectExpr("value", f"'{once.topic}' AS topic")
            for_each.write(rows, number, **more)

    for _ in range(2):  # also if the first write already exists
        with pytest.raises(StreamingQueryException, match="another write") as e:
            for_each.run(halves)
        assert "writeName" in str(e.value)
        assert len(once.read()) == 5
    name["writeName"] = "odd/ü #1"
    for_each.run(halves)
    for_each.remove_commit(1)
    for_each.run(halves)
    assert once.read() == list(range(20))


@BOTH_WAYS
def test_threads_of_for_each_batch(
    once: ExactlyOnce, for_each: ForEachBatch, real_kafka: KafkaCluster, spark: SparkSession
) -> None:
    """Writes from threads without the query's local properties fail and lose no rows."""
    other = f"{once.topic}-other"
    create_topics(real_kafka, [other])
    topics, inherits = [once.topic, once.topic], False

    def halves(frame: DataFrame, number: int) -> None:
        def half(remainder: int) -> None:
            rows = frame.where(f"CAST(value AS INT) % 2 = {remainder}")
            for_each.write(rows, number, topic=topics[remainder])

        with ThreadPoolExecutor(1) as pool:
            if HAS_DATA_SOURCES:
                pool.submit(register, spark).result()
            for remainder in range(2):
                target = inheritable_thread_target(spark) if HAS_DATA_SOURCES else None
                inherited = (target or inheritable_thread_target)(half)
                pool.submit(inherited if inherits else half, remainder).result()

    with pytest.raises(StreamingQueryException, match="inheritable_thread_target"):
        for_each.run(halves)
    assert once.read() == []
    inherits = True
    with pytest.raises(StreamingQueryException, match="writeName"):
        for_each.run(halves)
    topics[1] = other
    for_each.run(halves)
    assert once.read() == list(range(0, 20, 2))
    assert numbers_in(real_kafka.bootstrap_servers, other) == list(range(1, 20, 2))


def test_sql_inserts_a_batch_id_once(once: ExactlyOnce) -> None:
    spark = once.sink.spark
    pairs = ", ".join(
        f"'{name}' = '{value}'" for name, value in (once.options | {"batchId": "sql"}).items()
    )
    spark.sql("CREATE TABLE once_rows (value STRING) USING kafkaprod")
    try:
        for _ in range(2):
            spark.sql(
                f"INSERT INTO once_rows WITH ({pairs}) SELECT CAST(id AS STRING) FROM range(60)"
            )
    finally:
        spark.sql("DROP TABLE once_rows")
    writer = once.numbers(60, 90).write.format("kafkaprod").mode("append")
    writer.options(**once.options).saveAsTable("once_table")
    spark.sql("DROP TABLE once_table")
    assert once.read() == list(range(90))


def test_reset_is_only_for_streams(once: ExactlyOnce) -> None:
    with pytest.raises(Exception, match="resetTransactionalState"):
        once.write(once.numbers(0, 1), resetTransactionalState="true")


@BOTH_WAYS
def test_one_prefix_for_several_jobs(once: ExactlyOnce) -> None:
    """A batchId can be any text and is optional."""
    first = once.write(once.numbers(0, 10), batchId="a b/c ü")
    second = once.write(once.numbers(10, 20), kafka__transaction__timeout__ms="60000")
    assert first.transaction_outcome == second.transaction_outcome == "committed"
    assert once.read() == list(range(20))
