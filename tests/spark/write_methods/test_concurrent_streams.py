"""Concurrent streams in one session."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_kafka_sink import ColumnError, DeliveryReport, EmbeddedBroker, error_of, last_report
from tests.spark.support.console import Console
from tests.spark.write_methods.write_method import ROWS, WAIT_S, Write

NAMES = ("side-a", "side-b", "side-failing")


def test_one_query_fails_and_others_continue(
    spark: SparkSession, embedded_broker: EmbeddedBroker, tmp_path: Path, console: Console
) -> None:
    since, reports = console.mark(), tmp_path / "reports"

    def start(name: str) -> StreamingQuery:
        embedded_broker.create_topic(name, 1)
        write = Write(spark, embedded_broker.bootstrap_servers, name, tmp_path / name)
        partition = "7" if name == NAMES[2] else "0"
        frame = write.files().selectExpr("value", f"{partition} AS partition")
        stream = write.stream(frame, "append", {"availableNow": True}).queryName(name)
        query: StreamingQuery = stream.option("reportPath", str(reports)).start()
        return query

    queries = [start(name) for name in NAMES]
    try:
        assert [query.awaitTermination(WAIT_S) for query in queries[:2]] == [True, True]
        with pytest.raises(StreamingQueryException) as caught:
            queries[2].awaitTermination(WAIT_S)
    finally:
        for query in queries:
            query.stop()
    assert isinstance(error_of(caught.value), ColumnError)
    assert [sum(embedded_broker.end_offsets(name)) for name in NAMES] == [ROWS, ROWS, 0]
    last = [last_report(query) for query in queries]
    assert [report.query_name for report in last] == list(NAMES)
    kept = [DeliveryReport.read_all(path.parent) for path in reports.rglob("batch-0.json")]
    assert sorted((query_reports[0].query_name, len(query_reports)) for query_reports in kept) == [
        (NAMES[0], 2),
        (NAMES[1], 2),
        (NAMES[2], 1),
    ]
    for name in NAMES[:2]:
        console.wait_for(f"micro-batch 1 of {name} is done", since)
