"""The key figures of a report with their units, and the comparison of two reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.histogram import MICROS_PER_S
from spark_kafka_sink.common.text import MB

if TYPE_CHECKING:
    from spark_kafka_sink.report.delivery_counters import DeliveryCounters

_MILLIS = 1_000


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A figure of a report."""

    name: str
    unit: str
    """Empty for counts."""
    value: float


@dataclass(frozen=True, slots=True)
class Change:
    """The same figure in two reports."""

    name: str
    unit: str
    before: float
    after: float

    @property
    def percent(self) -> float | None:
        """Increase in percent, or None if the figure was 0 before."""
        return None if not self.before else (self.after / self.before - 1) * 100

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {**asdict(self), "percent": self.percent}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two reports: all figures, and the settings that differ (none if a report has no settings)."""

    changes: tuple[Change, ...]
    settings: tuple[tuple[str, str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return {
            "figures": [change.to_dict() for change in self.changes],
            "settings": [
                {"name": name, "before": before, "after": after}
                for name, before, after in self.settings
            ],
        }


def figures_of(report: DeliveryCounters) -> tuple[KeyFigure, ...]:
    """Return the figures of a report, always in the same order.

    Rates refer to the whole write, or to the slowest task if the time of the write is unknown.
    """
    return (*_counts(report), *_speed(report), *_latencies(report), *_problems(report))


def compare(before: DeliveryCounters, after: DeliveryCounters) -> Comparison:
    """Compare two writes."""
    pairs = zip(figures_of(before), figures_of(after), strict=True)
    old, new = dict(before.metrics.settings), dict(after.metrics.settings)
    return Comparison(
        changes=tuple(
            Change(first.name, first.unit, first.value, second.value) for first, second in pairs
        ),
        settings=tuple(
            (name, old.get(name, ""), new.get(name, ""))
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        ),
    )


def _counts(report: DeliveryCounters) -> tuple[KeyFigure, ...]:
    batches = max(1, report.batches)
    return (
        KeyFigure("rows", "", report.rows),
        KeyFigure("records persisted", "", report.persisted),
        KeyFigure("records of a dry run", "", report.would_be_written),
        KeyFigure("dead letters", "", report.dead_lettered),
        KeyFigure("rows dropped", "", report.dropped),
        KeyFigure("tasks", "", report.tasks),
        KeyFigure("encoded", "MB", report.bytes_uncompressed / MB),
        KeyFigure("sent", "MB", report.bytes_sent / MB),
        KeyFigure("compression", "to 1", report.bytes_uncompressed / max(1, report.bytes_sent)),
        KeyFigure("batches", "", report.batches),
        KeyFigure("records per batch", "", report.records / batches),
        KeyFigure("bytes per batch", "kB", report.bytes_uncompressed / batches / 1_000),
    )


def _speed(report: DeliveryCounters) -> tuple[KeyFigure, ...]:
    return (
        KeyFigure("whole write", "s", report.duration_ms / _MILLIS),
        KeyFigure("start of Python workers", "s", report.startup_ms / _MILLIS),
        KeyFigure("slowest task", "s", report.duration_max_ms / _MILLIS),
        KeyFigure("all tasks", "s", report.duration_sum_ms / _MILLIS),
        KeyFigure("rate", "records/s", report.per_second(report.successful_records)),
        KeyFigure("rate, encoded", "MB/s", report.per_second(report.bytes_uncompressed) / MB),
    )


def _latencies(report: DeliveryCounters) -> tuple[KeyFigure, ...]:
    histograms = (("request", report.request_latency), ("queue", report.queue_latency))
    return tuple(
        KeyFigure(f"{name} latency p{percent}", "ms", times.percentile(percent) / _MILLIS)
        for name, times in histograms
        for percent in (50, 99)
    )


def _problems(report: DeliveryCounters) -> tuple[KeyFigure, ...]:
    return (
        KeyFigure("retries", "", report.retries),
        KeyFigure("split batches", "", report.splits),
        KeyFigure("throttled", "ms", report.throttle_ms),
        KeyFigure("waited for buffer memory", "s", report.metrics.buffer_wait / MICROS_PER_S),
        KeyFigure("compressing", "s", report.metrics.compression_time.total / MICROS_PER_S),
    )
