"""The same rows and options with Spark's own Kafka sink and with ours."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as sf

from tests.spark.scenarios import ACCEPTED, REFUSED, Scenario
from tests.spark.sink import JVM, OURS, Sink, create_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from tests.kafka.broker import KafkaCluster

_COLUMNS = ("topic", "partition", "key", "value", "headers")
_READ_SCHEMA = (
    "topic string, partition int, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)


def _name(scenario: Scenario) -> str:
    return scenario.name


def _topics(scenario: Scenario) -> set[str]:
    """Every topic that the scenario may write to, by the scenario's own names."""
    columns = [part.split()[0] for part in scenario.schema.split(", ")]
    named = {scenario.topic or "one"}
    if "topic" in columns:
        place = columns.index("topic")
        named |= {row[place] for row in scenario.rows if row[place] is not None}
    return named


def _prefix(scenario: Scenario, sink: Sink) -> str:
    return f"{scenario.name}-{sink.format}."


def _write(scenario: Scenario, sink: Sink) -> None:
    frame = sink.frame(scenario.schema, *scenario.rows)
    prefix = _prefix(scenario, sink)
    if dict(frame.dtypes).get("topic") == "string":
        frame = frame.withColumn("topic", sf.concat(sf.lit(prefix), "topic"))
    topic = {} if scenario.topic is None else {"topic": prefix + scenario.topic}
    sink.write(frame, **topic, **scenario.options)


def _read(sink: Sink, scenario: Scenario) -> list[Row]:
    reader = sink.spark.read.format("kafka").option("includeHeaders", "true")
    reader = reader.option("kafka.bootstrap.servers", sink.bootstrap_servers)
    return (
        reader.option("subscribePattern", f"{scenario.name}-kafka(prod)?[.].*")
        .load()
        .coalesce(1)
        .sortWithinPartitions("topic", "partition", "offset")
        .select(*_COLUMNS)
        .collect()
    )


def _written(sink: Sink, scenario: Scenario, rows: list[Row]) -> DataFrame:
    """What one format wrote, without the topics' prefix; in log order if rows fix their places."""
    prefix = _prefix(scenario, sink)
    own = [
        (row.topic.removeprefix(prefix), *row[1:]) for row in rows if row.topic.startswith(prefix)
    ]
    frame = sink.spark.createDataFrame(own, _READ_SCHEMA)
    return frame if scenario.placed else frame.drop("partition")


@pytest.mark.parametrize("scenario", ACCEPTED, ids=_name)
def test_both_formats_write_the_same(
    scenario: Scenario, sink: Sink, real_kafka: KafkaCluster
) -> None:
    ours, theirs = sink, replace(sink, format=JVM)
    create_topics(
        real_kafka,
        [_prefix(scenario, each) + name for each in (ours, theirs) for name in _topics(scenario)],
    )
    _write(scenario, theirs)
    _write(scenario, ours)
    rows = _read(sink, scenario)
    assert len(rows) == 2 * len(scenario.rows)
    assert_df_equality(
        _written(ours, scenario, rows),
        _written(theirs, scenario, rows),
        ignore_row_order=not scenario.placed,
    )


@pytest.mark.parametrize("scenario", REFUSED, ids=_name)
@pytest.mark.parametrize("form", [OURS, JVM])
def test_both_formats_refuse_the_same(
    scenario: Scenario, form: str, sink: Sink, real_kafka: KafkaCluster
) -> None:
    writer = replace(sink, format=form)
    create_topics(real_kafka, [_prefix(scenario, writer) + name for name in _topics(scenario)])
    error, jobs = writer.jobs_of(lambda: _write(scenario, writer))
    assert error is not None, "the write was accepted"
    assert scenario.refused is not None
    assert scenario.refused in str(error)
    if scenario.early:
        assert jobs == 0
