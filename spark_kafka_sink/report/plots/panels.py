"""The panels of the figures, and their style."""

from __future__ import annotations

from math import isfinite, log10
from operator import attrgetter
from typing import TYPE_CHECKING

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from spark_kafka_sink.common.delivery_status import partition_name
from spark_kafka_sink.common.histogram import Histogram, step_top
from spark_kafka_sink.common.text import MB, plural
from spark_kafka_sink.report.partition_report import PartitionReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from spark_kafka_sink.report.codec_cost import CodecCost
    from spark_kafka_sink.report.delivery_report import DeliveryReport


GOOD, BAD, PALE, SECOND, INK = "#0072B2", "#D55E00", "#BBC7D0", "#E69F00", "#22303C"
"""Colors for delivered records; undelivered records or limits; reference values; a second series;
lines and marks.
"""
NOT_DELIVERED = "possibly not delivered"
PARTITIONS_SHOWN = 32
"""Maximum number of partitions in a plot. The largest partitions are selected."""
_LABELLED = 8
"""Maximum number of bars that are labeled individually."""
_ROOM = 48
"""Number of characters that fit below the bars, including one space per name."""


def number(value: float) -> str:
    """Return a number as the label of a bar, rounded, with commas between thousands."""
    if value >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if value >= 1 else f"{value:.2g}"


def set_labels(axes: Axes, title: str, *, x: str = "", y: str = "") -> None:
    """Set the title and the axis labels, and hide the top and right edges of the frame."""
    axes.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    axes.set(xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)


def plain_numbers(axis: Axis, *, whole: bool = False) -> None:
    """Format tick labels with commas and without powers of ten.

    If `whole` is True, show only integers.
    """
    steps = [1, 2, 5, 10] if whole else [1, 2, 2.5, 5, 10]
    axis.set_major_locator(MaxNLocator(nbins=6, steps=steps, integer=whole, min_n_ticks=2))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))


def _percent(axis: Axis) -> None:
    """Format tick labels as percentages.

    Labels above 100 are omitted, because the legend might be there.
    """
    plain_numbers(axis)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value <= 100 else ""))


def start_at_zero(axes: Axes, heights: Iterable[float]) -> None:
    """Start the y axis at 0, even if there are no bars or all bars are 0."""
    axes.set_ylim(0, 1.05 * max((height for height in heights if isfinite(height)), default=0) or 1)


def _log_numbers(axes: Axes, low: float, high: float) -> None:
    """Make the x axis logarithmic over at least a decade, with plain numbers."""
    middle, decades = (low * high) ** 0.5, log10(high / low)
    reach = 10 ** max(0.5, decades / 2 + 0.05)
    axes.set(xscale="log", xlim=(middle / reach, middle * reach))
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if decades > 2 else (1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def legend(axes: Axes) -> None:
    """If any element has a label, add a legend above the data and extend the y axis for it."""
    names = axes.get_legend_handles_labels()[1]
    if names:
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + (high - low) * 0.13 * len(names))
        axes.legend(
            loc="upper left", fontsize="small", edgecolor="none", framealpha=0.9, borderaxespad=0.1
        )


def _draw_histogram(axes: Axes, values: Histogram, *, label: str, color: str) -> None:
    """Draw a histogram as steps in percent, so that histograms of any size can be compared.

    The unit of the axis is 1,000 units of the histogram.

    Args:
        axes: where to draw.
        values: the histogram, with at least one value.
        label: label for the legend.
        color: color of the steps and of the area below them.
    """
    counts = dict(values.steps)
    first, last = min(counts), max(counts)
    edges = [_step_edge(step) / 1000 for step in range(first, last + 2)]
    shares = [100 * counts.get(step, 0) / values.count for step in range(first, last + 1)]
    axes.stairs(shares, edges, label=label, color=color, fill=True, alpha=0.55)
    axes.stairs(shares, edges, color=color, linewidth=1)


def _step_edge(step: int) -> float:
    """Return the start of a step, which is above 0 because the axis is logarithmic."""
    return max(step_top(step - 1), 0.5) if step else 0.5


def finish_figure(figure: Figure, title: str = "") -> Figure:
    """Set title and layout, and close the figure: a notebook displays the returned figure."""
    figure.set_layout_engine("constrained", h_pad=0.1, w_pad=0.1)
    if title:
        # The name of a query can contain $, which would start a formula.
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", parse_math=False)
    plt.close(figure)
    return figure


