"""One write in one figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import pyplot as plt

from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.plots.panels import (
    plot_batch_fill,
    plot_closing,
    plot_codecs,
    plot_latencies,
    plot_records,
    plot_sizes,
    plot_time,
)
from spark_kafka_sink.plots.style import done

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from spark_kafka_sink.report.delivery_report import DeliveryReport


def show(report: DeliveryReport) -> Figure:
    """One write in six plots: partitions, sizes, latencies, batches and why they were sent.

    A dry run has no latencies, and shows what each codec makes of its batches instead.
    """
    figure, axes = plt.subplots(2, 3, figsize=(13, 7))
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
    return done(figure, _title(report))


def _title(report: DeliveryReport) -> str:
    seconds = (report.duration_ms or report.duration_max_ms) / 1000
    rate = f", {report.as_intended / seconds:,.0f} a second" if seconds else ""
    word = "that would be written" if report.dry_run else "persisted"
    parts = [f"{plural(report.as_intended, 'record')} {word}, in {seconds:,.1f} s{rate}"]
    if report.dry_run:
        parts.insert(0, "Dry run, nothing was sent")
    if lost := report.records - report.as_intended:
        parts.append(f"{lost:,} not known to be delivered")
    if letters := report.dead_lettered:
        parts.append(f"{letters:,} of them {'a dead letter' if letters == 1 else 'dead letters'}")
    if report.dropped:
        parts.append(f"{plural(report.dropped, 'row')} dropped")
    if report.error:
        parts.append(report.status.value)
    return "; ".join(parts)
