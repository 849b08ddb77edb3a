"""The table of a report's partitions, which the terminal and notebooks show."""

from __future__ import annotations

from collections import defaultdict
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
    if report.dry_run:
        title, cells = "Partitions, the largest first", _dry_run_cells(report.partitions)
        parts = sorted(report.partitions, key=lambda part: (-part.bytes_uncompressed, part.key))
    else:
        title, cells = "Partitions", _cells
        parts = sorted(report.partitions, key=lambda part: (not _has_losses(part), part.key))
    rows, empty = (
        [cells(part) for part in parts[:max_rows]],
        _cells(PartitionReport(topic="", partition=0)),
    )
    columns = [
        name
        for name in (rows[0] if rows else empty)
        if report.dry_run or name == "persisted" or any(row[name] != empty[name] for row in rows)
    ]
    return PartitionTable(
        title,
        ("partition", *columns),
        [
            (partition_name(*part.key), *(row[name] for name in columns))
            for part, row in zip(parts, rows, strict=False)
        ],
        omitted_caption(len(parts) - max_rows, "more partition"),
    )


def omitted_caption(omitted: int, noun: str) -> str | None:
    """Return the caption of a table that omits rows, or None if it contains all rows."""
    return f"and {plural(omitted, noun)}" if omitted > 0 else None


def _has_losses(part: PartitionReport) -> bool:
    return bool(part.possibly_persisted or part.not_persisted)


def _cells(part: PartitionReport) -> dict[str, str]:
    first, last = part.first_offset, part.last_offset
    return {
        "persisted": f"{part.persisted:,}",
        "possibly": f"{part.possibly_persisted:,}",
        "not": f"{part.not_persisted:,}",
        "sent": f"{part.sent:,}",
        "batches": f"{part.batches:,}",
        "bytes": size_text(part.bytes_sent),
        "offsets": "" if first is None else f"{first:,}..{last:,}",
    }


def _dry_run_cells(parts: Sequence[PartitionReport]) -> Cells:
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for part in parts:
        sizes[part.topic].append(part.bytes_uncompressed)
    means = {topic: sum(numbers) / len(numbers) or 1 for topic, numbers in sizes.items()}
    return lambda part: {
        "would be written": f"{part.would_be_written:,}",
        "times the mean": f"{part.bytes_uncompressed / means[part.topic]:,.2f}",
        "batches": f"{part.batches:,}",
        "encoded": size_text(part.bytes_uncompressed),
        "to be sent": size_text(part.bytes_sent),
    }
