"""Two writes in one figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import pyplot as plt

from spark_kafka_sink.plots.style import GOOD, PALE, done, dress, number, plain_numbers
from spark_kafka_sink.report.figures import Change, compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from spark_kafka_sink.report.delivery_report import DeliveryReport

_SHOWN = {
    "slowest task": "slowest task",
    "rate": "rate",
    "sent": "sent",
    "records a batch": "records a batch",
    "request latency p99": "request, p99",
}
"""Figures of `compare`, and what they are called where there is little room."""
_SETTINGS_SHOWN = 12
MULTIPLIED, DIVIDED = "\N{MULTIPLICATION SIGN}", "\N{DIVISION SIGN}"


def show_comparison(before: DeliveryReport, after: DeliveryReport) -> Figure:
    """Two writes side by side: time, rate, size sent, records in a batch, latency, settings."""
    compared = compare(before, after)
    found = {each.name: each for each in compared.changes}
    figure, axes = plt.subplots(
        1,
        len(_SHOWN) + 1,
        figsize=(13, 3.4),
        width_ratios=[1] * len(_SHOWN) + [1.4],
    )
    for axis, (name, title) in zip(axes, _SHOWN.items(), strict=False):
        _bars(axis, title, found[name])
    _settings(axes[-1], compared.settings)
    return done(figure)


def _bars(axes: Axes, title: str, change: Change) -> None:
    values = [change.before, change.after]
    bars = axes.bar(["before", "after"], values, color=[PALE, GOOD])
    axes.bar_label(bars, [number(value) for value in values])
    dress(axes, f"{title}\n{_factor(change)}", y=change.unit or "records")
    plain_numbers(axes.yaxis)
    axes.margins(y=0.12)


def _factor(change: Change) -> str:
    if not change.before or not change.after:
        return ""
    factor = change.after / change.before
    if 0.95 < factor < 1.05:
        return "as before"
    sign, times = (MULTIPLIED, factor) if factor > 1 else (DIVIDED, 1 / factor)
    return f"{sign} {number(times)}"


def _settings(axes: Axes, settings: Sequence[tuple[str, str, str]]) -> None:
    """The settings that differ, as text."""
    axes.set_axis_off()
    axes.set_title("settings\n", loc="left", fontsize="medium", fontweight="bold")
    lines = [f"{name}\n    {_value(old)} → {_value(new)}" for name, old, new in settings]
    more = len(lines) - _SETTINGS_SHOWN
    if more > 0:
        lines[_SETTINGS_SHOWN:] = [f"and {more} more"]
    text = "\n".join(lines) or "all the same"
    axes.text(0, 1, text, va="top", fontsize="small", transform=axes.transAxes)


def _value(text: str) -> str:
    return f"{int(text):,}" if text.isdigit() else text or "not set"
