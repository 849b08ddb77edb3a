"""What the data source can't do, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from spark_kafka_sink import ConfigError, KafkaProdDataSource
from spark_kafka_sink.common.errors import ReportError

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = KafkaProdDataSource({"kafka.bootstrap.servers": "h:9092", "topic": "t"})


@pytest.mark.parametrize("read", [SOURCE.reader, SOURCE.streamReader])
def test_reading_is_for_another_format(read: Callable[[StructType], object]) -> None:
    with pytest.raises(ConfigError, match=r"format\('kafka'\)"):
        read(StructType([]))


def test_a_stream_has_no_dry_run() -> None:
    source = KafkaProdDataSource({**SOURCE.options, "dryRun": "true"})
    with pytest.raises(ConfigError, match="foreachBatch"):
        source.streamWriter(StructType([StructField("value", StringType())]), overwrite=False)


def test_a_place_that_no_task_can_write_statistics_to_is_refused_by_the_driver() -> None:
    source = KafkaProdDataSource({**SOURCE.options, "statisticsPath": "s3a://logs/statistics"})
    with pytest.raises(ReportError, match="s3a://logs/statistics"):
        source.writer(StructType([StructField("value", StringType())]), overwrite=False)


def test_an_overwrite_says_what_spark_has_done_to_the_table() -> None:
    with pytest.raises(ConfigError, match="dropped the table"):
        SOURCE.writer(StructType([]), overwrite=True)


def test_a_buffer_that_is_smaller_than_a_record_may_be_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    schema = StructType([StructField("value", StringType())])
    for memory in ("900000", "1048576"):
        options = {**SOURCE.options, "kafka.buffer.memory": memory, "preflight": "off"}
        KafkaProdDataSource(options).writer(schema, overwrite=False)
    (record,) = caplog.records
    assert record.getMessage() == (
        "kafka.buffer.memory = 900,000 is less than kafka.max.request.size = 1,048,576: a row "
        "above kafka.buffer.memory fails the write"
    )
