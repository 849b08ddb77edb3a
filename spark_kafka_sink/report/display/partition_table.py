"""The table of a report's partitions, which the terminal and notebooks show."""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.delivery_status import partition_name
from spark_kafka_sink.common.text import plural, size_text
from spark_kafka_sink.report.partition_report import PartitionReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.report.delivery_counters import DeliveryCounters

    Cells = Callable[[PartitionReport], dict[str, str]]
    """Returns the cells of a partition, by column."""


class PartitionTable(NamedTuple):
    """The first column is the partition's name; all other columns are numbers."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    caption: str | None
    """The number of omitted partitions, as text; None if there are none."""


def partition_table(report: DeliveryCounters, max_rows: int) -> PartitionTable:
    """Return the table of up to `max_rows` partitions.

    Partitions with undelivered records come first; in a dry run, the largest partitions. Columns in
    which no partition has a number are omitted.
    """
    by_name = sorted(report.partitions, key=attrgetter("key"))
    if report.dry_run:
        title = "Partitions, the largest first"
        cells = _dry_run_cells(report.partitions)
        partitions = sorted(by_name, key=attrgetter("bytes_uncompressed"), reverse=True)
    else:
        title = "Partitions"
        cells = _cells
        partitions = sorted(by_name, key=_has_losses, reverse=True)
    rows = [cells(partition) for partition in partitions[:max_rows]]
    empty = _cells(PartitionReport(topic="", partition=0))
    columns = [
        name
        for name in (rows[0] if rows else empty)
        if report.dry_run or name == "persisted" or any(row[name] != empty[name] for row in rows)
    ]
    return PartitionTable(
        title,
        ("partition", *columns),
        [
            (partition_name(*partition.key), *(row[name] for name in columns))
            for partition, row in zip(partitions, rows, strict=False)
        ],
        omitted_caption(len(partitions) - max_rows, "more partition"),
    )


def omitted_caption(omitted: int, noun: str) -> str | None:
    """Return the caption of a table that omits rows, or None if it contains all rows."""
    return f"and {plural(omitted, noun)}" if omitted > 0 else None


def _has_losses(partition: PartitionReport) -> bool:
    return bool(partition.possibly_persisted or partition.not_persisted)


def _cells(partition: PartitionReport) -> dict[str, str]:
    first, last = partition.first_offset, partition.last_offset
    return {
        "persisted": f"{partition.persisted:,}",
        "possibly": f"{partition.possibly_persisted:,}",
        "not": f"{partition.not_persisted:,}",
        "sent": f"{partition.sent:,}",
        "batches": f"{partition.batches:,}",
        "bytes": size_text(partition.bytes_sent),
        "offsets": "" if first is None else f"{first:,}..{last:,}",
    }


def _dry_run_cells(partitions: Sequence[PartitionReport]) -> Cells:
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        sizes[partition.topic].append(partition.bytes_uncompressed)
    means = {topic: sum(numbers) / len(numbers) or 1 for topic, numbers in sizes.items()}
    return lambda partition: {
        "would be written": f"{partition.would_be_written:,}",
        "times the mean": f"{partition.bytes_uncompressed / means[partition.topic]:,.2f}",
        "batches": f"{partition.batches:,}",
        "encoded": size_text(partition.bytes_uncompressed),
        "to be sent": size_text(partition.bytes_sent),
    }