def plot_records(axes: Axes, report: DeliveryReport) -> None:
    """Plot the records of each partition, with possibly undelivered records on top."""
    partitions, names = _largest_partitions(report)
    delivered = [partition.successful_records for partition in partitions]
    undelivered = [partition.records - partition.successful_records for partition in partitions]
    bars = axes.bar(names, delivered, color=GOOD, label="persisted" if any(undelivered) else "")
    if any(undelivered):
        bars = axes.bar(names, undelivered, bottom=delivered, color=BAD, label=NOT_DELIVERED)
    title = "Records that would be written" if report.dry_run else "Records by partition"
    set_labels(axes, f"{title}{_of_how_many(report)}", y="records")
    start_at_zero(axes, [partition.records for partition in partitions])
    if len(partitions) <= _LABELLED:
        axes.bar_label(bars, [f"{partition.records:,}" for partition in partitions], fontsize=8)
    plain_numbers(axes.yaxis, whole=True)
    _name_bars(axes, names)
    legend(axes)


def plot_sizes(axes: Axes, report: DeliveryReport) -> None:
    """Plot the size of each partition's data, before and after compression."""
    partitions, names = _largest_partitions(report)
    sent = [partition.bytes_sent / MB for partition in partitions]
    encoded = [partition.bytes_uncompressed / MB for partition in partitions]
    codec = dict(report.metrics.settings).get("compression.type", "none")
    if codec == "none":
        axes.bar(names, sent, color=GOOD)
        set_labels(axes, "Size by partition, not compressed", y="MB")
    else:
        axes.bar(names, encoded, color=PALE, label="before compression")
        axes.bar(
            names, sent, width=0.5, color=GOOD, label="to be sent" if report.dry_run else "sent"
        )
        ratio = report.bytes_uncompressed / max(1, report.bytes_sent)
        set_labels(axes, f"Size by partition, {codec}: {ratio:.1f} to 1", y="MB")
    start_at_zero(axes, sent + encoded)
    plain_numbers(axes.yaxis)
    _name_bars(axes, names)
    legend(axes)


def plot_latencies(axes: Axes, report: DeliveryReport) -> None:
    """Plot the latency of requests (sent until response) and of batches (opened until sent)."""
    edges: list[float] = []
    for label, times, color in (
        ("request, sent to response", report.request_latency, GOOD),
        ("batch, opened to sent", report.queue_latency, SECOND),
    ):
        if times.count:
            slow = times.percentile(99) / 1000
            _draw_histogram(axes, times, label=f"{label}: p99 {number(slow)} ms", color=color)
            axes.axvline(slow, color=color, linestyle=":", linewidth=1.5)
            edges += [_step_edge(times.steps[0][0]) / 1000, times.high / 1000]
    set_labels(axes, "Latency, p99 dotted", x="ms", y="% of requests, of batches")
    _percent(axes.yaxis)
    if edges:
        _log_numbers(axes, min(edges), max(edges))
    legend(axes)


def plot_codecs(axes: Axes, report: DeliveryReport) -> None:
    """Plot each codec's compression ratio and CPU cost; the configured codec is dark."""
    configured = dict(report.metrics.settings).get("compression.type")
    names = [
        f"{cost.codec}\n(as set)" if cost.codec == configured else cost.codec
        for cost in report.codecs
    ]
    shares = [100 / cost.ratio for cost in report.codecs]
    colors = [INK if cost.codec == configured else GOOD for cost in report.codecs]
    bars = axes.barh(names, shares, color=colors)
    axes.bar_label(bars, [f" {_codec_label(cost)}" for cost in report.codecs])
    axes.invert_yaxis()
    set_labels(axes, "Codecs, measured on a sample", x="% of the bytes; CPU time per record")
    _percent(axes.xaxis)
    axes.set_xlim(0, 150)


