"""Hands the metrics of a finished write to Prometheus and OpenTelemetry.

The driver does it, once per write or micro-batch, from the merged report. A task's Python worker
is the wrong place: there are many on one machine, so that a fixed port is taken; most live for
seconds, less than a scrape's interval; and what each of them knows is in the report anyway. So
there is no port to scrape: a file for node_exporter where there is one, a Pushgateway otherwise.
"""

from __future__ import annotations

import logging
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from spark_kafka_sink.base.deadline import within
from spark_kafka_sink.base.errors import ConfigError

if TYPE_CHECKING:
    from spark_kafka_sink.base.config import SinkConfig
    from spark_kafka_sink.base.delivery_report import DeliveryReport

_LOG = logging.getLogger("spark_kafka_sink")
TIMEOUT_S = 30.0
_EXTRAS = {"prometheus": "prometheus_client", "opentelemetry": "opentelemetry"}


class Exporter(Protocol):
    """A place that metrics go to; it lives as long as the process and adds up counters."""

    def export(self, report: DeliveryReport) -> None:
        """Hand over the metrics of one more write."""


def require_extra(extra: str, option: str) -> None:
    """Make sure that an option's library is there, without importing it.

    Raises:
        ConfigError: it is not installed.
    """
    if find_spec(_EXTRAS[extra]) is None:
        raise ConfigError(
            f"option {option} needs a library that is not installed",
            hint=f"Install it on the driver: pip install 'spark-kafka-sink[{extra}]'.",
        )


def export_metrics(report: DeliveryReport, config: SinkConfig) -> None:
    """Hand a write's metrics to every place that the options name.

    A place that fails is logged and passed over: the records are in Kafka, and a write that has
    succeeded must not be run again for its metrics' sake.
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
        from spark_kafka_sink.base.opentelemetry_exporter import OpenTelemetryExporter

        return OpenTelemetryExporter(client_id)
    from spark_kafka_sink.base.prometheus_exporter import PushgatewayExporter, TextfileExporter

    return (TextfileExporter if kind == "textfile" else PushgatewayExporter)(target, client_id)
