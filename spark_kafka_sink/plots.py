"""Figures of delivery reports, from the reports alone: `plots.show(report)` in a notebook.

Needs matplotlib, the extra `plots`. Each function gives a matplotlib figure, to be shown by the
notebook, saved with `savefig`, or changed; sizes are in MB (10^6 bytes), times in milliseconds or
seconds, as each axis says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.delivery_status import place_name
from spark_kafka_sink.metrics.histogram import bucket_top
from spark_kafka_sink.report.figures import compare

try:
    from matplotlib import pyplot as plt
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "spark_kafka_sink.plots needs matplotlib: pip install 'spark-kafka-sink[plots]'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from spark_kafka_sink.metrics.histogram import Histogram
    from spark_kafka_sink.report.codec_cost import CodecCost
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.report.partition_report import PartitionReport

MB = 1_000_000
PARTITIONS_SHOWN = 40
"""Bars of partitions; of more the largest ones."""
_GOOD, _BAD, _PALE, _DARK = "#3b7ea1", "#c4493d", "#b9c7d1", "#2f4858"


def show(report: DeliveryReport) -> Figure:
    """One write in six plots: partitions, sizes, latencies, batches and why they were sent.

    A dry run has no latencies, and shows what each codec makes of its batches instead.
    """
    figure, axes = plt.subplots(2, 3, figsize=(14, 7), layout="constrained")
    (records, sizes, batch_fill), (latencies, closing, time) = axes
    plot_records(records, report)
    plot_sizes(sizes, report)
    plot_batch_fill(batch_fill, report)
    if report.dry_run:
        plot_codecs(latencies, report)
    else:
        plot_latencies(latencies, report)
    plot_closing(closing, report)
    plot_time(time, report)
    figure.suptitle(_title(report))
    plt.close(figure)  # a notebook shows what the cell returns, and would show it twice
    return figure


def show_stream(reports: Sequence[DeliveryReport]) -> Figure:
    """The micro-batches of a stream, one after the other: rows, time, latency and retries."""
    figure, (rows, times, trouble) = plt.subplots(
        3, 1, figsize=(11, 7), sharex=True, layout="constrained"
    )
    numbers = [
        place if each.batch_id is None else each.batch_id for place, each in enumerate(reports)
    ]
    rows.bar(numbers, [each.persisted for each in reports], color=_GOOD, label="persisted")
    lost = [each.records - each.persisted for each in reports]
    if any(lost):
        bottom = [each.persisted for each in reports]
        rows.bar(numbers, lost, bottom=bottom, color=_BAD, label="not known to be delivered")
        rows.legend()
    rows.set(title="Records of each micro-batch", ylabel="records")
    times.plot(numbers, [each.duration_ms / 1000 for each in reports], "o-", color=_DARK)
    times.plot(numbers, [each.duration_max_ms / 1000 for each in reports], "o--", color=_GOOD)
    times.legend(["whole micro-batch", "slowest task"])
    times.set(title="Time", ylabel="s", ylim=(0, None))
    trouble.bar(numbers, [each.retries for each in reports], color=_BAD)
    trouble.set(title="Batches sent again", xlabel="micro-batch", ylabel="batches")
    plt.close(figure)
    return figure


def show_comparison(before: DeliveryReport, after: DeliveryReport) -> Figure:
    """Two writes side by side: rate, time, size sent, records in a batch, and latency."""
    figure, axes = plt.subplots(1, 5, figsize=(14, 3.2), layout="constrained")
    for axis, (title, unit, values) in zip(axes, _compared(before, after), strict=True):
        bars = axis.bar(["before", "after"], values, color=[_PALE, _GOOD])
        axis.bar_label(bars, [_short(value) for value in values])
        axis.set(title=title, ylabel=unit)
        axis.margins(y=0.15)
    plt.close(figure)
    return figure


def plot_records(axes: Axes, report: DeliveryReport) -> None:
    """Records of each partition, and those that are not known to be delivered on top of them."""
    parts, names = _shown(report)
    delivered = [part.as_intended for part in parts]
    others = [part.records - part.as_intended for part in parts]
    word = "would be written" if report.dry_run else "persisted"
    axes.bar(names, delivered, color=_GOOD, label=word)
    if any(others):
        axes.bar(names, others, bottom=delivered, color=_BAD, label="not known to be delivered")
        axes.legend()
    title = "Records that would be written" if report.dry_run else "Records by partition"
    axes.set(title=title, ylabel="records")
    _name_bars(axes, names)


def plot_sizes(axes: Axes, report: DeliveryReport) -> None:
    """Bytes of each partition, before and after compression."""
    parts, names = _shown(report)
    axes.bar(names, [part.bytes_uncompressed / MB for part in parts], color=_PALE, label="encoded")
    label = "to be sent" if report.dry_run else "sent"
    axes.bar(names, [part.bytes_sent / MB for part in parts], width=0.5, color=_GOOD, label=label)
    ratio = report.bytes_uncompressed / max(1, report.bytes_sent)
    codec = dict(report.metrics.settings).get("compression.type", "")
    axes.set(title=f"Size by partition, {ratio:.1f} to 1 {codec}".rstrip(), ylabel="MB")
    axes.legend()
    _name_bars(axes, names)


def plot_latencies(axes: Axes, report: DeliveryReport) -> None:
    """How long requests and batches took: from sending to the answer, from opening to sending."""
    for label, times, color in (
        ("request: sent until answered", report.request_latency, _GOOD),
        ("queue: opened until sent", report.queue_latency, _DARK),
    ):
        _stairs(axes, times, 1000, label, color)
        if times.count:
            axes.axvline(times.percentile(99) / 1000, color=color, linestyle=":", linewidth=1)
    axes.set(title="Latency, p99 dotted", xscale="log", xlabel="ms", ylabel="share")
    _legend(axes)


def plot_codecs(axes: Axes, report: DeliveryReport) -> None:
    """What each codec would send of a dry run's bytes, and what that costs; the one set is dark."""
    configured = dict(report.metrics.settings).get("compression.type")
    names = [cost.codec for cost in report.codecs]
    shares = [100 / cost.ratio for cost in report.codecs]
    colors = [_DARK if name == configured else _GOOD for name in names]
    bars = axes.barh(names, shares, color=colors)
    axes.bar_label(bars, [f" {_codec_text(each)}" for each in report.codecs])
    axes.invert_yaxis()
    axes.set(title="Codecs, tried on a sample", xlabel="% of the bytes; CPU time of a record")
    axes.set(xlim=(0, 150), xticks=range(0, 101, 20))


