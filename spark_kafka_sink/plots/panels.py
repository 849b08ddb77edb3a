"""The plots that the figure of one write consists of, each into axes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.delivery_status import place_name
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.plots.style import (
    BAD,
    GOOD,
    INK,
    MB,
    NOT_DELIVERED,
    PALE,
    SECOND,
    dress,
    from_zero,
    legend,
    log_numbers,
    number,
    percent,
    plain_numbers,
    stairs,
    step_edge,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from spark_kafka_sink.report.codec_cost import CodecCost
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.report.partition_report import PartitionReport

PARTITIONS_SHOWN = 32
"""Bars of partitions; of more the largest ones."""
_LABELLED = 8
"""So few bars have their numbers on top."""
_ROOM = 48
"""Letters of names that there is room for side by side, each with a space."""


def plot_records(axes: Axes, report: DeliveryReport) -> None:
    """Records of each partition, and those that are not known to be delivered on top of them."""
    parts, names = _shown(report)
    delivered = [part.as_intended for part in parts]
    others = [part.records - part.as_intended for part in parts]
    bars = axes.bar(names, delivered, color=GOOD, label="persisted" if any(others) else "")
    if any(others):
        bars = axes.bar(names, others, bottom=delivered, color=BAD, label=NOT_DELIVERED)
    title = "Records that would be written" if report.dry_run else "Records by partition"
    dress(axes, f"{title}{_of_how_many(report)}", y="records")
    from_zero(axes, [part.records for part in parts])
    if len(parts) <= _LABELLED:
        axes.bar_label(bars, [f"{part.records:,}" for part in parts], fontsize=8)
    plain_numbers(axes.yaxis, whole=True)
    _name_bars(axes, names)
    legend(axes)


def plot_sizes(axes: Axes, report: DeliveryReport) -> None:
    """Bytes of each partition, before and after compression."""
    parts, names = _shown(report)
    sent = [part.bytes_sent / MB for part in parts]
    encoded = [part.bytes_uncompressed / MB for part in parts]
    codec = dict(report.metrics.settings).get("compression.type", "none")
    if codec == "none":
        axes.bar(names, sent, color=GOOD)
        dress(axes, "Size by partition, not compressed", y="MB")
    else:
        axes.bar(names, encoded, color=PALE, label="before compression")
        axes.bar(
            names, sent, width=0.5, color=GOOD, label="to be sent" if report.dry_run else "sent"
        )
        ratio = report.bytes_uncompressed / max(1, report.bytes_sent)
        dress(axes, f"Size by partition, {codec}: {ratio:.1f} to 1", y="MB")
    from_zero(axes, sent + encoded)
    plain_numbers(axes.yaxis)
    _name_bars(axes, names)
    legend(axes)


def plot_latencies(axes: Axes, report: DeliveryReport) -> None:
    """How long requests and batches took: from sending to the answer, from opening to sending."""
    edges: list[float] = []
    for label, times, color in (
        ("request, sent to answered", report.request_latency, GOOD),
        ("batch, opened to sent", report.queue_latency, SECOND),
    ):
        if times.count:
            slow = times.percentile(99) / 1000
            stairs(axes, times, unit=1000, label=f"{label}: p99 {number(slow)} ms", color=color)
            axes.axvline(slow, color=color, linestyle=":", linewidth=1.5)
            edges += [step_edge(times.steps[0][0]) / 1000, times.high / 1000]
    dress(axes, "Latency, p99 dotted", x="ms", y="% of requests, of batches")
    percent(axes.yaxis)
    if edges:
        log_numbers(axes, min(edges), max(edges))
    legend(axes)


def plot_codecs(axes: Axes, report: DeliveryReport) -> None:
    """What each codec would send of a dry run's bytes, and what that costs; the one set is dark."""
    configured = dict(report.metrics.settings).get("compression.type")
    names = [
        f"{cost.codec}\n(as set)" if cost.codec == configured else cost.codec
        for cost in report.codecs
    ]
    shares = [100 / cost.ratio for cost in report.codecs]
    colors = [INK if cost.codec == configured else GOOD for cost in report.codecs]
    bars = axes.barh(names, shares, color=colors)
    axes.bar_label(bars, [f" {_codec_text(each)}" for each in report.codecs])
    axes.invert_yaxis()
    dress(axes, "Codecs, tried on a sample", x="% of the bytes; CPU time of a record")
    percent(axes.xaxis)
    axes.set_xlim(0, 150)


