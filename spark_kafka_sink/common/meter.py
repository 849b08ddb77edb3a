"""Named metrics: counters and histograms."""

from __future__ import annotations

from spark_kafka_sink.common.histogram import Histogram, HistogramBuilder


class Meter:
    """Counters and histograms with the names of the metrics that are built from them."""

    def roll(self) -> dict[str, Histogram]:
        """Return the histograms of the values since the last call, by name."""
        values = vars(self).items()
        return {name: value.roll() for name, value in values if isinstance(value, HistogramBuilder)}
