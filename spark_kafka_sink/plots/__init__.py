"""Figures of delivery reports, from the reports alone: `plots.show(report)` in a notebook.

Needs matplotlib, the extra `plots`. Each function gives a matplotlib figure, to be shown by the
notebook, saved with `savefig`, or changed; sizes are in MB (10^6 bytes), times in milliseconds or
seconds, as each axis says. Colours are those of Okabe and Ito, which colour-blind people can tell
apart.

To be read in this order: `style`, `panels`, `write`, `stream`, `comparison`.
"""

from __future__ import annotations

from importlib.util import find_spec

from spark_kafka_sink.common.extras import install_command

if find_spec("matplotlib") is None:
    raise ModuleNotFoundError(
        f"spark_kafka_sink.plots needs matplotlib: {install_command('plots')}"
    )

from spark_kafka_sink.plots.figures import show, show_comparison, show_stream

__all__ = ["show", "show_comparison", "show_stream"]
