"""The micro-batches of a stream in one figure."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator

from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.plots.style import (
    BAD,
    GOOD,
    INK,
    NOT_DELIVERED,
    SECOND,
    done,
    dress,
    from_zero,
    legend,
    plain_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from spark_kafka_sink.report.delivery_report import DeliveryReport


def show_stream(reports: Sequence[DeliveryReport]) -> Figure:
    """The micro-batches of a stream, one after the other: records, time, latency and retries.

    Args:
        reports: as `DeliveryReport.read_all(folder)` gives them.
    """
    figure, axes = plt.subplots(2, 2, figsize=(13, 6), sharex=True)
    (records, times), (retries, latency) = axes
    numbers = [
        place if each.batch_id is None else each.batch_id for place, each in enumerate(reports)
    ]
    _records(records, numbers, reports)
    _times(times, numbers, reports)
    retries.bar(numbers, [each.retries for each in reports], color=BAD)
    dress(retries, "Batches sent again", x="micro-batch", y="batches")
    times_of = [each.request_latency for each in reports]
    slow = [each.percentile(99) / 1000 if each.count else nan for each in times_of]
    latency.plot(numbers, slow, "o-", color=GOOD)
    dress(latency, "Request latency, p99", x="micro-batch", y="ms")
    for axis in axes.flat:
        from_zero(axis, [axis.dataLim.y1 * 1.03 if reports else 0])
        plain_numbers(axis.yaxis, whole=axis in (records, retries))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        legend(axis)
    return done(figure, _title(reports))


def _records(axes: Axes, numbers: Sequence[int], reports: Sequence[DeliveryReport]) -> None:
    delivered = [each.persisted for each in reports]
    lost = [each.records - each.persisted for each in reports]
    axes.bar(numbers, delivered, color=GOOD, label="persisted" if any(lost) else "")
    if any(lost):
        axes.bar(numbers, lost, bottom=delivered, color=BAD, label=NOT_DELIVERED)
    dress(axes, "Records of each micro-batch", y="records")


def _times(axes: Axes, numbers: Sequence[int], reports: Sequence[DeliveryReport]) -> None:
    whole = [each.duration_ms / 1000 for each in reports]
    slowest = [each.duration_max_ms / 1000 for each in reports]
    axes.plot(numbers, whole, "o-", color=INK, label="whole micro-batch")
    axes.plot(numbers, slowest, "s--", color=SECOND, label="slowest task")
    dress(axes, "Time", y="s")


def _title(reports: Sequence[DeliveryReport]) -> str:
    name = next((each.query_name for each in reports if each.query_name), "")
    persisted = sum(each.persisted for each in reports)
    failed = [str(each.batch_id) for each in reports if each.error]
    parts = [plural(len(reports), "micro-batch", "micro-batches") + (f" of {name}" if name else "")]
    parts.append(f"{plural(persisted, 'record')} persisted")
    if failed:
        parts.append(f"failed: {', '.join(failed)}")
    return "; ".join(parts)
