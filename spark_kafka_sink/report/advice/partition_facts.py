"""How the rows of a report are distributed over partitions, and by what."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.report.advice.pipeline_facts import PipelineFacts
    from spark_kafka_sink.report.delivery_counters import DeliveryCounters
    from spark_kafka_sink.report.partition_report import PartitionReport

ROW_BY_ROW = ("round_robin", "random")
"""Partitioners that assign each row to a partition, with or without a key."""


def partition_sources(facts: PipelineFacts) -> dict[str, str | None]:
    """Return the source of most rows' partitions for each topic; None if the sink chose them."""
    rows: Counter[str] = Counter()
    for partition in facts.report.partitions:
        rows[partition.topic] += partition.records
    keyed = {topic.topic: topic.keyed_records for topic in facts.metrics.topics}
    assigned = {topic.topic: topic.assigned_records for topic in facts.metrics.topics}
    is_function = facts.setting("partitioner") == "function"
    rest = "the function of kafka.partitioner" if is_function else None
    return {
        topic: _larger_source(keyed.get(topic, 0), assigned.get(topic, 0), count) or rest
        for topic, count in rows.items()
    }


def _larger_source(keyed: int, assigned: int, rows: int) -> str | None:
    if 2 * (keyed + assigned) < rows:
        return None
    return "the keys" if keyed >= assigned else "the column partition"


def open_batches(facts: PipelineFacts) -> int:
    """Return the maximum number of batches that a task fills at the same time.

    If the sink chooses the partitions, it fills one batch per topic at a time. Otherwise, each
    partition has an open batch.
    """
    partitions = facts.report.partitions
    if facts.setting("partitioner") in ROW_BY_ROW:
        return len(partitions)
    sources = partition_sources(facts)
    counts = Counter(partition.topic for partition in partitions)
    return sum(count if sources[topic] else 1 for topic, count in counts.items())


def largest_partition(
    report: DeliveryCounters, min_batches: int = 0
) -> tuple[PartitionReport, float] | None:
    """Return the largest partition of topics with several partitions, and its excess.

    The excess is the size of the partition divided by the mean size of its topic's partitions,
    including empty partitions. Topics with fewer than `min_batches` batches are ignored.
    """
    known = report.metrics.topic_partitions
    largest_skew: tuple[PartitionReport, float] | None = None
    for topic, group in groupby(report.partitions, attrgetter("topic")):
        partitions = list(group)
        total = sum(partition.bytes_uncompressed for partition in partitions)
        count = max(len(partitions), known.get(topic, 0))
        if count < 2 or not total or sum(map(attrgetter("batches"), partitions)) < min_batches:
            continue
        largest = max(partitions, key=attrgetter("bytes_uncompressed"))
        excess = largest.bytes_uncompressed * count / total
        if largest_skew is None or excess > largest_skew[1]:
            largest_skew = largest, excess
    return largest_skew
