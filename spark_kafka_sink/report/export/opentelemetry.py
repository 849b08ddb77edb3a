"""Export metrics with OpenTelemetry's API. The user's meter provider forwards them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics

from spark_kafka_sink.report.export.java_metrics import MetricKind, java_metrics

if TYPE_CHECKING:
    from spark_kafka_sink.report.delivery_report import DeliveryReport

_LOG = logging.getLogger(__name__)
_API = "opentelemetry.metrics"
"""The package whose own meter providers record nothing."""
_SCOPE = "spark_kafka_sink"
_PREFIX = "kafka.producer"


class OpenTelemetryExporter:
    """Records each write with the global meter provider.

    Args:
        client_id: added to every value as an attribute, unless it is empty.
    """

    def __init__(self, client_id: str) -> None:
        self._common = {"client_id": client_id} if client_id else {}
        self._instruments: dict[str, Any] = {}
        if type(metrics.get_meter_provider()).__module__.startswith(_API):
            _LOG.warning(
                "metrics.opentelemetry records nothing, because this process has no meter "
                "provider. Spark commits writes of format('kafkaprod') in a Python worker, which "
                "does not have the provider of your program: use write(df, options) or "
                "micro_batch_writer(options)"
            )

    def export(self, report: DeliveryReport) -> None:
        """Update the counters and gauges, then flush, because the process might exit soon."""
        for metric in java_metrics(report, report.duration_max_ms / 1000):
            attributes = {**self._common, **dict(metric.labels)}
            instrument = self._instrument(metric.name, metric.kind, tuple(dict(metric.labels)))
            if metric.kind is MetricKind.COUNTER:
                instrument.add(metric.value, attributes)
            else:
                instrument.set(metric.value, attributes)
        flush = getattr(metrics.get_meter_provider(), "force_flush", None)
        if flush is not None:
            flush()

    def _instrument(self, name: str, kind: MetricKind, scope: tuple[str, ...]) -> Any:
        parts = [_PREFIX, *(metric.removesuffix("_id") for metric in scope), name.replace("-", "_")]
        full = ".".join(parts)
        if full not in self._instruments:
            meter = metrics.get_meter(_SCOPE)
            make = meter.create_counter if kind is MetricKind.COUNTER else meter.create_gauge
            self._instruments[full] = make(full, description=f"Java's {name}")
        return self._instruments[full]
