"""Export metrics to Prometheus with prometheus-client, through a textfile or a Pushgateway."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, push_to_gateway, write_to_textfile
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from spark_kafka_sink.common.histogram import MICROS_PER_S, Histogram, step_top
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.export.java_metrics import MetricKind, java_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator


_JOB = "kafkaprod"
_PREFIXES = {(): "kafka_producer", ("topic",): "kafka_producer_topic"}


class _Writes(Collector):
    """Metrics of this process: counters and histograms of all writes, gauges of the last write."""

    def __init__(self, client_id: str) -> None:
        self._common = {"client_id": client_id} if client_id else {}
        self._lock = Lock()
        self._all = DeliveryReport()
        self._last = DeliveryReport()
        self.registry = CollectorRegistry()
        self.registry.register(self)

    @contextmanager
    def adding(self, report: DeliveryReport) -> Iterator[CollectorRegistry]:
        """Add a write; until its export has ended, other threads wait."""
        with self._lock:
            self._all, self._last = self._all + report, report
            yield self.registry

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for report, kind in ((self._all, MetricKind.COUNTER), (self._last, MetricKind.GAUGE)):
            seconds = report.duration_max_ms / 1000
            for metric in java_metrics(report, seconds):
                if metric.kind is kind:
                    self._add_sample(families, metric.name, kind, metric.value, dict(metric.labels))
        yield from families.values()
        yield self._histogram_family("request_latency", self._all.request_latency)
        yield self._histogram_family("record_queue_time", self._all.queue_latency)

    def _add_sample(
        self,
        families: dict[str, Metric],
        name: str,
        kind: MetricKind,
        value: float,
        labels: dict[str, str],
    ) -> None:
        scope = _PREFIXES.get(tuple(labels), "kafka_producer_node")
        full = f"{scope}_{name.replace('-', '_')}"
        labels = {**self._common, **labels}
        family = families.get(full)
        if family is None:
            make = CounterMetricFamily if kind is MetricKind.COUNTER else GaugeMetricFamily
            text = f"Java's {name}"
            family = families[full] = make(full.removesuffix("_total"), text, labels=tuple(labels))
        family.add_metric(tuple(labels.values()), value)  # type: ignore[attr-defined]

    def _histogram_family(self, name: str, times: Histogram) -> Metric:
        family = HistogramMetricFamily(
            f"kafka_producer_{name}_seconds", "Log-spaced buckets.", labels=tuple(self._common)
        )
        buckets, seen = [], 0
        for step, count in times.steps:
            seen += count
            buckets.append((str((step_top(step) + 1) / MICROS_PER_S), float(seen)))
        buckets.append(("+Inf", float(seen)))
        family.add_metric(tuple(self._common.values()), buckets, times.total / MICROS_PER_S)
        return family


class TextfileExporter:
    """Writes a file for node_exporter's textfile collector, atomically.

    Args:
        target: the file; node_exporter reads it only if the name ends in `.prom`.
        client_id: a label of every metric, unless it is empty.
    """

    def __init__(self, target: str, client_id: str) -> None:
        self._target = target
        self._writes = _Writes(client_id)

    def export(self, report: DeliveryReport) -> None:
        """Add the metrics of a write and replace the file. Raises OSError on failure."""
        with self._writes.adding(report) as registry:
            write_to_textfile(self._target, registry)


class PushgatewayExporter:
    """Replaces this driver's group at a Pushgateway: job kafkaprod, instance, client_id.

    Args:
        target: host:port or a URL.
        client_id: part of the group, unless it is empty; should be unique among the jobs on a
            machine.
    """

    def __init__(self, target: str, client_id: str) -> None:
        self._target = target
        self._group = {"instance": socket.gethostname()}
        if client_id:
            self._group["client_id"] = client_id
        self._writes = _Writes("")

    def export(self, report: DeliveryReport) -> None:
        """Add the metrics of a write and push all metrics. Raises OSError on failure."""
        with self._writes.adding(report) as registry:
            push_to_gateway(self._target, _JOB, registry, grouping_key=self._group, timeout=10)
