"""Metric names of Java's SenderMetricsRegistry, with manually calculated values."""

import pytest

from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.export.java_metrics import MetricKind, client_values, java_metrics
from tests.unit.report.export.two_batches import report


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("record-send-total", 40),
        ("record-send-rate", 20),
        ("byte-total", 1250),
        ("byte-rate", 625),
        ("record-error-total", 5),
        ("record-error-rate", 2.5),
        ("record-retry-total", 10),
        ("record-retry-rate", 5),
        ("batch-split-total", 1),
        ("record-queue-time-avg", 20),
        ("record-queue-time-max", 20),
        ("batch-size-avg", 625),
        ("batch-size-max", 1000),
        ("records-per-request-avg", 40),
        ("compression-rate-avg", 0.25),
        ("compression-time-avg", 4),
        ("compression-time-max", 4),
        ("request-latency-avg", 10),
        ("request-latency-max", 10),
        ("request-total", 3),
        ("outgoing-byte-total", 1300),
        ("outgoing-byte-rate", 650),
        ("response-total", 1),
        ("connection-creation-total", 1),
        ("produce-throttle-time-avg", 30),
        ("produce-throttle-time-max", 30),
        ("bufferpool-wait-time-ns-total", 500_000_000),
        ("bufferpool-wait-ratio", 0.25),
        ("buffer-total-bytes", 5000),
        ("buffer-available-bytes-min", 3000),
        ("record-size-avg", 50),
    ],
)
def test_metrics_have_javas_names_and_values(name: str, value: float) -> None:
    assert client_values(report(), 2.0)[name] == pytest.approx(value)


def test_topics_and_nodes_have_separate_metrics() -> None:
    metrics = {(metric.name, metric.labels): metric.value for metric in java_metrics(report(), 2.0)}
    assert metrics["record-send-total", (("topic", "t"),)] == 10
    assert metrics["record-send-total", (("topic", "u"),)] == 30
    assert metrics["record-retry-total", (("topic", "t"),)] == 10
    assert metrics["batch-size-avg", (("topic", "u"),)] == 250
    assert metrics["request-latency-max", (("node_id", "1"),)] == 9
    assert metrics["outgoing-byte-total", (("node_id", "1"),)] == 1300


def test_totals_are_counters_and_names_are_unique() -> None:
    metrics = java_metrics(report(), 2.0)
    assert all(
        (metric.kind is MetricKind.COUNTER) == metric.name.endswith("-total") for metric in metrics
    )
    names = [(metric.name, metric.labels) for metric in metrics]
    assert len(names) == len(set(names))


def test_empty_report_has_metrics() -> None:
    assert set(client_values(DeliveryReport(), 0.0).values()) == {0.0, 1.0}