def plot_batch_fill(axes: Axes, report: DeliveryReport) -> None:
    """Plot the compressed batch sizes, with batch.size, which limits the uncompressed size."""
    limit = int(dict(report.metrics.settings).get("batch.size", 0)) / 1000
    sizes, edges = report.metrics.batch_size, []
    title = plural(report.batches, "batch", "batches")
    if sizes.count:
        label = "to be sent" if report.dry_run else "as sent"
        _draw_histogram(axes, sizes, label=label, color=GOOD)
        edges += [_step_edge(sizes.steps[0][0]) / 1000, sizes.high / 1000]
    if report.batches:
        mean = report.bytes_uncompressed / report.batches / 1000
        axes.axvline(mean, color=INK, linestyle="--", label="mean before compression")
        edges.append(mean)
        if limit:
            title += f", {100 * mean / limit:,.0f} % full on average"
    if limit:
        axes.axvline(limit, color=BAD, linestyle=":", linewidth=2, label="batch.size")
        edges.append(limit)
    set_labels(axes, title, x="kB", y="% of batches")
    _percent(axes.yaxis)
    if all(edges) and edges:
        _log_numbers(axes, min(edges), max(edges))
    legend(axes)


def plot_closing(axes: Axes, report: DeliveryReport) -> None:
    """Plot why batches were closed."""
    metrics = report.metrics
    reasons = {
        "batch.size reached": metrics.closed_full,
        "linger.ms passed": metrics.closed_linger,
        "no more rows": metrics.closed_flush,
        "no memory left": metrics.closed_memory,
    }
    bars = axes.barh(list(reasons), list(reasons.values()), color=GOOD)
    axes.bar_label(bars, [f" {count:,}" for count in reasons.values()])
    axes.invert_yaxis()
    set_labels(axes, "Reasons for closing batches", x="batches")
    plain_numbers(axes.xaxis, whole=True)
    axes.set_xlim(0, max(1, *reasons.values()) * 1.2)


def plot_time(axes: Axes, report: DeliveryReport) -> None:
    """Plot how the writing threads of all tasks spent their time; the shares add up to 100%."""
    shares = time_shares(report)
    bars = axes.barh(list(shares), list(shares.values()), color=GOOD)
    axes.bar_label(bars, [f" {share:,.0f} %" for share in shares.values()])
    axes.invert_yaxis()
    busy = max(1, report.duration_sum_ms) * 1000
    parallel = [f"compressing {100 * report.metrics.compression_time.total / busy:,.0f} %"]
    if report.throttle_ms:
        parallel.append(f"throttled {100_000 * report.throttle_ms / busy:,.0f} %")
    set_labels(
        axes,
        "How tasks spent their time",
        x=f"% of all tasks' time; in parallel: {', '.join(parallel)}",
    )
    _percent(axes.xaxis)
    axes.set_xlim(0, 115)


def time_shares(report: DeliveryReport) -> dict[str, float]:
    """Return the shares of all tasks' time in percent, by what the writing threads did.

    The sum is 100, or 0 for a report without times.
    """
    metrics = report.metrics
    busy = report.duration_sum_ms * 1000
    full = min(metrics.buffer_wait, busy)
    last = min(metrics.flush_time, busy - full)
    encoding = min(max(0, metrics.append_time - metrics.buffer_wait), busy - full - last)
    spent = {
        "waiting for rows": busy - full - last - encoding,
        "encoding": encoding,
        "waiting for brokers:\nbuffer full": full,
        "waiting for brokers:\nlast responses": last,
    }
    return {name: 100 * time / busy if busy else 0.0 for name, time in spent.items()}


def _codec_label(cost: CodecCost) -> str:
    spent = f", {cost.us_per_record:,.2f} µs" if cost.cpu_ns else ""
    return f"{cost.ratio:,.1f} to 1{spent}"


def _largest_partitions(report: DeliveryReport) -> tuple[list[PartitionReport], list[str]]:
    """Return the largest partitions and their names, sorted.

    A topic name that all share is omitted. Partitions without records are included if the number of
    the topic's partitions is known.
    """
    by_size = sorted(_with_empty(report), key=attrgetter("records"), reverse=True)
    partitions = sorted(by_size[:PARTITIONS_SHOWN], key=attrgetter("key"))
    if len({partition.topic for partition in partitions}) == 1:
        return partitions, [str(partition.partition) for partition in partitions]
    return partitions, [partition_name(*partition.key) for partition in partitions]


def _with_empty(report: DeliveryReport) -> list[PartitionReport]:
    known = {partition.key for partition in report.partitions}
    counts = report.metrics.topic_partitions
    empty = (
        PartitionReport(topic=topic, partition=number)
        for topic in sorted({topic for topic, _ in known})
        for number in range(counts.get(topic, 0))
        if (topic, number) not in known
    )
    return [*report.partitions, *empty]


def _of_how_many(report: DeliveryReport) -> str:
    count = len(_with_empty(report))
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
