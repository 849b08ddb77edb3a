"""Rules on how rows are spread over partitions: the keys, the partitioner, the column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.report.advice.advice import MB, Advice, Direction

if TYPE_CHECKING:
    from spark_kafka_sink.report.pipeline import PipelineFacts

FEW_BATCHES = 20
"""Fewer batches than this say nothing about a setting."""
SMALL_BATCH = 32 * 1024
SKEW = 3
"""Times the mean of its topic's partitions."""
ROW_BY_ROW = ("round_robin", "random")
"""Partitioners that give each row a partition whether it has a key or not."""


def skew(facts: PipelineFacts) -> Advice | None:
    """One partition gets most of the data, for a reason that lies in the rows.

    Rows without a key go to the partitions batch by batch, which are spread unevenly by chance, and
    because brokers differ; nothing about the rows would change that.
    """
    largest = facts.largest_partition(FEW_BATCHES)
    if largest is None or largest[1] < SKEW:
        return None
    part, excess = largest
    decided_by = facts.decided_by(part.topic)
    if decided_by is None:
        return None
    return Advice(
        setting=decided_by,
        direction=Direction.CHECK,
        figure=f"{part.topic}-{part.partition} got {part.bytes_uncompressed / MB:,.1f} MB, "
        f"{excess:,.1f} times the mean of its topic's partitions",
        sentence="one partition gets most of the data; the others wait for it",
    )


def row_by_row(facts: PipelineFacts) -> Advice | None:
    """A partitioner without regard to batches leaves a small one in each of many partitions."""
    partitions = len(facts.report.partitions)
    if facts.partitioner not in ROW_BY_ROW or partitions < 2 or facts.batches < 5 * FEW_BATCHES:
        return None
    limit, full = facts.number("batch.size"), facts.metrics.closed_full
    if facts.batch > min(limit / 2, SMALL_BATCH) or full >= 0.5 * facts.metrics.closed:
        return None
    return Advice(
        setting="the default partitioner",
        direction=Direction.SET,
        figure=f"the partitioner {facts.partitioner} spreads the rows over "
        f"{plural(partitions, 'partition')}, {facts.batch:,.0f} of {plural(limit, 'byte')} in each "
        "batch",
        sentence="each partition waits for a batch of its own; by default rows without a key fill "
        "one batch after the other (rows with a key go by its hash)",
    )
