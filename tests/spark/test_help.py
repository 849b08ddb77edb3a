"""The examples in the docstring of `spark_kafka_sink` run unchanged."""

import re
import textwrap
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_kafka_sink
from spark_kafka_sink import EmbeddedBroker
from tests.support.waiting import wait_until

ADDRESS = "localhost:9092"
FILES = ("report.json", "checkpoint")
"""Paths relative to the folder in which Spark was started, which is not that of the test."""


def examples() -> str:
    """Return the indented blocks after double colons."""
    blocks = re.findall(r"::\n\n((?:(?: {4}.*)?\n)+)", spark_kafka_sink.__doc__ or "")
    assert len(blocks) == 4
    return "\n".join(textwrap.dedent(block) for block in blocks)


def test_examples(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = examples()
    for name in FILES:
        code = code.replace(f'"{name}"', f'"{tmp_path / name}"')
    assert code.count(str(tmp_path)) == 3
    assert ADDRESS in code
    with EmbeddedBroker(topics={"events": 4}) as broker:
        try:
            exec(code.replace(ADDRESS, broker.bootstrap_servers), {"spark": spark})
            (query,) = spark.streams.active
            wait_until(lambda: len(broker.records("events")) > 2000)
            assert query.exception() is None
        finally:
            for query in spark.streams.active:
                query.stop()
    assert "1,000 persisted" in capsys.readouterr().out
