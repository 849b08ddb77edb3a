"""What all figures share: colours, numbers on axes, legends, histograms as steps."""

from __future__ import annotations

from math import isfinite, log10
from typing import TYPE_CHECKING

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from spark_kafka_sink.metrics.histogram import step_top

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from spark_kafka_sink.metrics.histogram import Histogram

GOOD, BAD, PALE, SECOND, INK = "#0072B2", "#D55E00", "#BBC7D0", "#E69F00", "#22303C"
"""Delivered; not delivered, or a limit; for comparison; a second series; lines and marks."""
NOT_DELIVERED = "not known to be delivered"
MB = 1_000_000


def number(value: float) -> str:
    """A number as it stands beside a bar: three digits at least, thousands with a comma."""
    if value >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if value >= 1 else f"{value:.2g}"


def dress(axes: Axes, title: str, *, x: str = "", y: str = "") -> None:
    """A title, names of axes, and no frame where there is nothing to read."""
    axes.set_title(title, loc="left", fontsize="medium", fontweight="bold")
    axes.set(xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)


def plain_numbers(axis: Axis, *, whole: bool = False) -> None:
    """Commas between thousands, and no powers of ten; `whole` for what is counted."""
    steps = [1, 2, 5, 10] if whole else [1, 2, 2.5, 5, 10]
    axis.set_major_locator(MaxNLocator(nbins=6, steps=steps, integer=whole, min_n_ticks=2))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))


def percent(axis: Axis) -> None:
    """Percents of a whole: no number above 100, where there may be room for a legend."""
    plain_numbers(axis)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value <= 100 else ""))


def from_zero(axes: Axes, heights: Iterable[float]) -> None:
    """A y axis that begins at 0, also where all bars are 0 or there are none."""
    axes.set_ylim(0, 1.05 * max((each for each in heights if isfinite(each)), default=0) or 1)


def log_numbers(axes: Axes, low: float, high: float) -> None:
    """A logarithmic x axis over a decade at least, with plain numbers."""
    middle, decades = (low * high) ** 0.5, log10(high / low)
    reach = 10 ** max(0.5, decades / 2 + 0.05)
    axes.set(xscale="log", xlim=(middle / reach, middle * reach))
    axes.xaxis.set_major_locator(LogLocator(subs=(1,) if decades > 2 else (1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def legend(axes: Axes) -> None:
    """Above what is drawn, which gets less room for it; none where nothing has a name."""
    names = axes.get_legend_handles_labels()[1]
    if names:
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + (high - low) * 0.13 * len(names))
        axes.legend(
            loc="upper left", fontsize="small", edgecolor="none", framealpha=0.9, borderaxespad=0.1
        )


def stairs(axes: Axes, values: Histogram, *, unit: int, label: str, color: str) -> None:
    """A histogram as steps, in percent, so that those of many and of few values can be compared.

    Args:
        axes: where to.
        values: what was counted, one number at least.
        unit: how many of the histogram's units one on the axis is.
        label: for the legend.
        color: of the steps and what is below them.
    """
    counts = dict(values.steps)
    first, last = min(counts), max(counts)
    edges = [step_edge(step) / unit for step in range(first, last + 2)]
    shares = [100 * counts.get(step, 0) / values.count for step in range(first, last + 1)]
    axes.stairs(shares, edges, label=label, color=color, fill=True, alpha=0.55)
    axes.stairs(shares, edges, color=color, linewidth=1)


def step_edge(step: int) -> float:
    """Where a step begins, above 0 as an axis of logarithms has none."""
    return max(step_top(step - 1), 0.5) if step else 0.5


def done(figure: Figure, title: str = "") -> Figure:
    """The figure with its title and some air, closed: a notebook shows what the cell returns."""
    figure.set_layout_engine("constrained", h_pad=0.1, w_pad=0.1)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    plt.close(figure)
    return figure