def plot_batch_fill(axes: Axes, report: DeliveryReport) -> None:
    """Bytes of batches as sent, and the limit that batch.size is for them before compression."""
    limit = int(dict(report.metrics.settings).get("batch.size", 0))
    label = "to be sent" if report.dry_run else "as sent"
    _stairs(axes, report.metrics.batch_size, 1000, label, _GOOD)
    if report.batches:
        mean = report.bytes_uncompressed / report.batches
        axes.axvline(mean / 1000, color=_DARK, linestyle="--", label="mean before compression")
    if limit:
        axes.axvline(limit / 1000, color=_BAD, linestyle=":", label="batch.size")
    axes.set(title=f"{report.batches:,} batches", xscale="log", xlabel="kB", ylabel="share")
    _legend(axes)


def plot_closing(axes: Axes, report: DeliveryReport) -> None:
    """Why batches took no more records."""
    metrics = report.metrics
    reasons = {
        "full": metrics.closed_full,
        "linger.ms": metrics.closed_linger,
        "end of task": metrics.closed_flush,
        "no memory": metrics.closed_memory,
    }
    bars = axes.barh(list(reasons), list(reasons.values()), color=_GOOD)
    axes.bar_label(bars, [f" {count:,}" for count in reasons.values()])
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.set(title="Why batches were closed", xlabel="batches")


def plot_time(axes: Axes, report: DeliveryReport) -> None:
    """The share of all tasks' time that each step took; they overlap, so it adds up to anything."""
    busy = max(1, report.duration_sum_ms) * 1000
    steps = {
        "compressing": report.metrics.compression_time.total,
        "waiting for room": report.metrics.buffer_wait,
        "throttled": report.throttle_ms * 1000,
    }
    shares = [100 * spent / busy for spent in steps.values()]
    bars = axes.barh(list(steps), shares, color=_GOOD)
    axes.bar_label(bars, [f" {share:,.0f} %" for share in shares])
    axes.set(title="Time of the tasks", xlabel="% of all tasks' time", xlim=(0, max(110, *shares)))
    axes.invert_yaxis()


def _codec_text(cost: CodecCost) -> str:
    spent = f", {cost.us_per_record:,.2f} us" if cost.cpu_ns else ""
    return f"{cost.ratio:,.1f} to 1{spent}"


def _title(report: DeliveryReport) -> str:
    seconds = (report.duration_ms or report.duration_max_ms) / 1000
    rate = f", {report.as_intended / seconds:,.0f} a second" if seconds else ""
    parts = [f"{report.as_intended:,} records in {seconds:,.1f} s{rate}"]
    if report.dry_run:
        parts.insert(0, "Dry run, nothing was sent")
    if report.dead_lettered:
        parts.append(f"{report.dead_lettered:,} of them dead letters")
    if report.dropped:
        parts.append(f"{report.dropped:,} rows dropped")
    if report.error:
        parts.append(report.status.value)
    return "; ".join(parts)


def _shown(report: DeliveryReport) -> tuple[list[PartitionReport], list[str]]:
    """The largest partitions in order of their names, which lack a topic that all have."""
    largest = sorted(report.partitions, key=lambda part: -part.records)[:PARTITIONS_SHOWN]
    parts = sorted(largest, key=lambda part: part.key)
    if len({part.topic for part in parts}) == 1:
        return parts, [str(part.partition) for part in parts]
    return parts, [place_name(part.topic, part.partition) for part in parts]


def _name_bars(axes: Axes, names: list[str]) -> None:
    if any(len(name) > 3 for name in names):
        axes.tick_params("x", rotation=45)
    else:
        axes.set_xlabel("partition")


def _stairs(axes: Axes, values: Histogram, unit: int, label: str, color: str) -> None:
    """A histogram as steps, as shares, so that those of many and of few values can be compared."""
    if not values.count:
        return
    first, last = values.buckets[0][0], values.buckets[-1][0]
    counts = dict(values.buckets)
    edges = [max(bucket_top(bucket), 0.5) / unit for bucket in range(first - 1, last + 1)]
    shares = [counts.get(bucket, 0) / values.count for bucket in range(first, last + 1)]
    axes.stairs(shares, edges, label=label, color=color, fill=True, alpha=0.55)


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend()


def _compared(
    before: DeliveryReport, after: DeliveryReport
) -> list[tuple[str, str, tuple[float, float]]]:
    found = {each.name: each for each in compare(before, after).changes}
    wanted = ("rate", "slowest task", "sent", "records a batch", "request latency p99")
    return [
        (name, found[name].unit or "records", (found[name].before, found[name].after))
        for name in wanted
    ]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"
