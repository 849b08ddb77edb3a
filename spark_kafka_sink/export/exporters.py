"""Hands the metrics of a finished write to Prometheus and OpenTelemetry.

The driver does it, once per write or micro-batch, from the merged report. A task's Python worker
is the wrong place: there are many on one machine, so that a fixed port is taken; most live for
seconds, less than a scrape's interval; and what each of them knows is in the report anyway. So
there is no port to scrape: a file for node_exporter where there is one, a Pushgateway otherwise.
"""

from __future__ import annotations

import logging
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.common.clock import within

if TYPE_CHECKING:
    from spark_kafka_sink.config.model import SinkConfig
    from spark_kafka_sink.report.delivery_report import DeliveryReport

_LOG = logging.getLogger("spark_kafka_sink")
TIMEOUT_S = 30.0


class Exporter(Protocol):
    """Hands metrics to one system; it lives as long as the process and adds up counters."""

    def export(self, report: DeliveryReport) -> None:
        """Hand over the metrics of one more write."""


def export_metrics(report: DeliveryReport, config: SinkConfig) -> None:
    """Hand a write's metrics to every system that the options name.

    One that fails is logged and skipped: the records are in Kafka, and a write that has succeeded
    must not fail for its metrics.
    """
    client_id = config.producer.client_id
    places: dict[str, str | None] = {
        "textfile": config.prometheus_textfile,
        "pushgateway": config.prometheus_pushgateway,
        "opentelemetry": "" if config.opentelemetry else None,
    }
    for kind, target in places.items():
        if target is None:
            continue
        try:
            exporter = _exporter(kind, target, client_id)
            within(TIMEOUT_S, f"{kind} {target}", partial(exporter.export, report))
        except Exception as error:  # noqa: BLE001 - see above
            _LOG.warning("metrics could not be handed to %s: %s", kind, error)


@cache
def _exporter(kind: str, target: str, client_id: str) -> Exporter:
    """The process's exporter for a place; the libraries are imported only here."""
    if kind == "opentelemetry":
        from spark_kafka_sink.export.opentelemetry import OpenTelemetryExporter

        return OpenTelemetryExporter(client_id)
    from spark_kafka_sink.export.prometheus import PushgatewayExporter, TextfileExporter

    return (TextfileExporter if kind == "textfile" else PushgatewayExporter)(target, client_id)
