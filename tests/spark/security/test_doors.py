"""What Spark's own sink accepts is the reference: by every door, a stream by every listener."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.support.sink import JVM, OURS
from tests.support.security.doors import DOORS, Door
from tools.support.readers import by_confluent

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tests.support.security.secured import SecuredKafka

ROWS = 300
WAIT_S = 240
THEIRS = [door for door in DOORS if door.jvm]


def frame(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 2).selectExpr("CAST(id AS STRING) AS value")


def numbers(kafka: SecuredKafka, topic: str) -> list[int]:
    """What a foreign reader finds, who comes by the listener that asks nobody; sorted."""
    found = by_confluent(kafka.bootstrap_servers, topic)
    return sorted(int(record.value or b"-1") for record in found)


def write(spark: SparkSession, form: str, options: dict[str, str], topic: str) -> None:
    frame(spark).write.format(form).mode("append").options(**options, topic=topic).save()


@pytest.mark.parametrize("door", THEIRS, ids=lambda door: door.name)
def test_sparks_own_sink_enters(
    spark: SparkSession, kafka: SecuredKafka, topic: str, door: Door
) -> None:
    write(spark, JVM, door.spark_options(kafka), topic)
    assert numbers(kafka, topic) == list(range(ROWS))


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_batch_enters(spark: SparkSession, kafka: SecuredKafka, topic: str, door: Door) -> None:
    write(spark, OURS, door.spark_options(kafka), topic)
    assert numbers(kafka, topic) == list(range(ROWS))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two files of numbers."""
    folder = tmp_path / "source"
    folder.mkdir()
    for start in (0, ROWS // 2):
        lines = [f"{number}\n" for number in range(start, start + ROWS // 2)]
        (folder / f"{start}.txt").write_text("".join(lines))
    return folder


def test_streams_enter(
    spark: SparkSession, kafka: SecuredKafka, unique_topic: str, source: Path, tmp_path: Path
) -> None:
    """A query for the first door of each listener, side by side."""

    def start(number: int, door: Door) -> StreamingQuery:
        kafka.admin.create_topic(f"{unique_topic}-{number}", 3)
        stream = spark.readStream.text(str(source))
        options = {**door.spark_options(kafka), "topic": f"{unique_topic}-{number}"}
        writer = stream.writeStream.format(OURS).options(**options)
        checkpoint = str(tmp_path / f"checkpoint-{number}")
        return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

    doors = list({door.listener: door for door in reversed(DOORS)}.values())
    queries = {number: start(number, door) for number, door in enumerate(doors)}
    for number, query in queries.items():
        assert query.awaitTermination(WAIT_S), doors[number].name
        assert query.exception() is None, doors[number].name
        assert numbers(kafka, f"{unique_topic}-{number}") == list(range(ROWS)), doors[number].name