def plot_batch_fill(axes: Axes, report: DeliveryReport) -> None:
    """Bytes of batches as sent, and the limit that batch.size is for them before compression."""
    limit = int(dict(report.metrics.settings).get("batch.size", 0)) / 1000
    sizes, edges = report.metrics.batch_size, []
    title = plural(report.batches, "batch", "batches")
    if sizes.count:
        stairs(
            axes, sizes, unit=1000, label="to be sent" if report.dry_run else "as sent", color=GOOD
        )
        edges += [step_edge(sizes.steps[0][0]) / 1000, sizes.high / 1000]
    if report.batches:
        mean = report.bytes_uncompressed / report.batches / 1000
        axes.axvline(mean, color=INK, linestyle="--", label="mean before compression")
        edges.append(mean)
        if limit:
            title += f", {100 * mean / limit:,.0f} % full on average"
    if limit:
        axes.axvline(limit, color=BAD, linestyle=":", linewidth=2, label="batch.size")
        edges.append(limit)
    dress(axes, title, x="kB", y="% of batches")
    percent(axes.yaxis)
    if all(edges) and edges:
        log_numbers(axes, min(edges), max(edges))
    legend(axes)


def plot_closing(axes: Axes, report: DeliveryReport) -> None:
    """Why batches took no more records."""
    metrics = report.metrics
    reasons = {
        "batch.size reached": metrics.closed_full,
        "linger.ms over": metrics.closed_linger,
        "no more rows": metrics.closed_flush,
        "no memory left": metrics.closed_memory,
    }
    bars = axes.barh(list(reasons), list(reasons.values()), color=GOOD)
    axes.bar_label(bars, [f" {count:,}" for count in reasons.values()])
    axes.invert_yaxis()
    dress(axes, "Why batches were closed", x="batches")
    plain_numbers(axes.xaxis, whole=True)
    axes.set_xlim(0, max(1, *reasons.values()) * 1.2)


def plot_time(axes: Axes, report: DeliveryReport) -> None:
    """The share of all tasks' time that each step took; they overlap, so it adds up to anything."""
    busy = max(1, report.duration_sum_ms) * 1000
    steps = {
        "compressing": report.metrics.compression_time.total,
        "waiting for room\nin the buffer": report.metrics.buffer_wait,
        "throttled": report.throttle_ms * 1000,
    }
    shares = [100 * spent / busy for spent in steps.values()]
    bars = axes.barh(list(steps), shares, color=GOOD)
    axes.bar_label(bars, [f" {share:,.0f} %" for share in shares])
    axes.invert_yaxis()
    dress(axes, "What the tasks' time went to", x="% of all tasks' time, steps overlap")
    percent(axes.xaxis)
    axes.set_xlim(0, max(100, *shares) * 1.15)


def _codec_text(cost: CodecCost) -> str:
    spent = f", {cost.us_per_record:,.2f} us" if cost.cpu_ns else ""
    return f"{cost.ratio:,.1f} to 1{spent}"


def _shown(report: DeliveryReport) -> tuple[list[PartitionReport], list[str]]:
    """The largest partitions in order of their names, which lack a topic that all have."""
    largest = sorted(report.partitions, key=lambda part: -part.records)[:PARTITIONS_SHOWN]
    parts = sorted(largest, key=lambda part: part.key)
    if len({part.topic for part in parts}) == 1:
        return parts, [str(part.partition) for part in parts]
    return parts, [place_name(part.topic, part.partition) for part in parts]


def _of_how_many(report: DeliveryReport) -> str:
    count = len(report.partitions)
    return f", {PARTITIONS_SHOWN} largest of {count:,}" if count > PARTITIONS_SHOWN else ""


def _name_bars(axes: Axes, names: Sequence[str]) -> None:
    long = any(len(name) > 3 for name in names)
    if sum(map(len, names)) + len(names) > _ROOM:
        axes.tick_params("x", rotation=90, labelsize="xx-small")
    elif len(names) > _LABELLED and not long:
        axes.tick_params("x", labelsize="x-small")
    elif long:
        axes.tick_params("x", rotation=30)
    if not long or all(name.isdigit() for name in names):
        axes.set_xlabel("partition")
    if not names:
        axes.set_xticks([])
