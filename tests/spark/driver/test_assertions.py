"""`assert_written` in tests of users' jobs."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_kafka_sink import ConfigError, EmbeddedBroker, assert_written
from tests.spark.support.append import append
from tests.support.python import run_python

TEST = """
from spark_kafka_sink import EmbeddedBroker, assert_written
from tests.spark.support.append import append

class Frame:  # as much of a DataFrame as is used
    columns = ["key", "value"]
    dtypes = [("key", "string"), ("value", "string")]
    sparkSession = None
    def select(self, *names): return self
    def collect(self): return [{"key": "bob", "value": "v"}]

def test_mine():
    with EmbeddedBroker(topics={"events": 1}) as broker:
        assert_written(Frame(), broker, "events")
"""


def test_compare_records_with_a_frame(spark: SparkSession, embedded_broker: EmbeddedBroker) -> None:
    embedded_broker.create_topic("asserted", 2)
    headers = "array(named_struct('key', 'h', 'value', cast('x' AS binary))) AS headers"
    columns = ("cast(id AS string) AS key", "'v' AS value", "'asserted' AS topic", headers, "id")
    frame = spark.range(0, 3, 1, 1).selectExpr(*columns)
    append(frame, {"kafka.bootstrap.servers": embedded_broker.bootstrap_servers})
    assert_written(frame, embedded_broker)
    assert_written(frame.select("value"), embedded_broker, "asserted")
    with pytest.raises(AssertionError) as caught:
        assert_written(frame.where("id > 0"), embedded_broker, "asserted")
    assert str(caught.value).splitlines() == [
        "2 rows expected, 3 records found: 1 unexpected",
        "  unexpected: 0 = v with headers h=x",
    ]
    with pytest.raises(ConfigError, match="no column `topic`"):
        assert_written(frame.drop("topic"), embedded_broker)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("id string, price double", r"no column to compare: id, price\..*options"),
        ("Key string, value string", "column Key.*Did you mean key"),
        ("key string, vlaue string", "column vlaue.*Did you mean value"),
        ("key string, value int", r"column value is int.*col\('value'\)"),
    ],
)
def test_frame_without_comparable_columns(
    spark: SparkSession, embedded_broker: EmbeddedBroker, schema: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        assert_written(spark.createDataFrame([], schema), embedded_broker, "asserted")


def test_traceback_shows_only_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TEST)
    command = ("-m", "pytest", "-p", "no:cacheprovider", "test_mine.py")
    done = run_python(*command, cwd=tmp_path, env={**os.environ, "COLUMNS": "120"})
    assert done.returncode == 1
    assert "missing: bob = v" in done.stdout
    assert 'assert_written(Frame(), broker, "events")' in done.stdout
    assert "compare_rows" not in done.stdout
    assert len(done.stdout.splitlines()) < 35
