"""Figures of delivery reports, such as `plots.show(report)` in a notebook.

They require matplotlib, which the `plots` extra installs. Each function returns a matplotlib
figure, which the notebook displays and which can be modified or saved with `savefig`. Sizes are in
MB (10^6 bytes), times in milliseconds or seconds, as labeled on each axis. The colors are from
the palette of Okabe and Ito, which people with color blindness can distinguish.

In reading order:

- `figures`: figures of one write, of a stream, and of two writes compared
- `panels`: the panels of the figures, and their style
"""

from __future__ import annotations

from importlib.util import find_spec

from spark_kafka_sink.common.optional_dependencies import install_command

if find_spec("matplotlib") is None:
    raise ModuleNotFoundError(
        f"spark_kafka_sink.report.plots needs matplotlib: {install_command('plots')}"
    )

from spark_kafka_sink.report.plots.figures import show, show_comparison, show_stream

__all__ = ["show", "show_comparison", "show_stream"]
