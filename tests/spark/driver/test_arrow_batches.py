"""`write` turns off the measuring of Arrow batches only for rows of a limited size."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession, types

from spark_kafka_sink import write
from spark_kafka_sink.report.spark_settings import ARROW_BYTES, ARROW_RECORDS, UNMEASURED
from spark_kafka_sink.spark.arrow_batches import row_width
from spark_kafka_sink.spark.runtime.spark_releases import ARROW_BATCH_BYTES
from tests.spark.support.sink import Sink

NUMBERS = ("id", "id / 7D AS ratio", "timestamp_millis(id) AS at", "struct(id, true AS ok) AS pair")
DEFAULT = str(ARROW_BATCH_BYTES)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    for name in (ARROW_BYTES, ARROW_RECORDS):
        spark.conf.unset(name)


@pytest.mark.parametrize(
    ("columns", "settings", "limit"),
    [
        (NUMBERS, {}, str(UNMEASURED)),
        (NUMBERS, {ARROW_BYTES: "4194304"}, "4194304"),  # the session's setting counts
        (NUMBERS, {ARROW_RECORDS: "0"}, DEFAULT),  # no limit in rows
        (NUMBERS, {ARROW_RECORDS: "10000000"}, DEFAULT),
        ((*NUMBERS, "string(id) AS name"), {}, DEFAULT),
        ((*NUMBERS, "array(id) AS several"), {}, DEFAULT),
        ((*NUMBERS, "struct(id, string(id) AS text) AS nested"), {}, DEFAULT),
    ],
)
def test_only_rows_of_limited_size_are_not_measured(
    columns: tuple[str, ...],
    settings: dict[str, str],
    limit: str,
    session: SparkSession,
    sink: Sink,
    topic: str,
) -> None:
    for name, value in settings.items():
        session.conf.set(name, value)
    options = {"kafka.bootstrap.servers": sink.bootstrap_servers, "topic": topic}
    rows = session.range(0, 1_000, 1, 2).selectExpr(*columns)
    report = write(rows, {**options, "value.format": "json"})
    assert report.persisted == 1_000
    assert dict(report.metrics.settings)[ARROW_BYTES] == limit
    assert session.sparkContext.getLocalProperty(ARROW_BYTES) is None


def test_type_without_a_limit_has_no_width() -> None:
    text = types.StringType()
    assert row_width(types.LongType()) == 9
    assert row_width(types.StructType().add("a", "long").add("b", "boolean")) == 12
    for unlimited in (text, types.BinaryType(), types.ArrayType(types.LongType())):
        assert row_width(unlimited) is None
        assert row_width(types.StructType().add("a", "long").add("b", unlimited)) is None
