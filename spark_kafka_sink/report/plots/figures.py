"""Figures of one write, of a stream, and of two writes compared."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator

from spark_kafka_sink.common.text import plural
from spark_kafka_sink.report.display.key_figures import Change, compare
from spark_kafka_sink.report.plots import panels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from spark_kafka_sink.report.delivery_report import DeliveryReport

_COMPARED = {
    "slowest task": "slowest task",
    "rate": "rate",
    "sent": "sent",
    "records per batch": "records per batch",
    "request latency p99": "request, p99",
}
"""The figures of a comparison that are shown, with their short names."""
_SETTINGS_SHOWN = 12
MULTIPLIED, DIVIDED = "\N{MULTIPLICATION SIGN}", "\N{DIVISION SIGN}"


def show(report: DeliveryReport) -> Figure:
    """Return a figure of one write with six plots.

    They show records and bytes by partition, batch fill, latencies, why batches were closed, and
    the tasks' time. A dry run has no latencies; its figure shows the compression ratio and cost of
    each codec instead.
    """
    figure, axes = plt.subplots(2, 3, figsize=(13, 7))
    (records, sizes, batch_fill), (latencies, closing, time) = axes
    panels.plot_records(records, report)
    panels.plot_sizes(sizes, report)
    panels.plot_batch_fill(batch_fill, report)
    if report.dry_run:
        panels.plot_codecs(latencies, report)
    else:
        panels.plot_latencies(latencies, report)
    panels.plot_closing(closing, report)
    panels.plot_time(time, report)
    return panels.finish_figure(figure, _figure_title(report))


def _figure_title(report: DeliveryReport) -> str:
    seconds = (report.duration_ms or report.duration_max_ms) / 1000
    speed = report.per_second(report.successful_records)
    rate = f", {speed:,.0f} a second" if seconds else ""
    word = "that would be written" if report.dry_run else "persisted"
    parts = [f"{plural(report.successful_records, 'record')} {word}, in {seconds:,.1f} s{rate}"]
    if report.dry_run:
        parts.insert(0, "Dry run, nothing was sent")
    if lost := report.records - report.successful_records:
        parts.append(f"{lost:,} possibly not delivered")
    if dead_letters := report.dead_lettered:
        parts.append(
            f"{dead_letters:,} of them {'a dead letter' if dead_letters == 1 else 'dead letters'}"
        )
    if report.dropped:
        parts.append(f"{plural(report.dropped, 'row')} dropped")
    if report.error:
        parts.append(report.status.value)
    return "; ".join(parts)


def show_stream(reports: Sequence[DeliveryReport]) -> Figure:
    """Return a figure of a stream by micro-batch: records, duration, latency and retries.

    Args:
        reports: delivery reports of the micro-batches, as from `DeliveryReport.read_all(folder)`.
    """
    figure, axes = plt.subplots(2, 2, figsize=(13, 6), sharex=True)
    (records, times), (retries, latency) = axes
    numbers = [
        index if report.batch_id is None else report.batch_id
        for index, report in enumerate(reports)
    ]
    _draw_records(records, numbers, reports)
    _draw_times(times, numbers, reports)
    retries.bar(numbers, [report.retries for report in reports], color=panels.BAD)
    panels.set_labels(retries, "Batches sent again", x="micro-batch", y="batches")
    times_of = [report.request_latency for report in reports]
    slow = [times.percentile(99) / 1000 if times.count else nan for times in times_of]
    latency.plot(numbers, slow, "o-", color=panels.GOOD)
    panels.set_labels(latency, "Request latency, p99", x="micro-batch", y="ms")
    for axis in axes.flat:
        panels.start_at_zero(axis, [axis.dataLim.y1 * 1.03 if reports else 0])
        panels.plain_numbers(axis.yaxis, whole=axis in (records, retries))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        panels.legend(axis)
    return panels.finish_figure(figure, _stream_title(reports))


def _draw_records(axes: Axes, numbers: Sequence[int], reports: Sequence[DeliveryReport]) -> None:
    delivered = [report.persisted for report in reports]
    lost = [report.records - report.persisted for report in reports]
    axes.bar(numbers, delivered, color=panels.GOOD, label="persisted" if any(lost) else "")
    if any(lost):
        axes.bar(numbers, lost, bottom=delivered, color=panels.BAD, label=panels.NOT_DELIVERED)
    panels.set_labels(axes, "Records of each micro-batch", y="records")


def _draw_times(axes: Axes, numbers: Sequence[int], reports: Sequence[DeliveryReport]) -> None:
    whole = [report.duration_ms / 1000 for report in reports]
    slowest = [report.duration_max_ms / 1000 for report in reports]
    axes.plot(numbers, whole, "o-", color=panels.INK, label="whole micro-batch")
    axes.plot(numbers, slowest, "s--", color=panels.SECOND, label="slowest task")
    panels.set_labels(axes, "Time", y="s")


def _stream_title(reports: Sequence[DeliveryReport]) -> str:
    name = next((report.query_name for report in reports if report.query_name), "")
    persisted = sum(report.persisted for report in reports)
    failed = [str(report.batch_id) for report in reports if report.error]
    parts = [plural(len(reports), "micro-batch", "micro-batches") + (f" of {name}" if name else "")]
    parts.append(f"{plural(persisted, 'record')} persisted")
    if failed:
        parts.append(f"failed: {', '.join(failed)}")
    return "; ".join(parts)


def show_comparison(before: DeliveryReport, after: DeliveryReport) -> Figure:
    """Return a figure that compares two writes: time, rate, size, batches, latency, settings."""
    compared = compare(before, after)
    changes = {change.name: change for change in compared.changes}
    figure, axes = plt.subplots(
        1, len(_COMPARED) + 1, figsize=(13, 3.4), width_ratios=[1] * len(_COMPARED) + [1.4]
    )
    for axis, (name, title) in zip(axes, _COMPARED.items(), strict=False):
        _draw_bars(axis, title, changes[name])
    _draw_settings(axes[-1], compared.settings)
    return panels.finish_figure(figure)


def _draw_bars(axes: Axes, title: str, change: Change) -> None:
    values = [change.before, change.after]
    bars = axes.bar(["before", "after"], values, color=[panels.PALE, panels.GOOD])
    axes.bar_label(bars, [panels.number(value) for value in values])
    panels.set_labels(axes, f"{title}\n{_factor_text(change)}", y=change.unit or "records")
    panels.plain_numbers(axes.yaxis)
    axes.margins(y=0.12)


def _factor_text(change: Change) -> str:
    if not change.before or not change.after:
        return ""
    factor = change.after / change.before
    if 0.95 < factor < 1.05:
        return "as before"
    sign, times = (MULTIPLIED, factor) if factor > 1 else (DIVIDED, 1 / factor)
    return f"{sign} {panels.number(times)}"


def _draw_settings(axes: Axes, settings: Sequence[tuple[str, str, str]]) -> None:
    """Draw the settings that differ, as text."""
    axes.set_axis_off()
    axes.set_title("settings\n", loc="left", fontsize="medium", fontweight="bold")
    lines = [
        f"{name}\n    {_shortened_value(old)} → {_shortened_value(new)}"
        for name, old, new in settings
    ]
    omitted = len(lines) - _SETTINGS_SHOWN
    if omitted > 0:
        lines[_SETTINGS_SHOWN:] = [f"and {omitted} more"]
    text = "\n".join(lines) or "all the same"
    axes.text(0, 1, text, va="top", fontsize="small", parse_math=False, transform=axes.transAxes)


def _shortened_value(text: str) -> str:
    return f"{int(text):,}" if text.isdigit() else text or "not set"
