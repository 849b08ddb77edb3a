"""The parts of a report that only a dry run has: batches and their fill, skew, codecs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from spark_kafka_sink.common.delivery_status import place_name
from spark_kafka_sink.common.text import plural, size_text
from spark_kafka_sink.report.advice import PipelineFacts

if TYPE_CHECKING:
    from spark_kafka_sink.report.codec_cost import CodecCost
    from spark_kafka_sink.report.delivery_counters import DeliveryCounters

KB = 1_000
PARTITION_COLUMNS = (
    "partition",
    "would be written",
    "times the mean",
    "batches",
    "encoded",
    "to be sent",
)


def dry_run_title(report: DeliveryCounters) -> str:
    """Return the title; dry runs and writes may have been added up."""
    if any(each.persisted or each.sent for each in report.partitions):
        return "Kafka delivery report, dry runs included"
    return "Kafka dry run: nothing was sent"


def dry_run_rows(report: DeliveryCounters) -> list[tuple[str, str]]:
    """Return the lines of the summary that replace the latencies."""
    if not report.batches:
        return []
    return [("batches", _batches(report)), *_skew(report), *_codecs(report)]


def partition_rows(report: DeliveryCounters) -> list[tuple[str, ...]]:
    """Return the rows under `PARTITION_COLUMNS`, partitions with most bytes first."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for part in report.partitions:
        groups[part.topic].append(part.bytes_uncompressed)
    means = {topic: sum(sizes) / len(sizes) for topic, sizes in groups.items()}
    return [
        (
            place_name(part.topic, part.partition),
            f"{part.would_be_written:,}",
            f"{part.bytes_uncompressed / (means[part.topic] or 1):,.2f}",
            f"{part.batches:,}",
            size_text(part.bytes_uncompressed),
            size_text(part.bytes_sent),
        )
        for part in sorted(report.partitions, key=lambda each: (-each.bytes_uncompressed, each.key))
    ]


def codec_text(cost: CodecCost) -> str:
    """Return a codec's ratio and cost in one line."""
    if not cost.cpu_ns:
        return f"{cost.ratio:,.1f} to 1"
    return (
        f"{cost.ratio:,.1f} to 1, {cost.us_per_record:,.2f} us of CPU a record, "
        f"{KB / cost.ns_per_byte:,.0f} MB/s"
    )


def _batches(report: DeliveryCounters) -> str:
    """Describe the mean size relative to batch.size, and why the batches were closed."""
    facts, metrics = PipelineFacts(report), report.metrics
    limit = facts.number("batch.size")
    fill = f" ({facts.batch / limit:.0%} of batch.size)" if limit else ""
    reasons = (
        (metrics.closed_full, "full"),
        (metrics.closed_linger, "after linger.ms"),
        (metrics.closed_flush, "at the end of a task"),
        (metrics.closed_memory, "for want of memory"),
    )
    closed = ", ".join(f"{count:,} {reason}" for count, reason in reasons if count)
    records = report.as_intended / report.batches
    return f"mean {size_text(facts.batch)}{fill}, {plural(records, 'record')}; closed {closed}"


def _skew(report: DeliveryCounters) -> list[tuple[str, str]]:
    """Compare the largest partition with its topic's others, including empty ones."""
    largest = PipelineFacts(report).largest_partition()
    if largest is None:
        return []
    part, excess = largest
    empty = sum(not each.records for each in report.partitions if each.topic == part.topic)
    rest = f"; {empty:,} of them get{'s' if empty == 1 else ''} nothing" if empty else ""
    place = place_name(part.topic, part.partition)
    return [("skew", f"{place} gets {excess:,.1f} times the mean of its topic's partitions{rest}")]


def _codecs(report: DeliveryCounters) -> list[tuple[str, str]]:
    if not report.codecs:
        return []
    one = report.codecs[0]
    size = size_text(one.bytes_uncompressed)
    sample = f"measured on {one.batches:,} of the batches, {size}"
    return [("codecs", sample), *((f"  {each.codec}", codec_text(each)) for each in report.codecs)]
