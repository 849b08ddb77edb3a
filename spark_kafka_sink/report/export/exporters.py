"""Export the metrics of a finished write to Prometheus and OpenTelemetry.

The driver exports them once per write or micro-batch, from the merged report. Python workers do not
export metrics. Several workers on one machine would compete for a fixed port, most of them run for
less than a scrape interval, and the report contains their metrics anyway. Prometheus does not
scrape a port of the driver either; it gets the metrics from a file for node_exporter, or from a
Pushgateway.
"""

from __future__ import annotations

import logging
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.common.time_limit import run_with_timeout

if TYPE_CHECKING:
    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.report.delivery_report import DeliveryReport

_LOG = logging.getLogger(__name__)
_TIMEOUT_S = 30.0
"""Time limit of an export in seconds."""
_lock = Lock()
"""Held while an exporter is created, because `cache` would let two threads create one each."""


class _Exporter(Protocol):
    """Exports metrics to one system. It exists as long as the process and accumulates counters."""

    def export(self, report: DeliveryReport) -> None:
        """Export the metrics of one write."""


def export_metrics(report: DeliveryReport, config: SinkConfig) -> None:
    """Export a write's metrics to every system that the options specify.

    A failure is logged and ignored: the records are in Kafka, and a successful write must not fail
    because of its metrics.
    """
    client_id = config.producer.client_id
    targets: dict[str, str | None] = {
        "textfile": config.prometheus_textfile,
        "pushgateway": config.prometheus_pushgateway,
        "opentelemetry": "" if config.opentelemetry else None,
    }
    for kind, target in targets.items():
        if target is None:
            continue
        try:
            with _lock:
                exporter = _exporter(kind, target, client_id)
            run_with_timeout(_TIMEOUT_S, f"{kind} {target}", partial(exporter.export, report))
        except Exception as error:  # noqa: BLE001 - see above
            _LOG.warning("metrics could not be exported to %s: %s", kind, error)


@cache
def _exporter(kind: str, target: str, client_id: str) -> _Exporter:
    """Return the process's exporter for a target. Its libraries are imported only when needed."""
    if kind == "opentelemetry":
        from spark_kafka_sink.report.export.opentelemetry import OpenTelemetryExporter

        return OpenTelemetryExporter(client_id)
    from spark_kafka_sink.report.export.prometheus import PushgatewayExporter, TextfileExporter

    return (TextfileExporter if kind == "textfile" else PushgatewayExporter)(target, client_id)
