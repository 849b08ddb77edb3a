"""Unsupported operations of the data source."""

from collections.abc import Callable
from re import fullmatch

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from spark_kafka_sink import ConfigError, KafkaProdDataSource
from spark_kafka_sink.common.errors import ReportError
from spark_kafka_sink.spark.writers.data_source_writers import KafkaProdWriter

SOURCE = KafkaProdDataSource({"kafka.bootstrap.servers": "h:9092", "topic": "t"})


@pytest.mark.parametrize("read", [SOURCE.reader, SOURCE.streamReader])
def test_reading_is_not_supported(read: Callable[[StructType], object]) -> None:
    with pytest.raises(ConfigError, match=r"format\('kafka'\)"):
        read(StructType([]))


def test_stream_has_no_dry_run() -> None:
    source = KafkaProdDataSource({**SOURCE.options, "dryRun": "true"})
    with pytest.raises(ConfigError, match="foreachBatch"):
        source.streamWriter(StructType([StructField("value", StringType())]), overwrite=False)


def test_unwritable_statistics_path_is_rejected_on_the_driver() -> None:
    source = KafkaProdDataSource({**SOURCE.options, "statisticsPath": "s3a://logs/statistics"})
    with pytest.raises(ReportError, match="s3a://logs/statistics"):
        source.writer(StructType([StructField("value", StringType())]), overwrite=False)


def test_query_of_the_statistics_path_is_kept() -> None:
    path = "s3://logs/statistics/?endpoint_override=h:1/"
    source = KafkaProdDataSource({**SOURCE.options, "statisticsPath": path})
    writer = source.writer(StructType([StructField("value", StringType())]), overwrite=False)
    assert isinstance(writer, KafkaProdWriter)
    file = str(writer.task._statistics_path())
    assert fullmatch(r"s3://logs/statistics/task-[\w-]+\?endpoint_override=h:1/", file)


def test_overwrite_error_describes_the_dropped_table() -> None:
    with pytest.raises(ConfigError, match="dropped the table"):
        SOURCE.writer(StructType([]), overwrite=True)


def test_buffer_smaller_than_a_record_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    schema = StructType([StructField("value", StringType())])
    for memory in ("900000", "1048576"):
        options = {**SOURCE.options, "kafka.buffer.memory": memory, "preflight": "off"}
        KafkaProdDataSource(options).writer(schema, overwrite=False)
    (record,) = caplog.records
    assert record.getMessage() == (
        "kafka.buffer.memory = 900,000 is less than kafka.max.request.size = 1,048,576: a row "
        "above kafka.buffer.memory fails the write"
    )
