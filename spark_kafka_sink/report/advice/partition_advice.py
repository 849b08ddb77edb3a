"""The rules that derive advice about the distribution of rows over partitions."""

from __future__ import annotations

from spark_kafka_sink.common.delivery_status import partition_name
from spark_kafka_sink.common.text import MB, plural
from spark_kafka_sink.report.advice.advice import Advice, Direction
from spark_kafka_sink.report.advice.partition_facts import (
    ROW_BY_ROW,
    largest_partition,
    partition_sources,
)
from spark_kafka_sink.report.advice.pipeline_facts import (
    MIN_BATCHES,
    SMALL_BATCH_BYTES,
    PipelineFacts,
)

_MIN_SKEW = 3
"""Multiple of the mean partition size of a topic that counts as skew."""


def skew(facts: PipelineFacts) -> Advice | None:
    """Give advice if one partition gets most of the data because of the rows' content.

    Rows without a key are assigned to partitions batch by batch. Their distribution is uneven by
    chance and because brokers differ, so changing the rows would not help.
    """
    largest = largest_partition(facts.report, MIN_BATCHES)
    if largest is None or largest[1] < _MIN_SKEW:
        return None
    partition, excess = largest
    source = partition_sources(facts)[partition.topic]
    if source is None:
        return None
    return Advice(
        setting=source,
        direction=Direction.CHECK,
        evidence=f"{partition_name(*partition.key)} got {partition.bytes_uncompressed / MB:,.1f} "
        f"MB, {excess:,.1f} times the mean of its topic's partitions",
        conclusion="one partition gets most of the data and determines how long the write takes",
    )


def row_by_row(facts: PipelineFacts) -> Advice | None:
    """Give advice if a partitioner that ignores batches causes small batches in many partitions."""
    partitions = len(facts.report.partitions)
    partitioner = facts.setting("partitioner")
    if partitioner not in ROW_BY_ROW or partitions < 2 or facts.batches < 5 * MIN_BATCHES:
        return None
    limit, full = facts.int_setting("batch.size"), facts.metrics.closed_full
    if facts.batch_bytes > min(limit / 2, SMALL_BATCH_BYTES) or full >= 0.5 * facts.metrics.closed:
        return None
    return Advice(
        setting="the default partitioner",
        direction=Direction.SET,
        evidence=f"the partitioner {partitioner} distributes the rows over "
        f"{plural(partitions, 'partition')}; batches contain {facts.batch_bytes:,.0f} of "
        f"{plural(limit, 'byte')}",
        conclusion="each partition fills its own batch; by default, rows without a key fill one "
        "batch after another; the hash of the key determines the partition of other rows",
    )
