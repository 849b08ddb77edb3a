"""The ways to write that every PySpark release has, and `format("kafkaprod")` since 4.0.

This file runs on each supported release: see `make test-releases`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark_kafka_sink import (
    ConfigError,
    EmbeddedBroker,
    UnknownTopicError,
    error_of,
    last_report,
    micro_batch_writer,
    register,
    repartition_by_kafka_partition,
    warm_up,
)
from spark_kafka_sink.report.spark_settings import ARROW_BYTES, UNMEASURED
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES
from spark_kafka_sink.spark.write import write
from tools.support.readers import numbers_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

ROWS = 100
GUARANTEES = [{}, {"deliveryGuarantee": "exactly-once"}]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """Start a session without the jars of a release, or use that of other tests."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    started = SparkSession.getActiveSession()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    yield session
    if started is None:
        session.stop()


def by_format(frame: DataFrame, options: dict[str, str]) -> None:
    frame.write.format("kafkaprod").options(**options).mode("append").save()


@pytest.fixture
def options(embedded_broker: EmbeddedBroker, unique_topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": embedded_broker.bootstrap_servers,
        "topic": unique_topic,
        "transactionalIdPrefix": unique_topic,
    }


def written(options: dict[str, str]) -> list[int]:
    return numbers_in(options["kafka.bootstrap.servers"], options["topic"])


def rows(session: SparkSession) -> DataFrame:
    return session.range(ROWS).selectExpr("cast(id AS string) AS key", "cast(id AS string) value")


@pytest.mark.deep
@pytest.mark.parametrize("guarantee", GUARANTEES, ids=["at least once", "exactly once"])
@pytest.mark.parametrize("by", [write, by_format][: 1 + HAS_DATA_SOURCES])
def test_batch(
    by: Callable[[DataFrame, dict[str, str]], object],
    guarantee: dict[str, str],
    session: SparkSession,
    options: dict[str, str],
) -> None:
    write_options = options | guarantee
    if not guarantee:
        del write_options["transactionalIdPrefix"]
    by(rows(session), write_options)
    assert written(options) == list(range(ROWS))
    assert last_report().persisted == ROWS


@pytest.mark.deep
@pytest.mark.parametrize("guarantee", GUARANTEES, ids=["at least once", "exactly once"])
@pytest.mark.parametrize("by", ["micro_batch_writer", "format"][: 1 + HAS_DATA_SOURCES])
def test_stream(
    by: str,
    guarantee: dict[str, str],
    session: SparkSession,
    options: dict[str, str],
    tmp_path: Path,
) -> None:
    stream_options = options | guarantee
    if not guarantee:
        del stream_options["transactionalIdPrefix"]
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "0.txt").write_text("\n".join(map(str, range(ROWS))))
    writer = session.readStream.text(str(tmp_path / "input")).writeStream
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    if by == "format":
        writer = writer.format("kafkaprod").options(**stream_options)
    else:
        writer = writer.foreachBatch(micro_batch_writer(stream_options))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    assert written(options) == list(range(ROWS))
    assert last_report(query).persisted == ROWS


@pytest.mark.deep
def test_errors(session: SparkSession, options: dict[str, str]) -> None:
    del options["transactionalIdPrefix"]
    with pytest.raises(ConfigError, match=r"Did you mean topic\?"):
        write(rows(session), options | {"topc": "a"})
    with EmbeddedBroker(topics={"other": 1}) as broker:
        missing = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "missing"}
        with pytest.raises(UnknownTopicError):
            write(rows(session), missing | {"kafka.max.block.ms": "1000"})
    warm_up(session).join(240)
    if not HAS_DATA_SOURCES:
        with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND") as caught:
            by_format(rows(session), options)
        assert "write(df, options)" in str(error_of(caught.value))
        with pytest.raises(ConfigError, match=r"write\(df, options\)"):
            register(session)


@pytest.mark.deep
def test_kafka_partitions(session: SparkSession, options: dict[str, str]) -> None:
    del options["transactionalIdPrefix"]
    frame = repartition_by_kafka_partition(rows(session), options, partitions=7, tasks=3)
    assert frame.where("pmod(partition, 3) != spark_partition_id()").count() == 0
    assert frame.select(sf.countDistinct("partition")).collect()[0][0] == 7


def test_kafka_partitions_of_key_fields_are_those_of_the_sink(
    session: SparkSession, embedded_broker: EmbeddedBroker, options: dict[str, str]
) -> None:
    del options["transactionalIdPrefix"]
    options |= {"topic.create": "true", "topic.partitions": "7"}
    options |= {"value.format": "json", "value.fields": "a.n", "key.fields": "id"}
    frame = session.range(ROWS).selectExpr("string(id) AS id", "1 AS `a.n`")
    write(frame, options)
    written = {record.key: record.partition for record in embedded_broker.records(options["topic"])}
    rows = repartition_by_kafka_partition(frame, options).collect()
    assert {row.id.encode(): row.partition for row in rows} == written
    assert len(set(written.values())) == 7


def test_reported_size_of_arrow_batches_is_the_limit_of_spark(
    session: SparkSession, options: dict[str, str]
) -> None:
    del options["transactionalIdPrefix"]
    report = write(session.range(ROWS).selectExpr("string(id) AS value"), options)
    settings = session._jsparkSession.sessionState().conf()
    limit = settings.arrowMaxBytesPerBatch() if HAS_DATA_SOURCES else UNMEASURED
    assert dict(report.metrics.settings)[ARROW_BYTES] == str(limit)


def test_records_become_a_dataframe(
    session: SparkSession, embedded_broker: EmbeddedBroker, options: dict[str, str]
) -> None:
    del options["transactionalIdPrefix"]
    headers = "array(struct('h' AS key, x'00' AS value)) AS headers"
    for columns in (["'k' AS key", "cast(null AS string) AS value", headers], ["'v' AS value"]):
        write(session.range(1).selectExpr(*columns), options | {"includeHeaders": "true"})
    records = embedded_broker.records(options["topic"])
    frame = records.to_spark(session)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,headers:array<struct<key:string,value:binary>>>"
    )
    milliseconds = sf.expr("unix_millis(timestamp)").alias("timestamp")
    rows = frame.withColumn("timestamp", milliseconds).collect()
    table = records.to_arrow()
    times = table.column("timestamp").cast(pa.int64())
    expected = table.set_column(5, "timestamp", times).to_pylist()
    assert [row.asDict(recursive=True) for row in rows] == expected
    assert type(records)().to_spark(session).count() == 0
