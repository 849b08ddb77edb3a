"""Advice about rows that are unevenly distributed."""

from dataclasses import replace
from typing import Any

from spark_kafka_sink.report.advice.advice import Direction
from spark_kafka_sink.report.advice.advice_rules import advise
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.display.summary import summarize
from spark_kafka_sink.report.metrics.producer_metrics import (
    TopicMetrics,
)
from tests.unit.report.advice.healthy_report import only, parts, report, rows_of


def test_single_key_counts_empty_partitions() -> None:
    topics = (TopicMetrics(topic="t", partitions=8, keyed_records=2_000),)
    skewed = report(partitions=parts(180_000_000), topics=topics)
    assert only(advise(skewed)) == ("the keys", Direction.CHECK)
    assert "t-0 got 180.0 MB, 8.0 times the mean" in advise(skewed)[0].evidence
    assert "1 topic, 1 of 8 partitions, 200 batches" in summarize(skewed)
    assert "1,000 records in 1 of 8 partitions" in summarize(skewed)
    few = report(partitions=(replace(parts(180_000_000)[0], batches=3),), topics=topics)
    assert advise(few) == []
    assert advise(DeliveryReport.from_json(skewed.to_json())) == advise(skewed)


def test_partition_count_is_the_highest_of_all_tasks() -> None:
    both = report(topics=(TopicMetrics(topic="t", partitions=4),)) + report(
        topics=(TopicMetrics(topic="t", partitions=8),)
    )
    assert both.metrics.topic_partitions == {"t": 8}


def test_keyless_rows_are_not_skewed_by_keys() -> None:
    """A hundred partitions and as many batches: some get several at random."""
    sizes = (5_000_000, *[1_000_000] * 40)
    skewed: dict[str, Any] = {"partitions": parts(*sizes)}
    assert advise(report(**skewed, **rows_of("default", partitions=100))) == []
    keyed = advise(report(**skewed, **rows_of("default", keyed=41_000, partitions=100)))
    assert only(keyed) == ("the keys", Direction.CHECK)
    named = advise(report(**skewed, **rows_of("default", assigned=41_000, partitions=100)))
    assert only(named) == ("the column partition", Direction.CHECK)
    own = advise(report(**skewed, **rows_of("function", partitions=100)))
    assert only(own) == ("the function of kafka.partitioner", Direction.CHECK)
