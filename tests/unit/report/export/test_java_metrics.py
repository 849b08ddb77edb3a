"""Metric names of Java's SenderMetricsRegistry, with manually calculated values."""

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.export.java_metrics import MetricKind, client_values, java_metrics
from spark_kafka_sink.report.metrics.producer_metrics import BatchSent, CloseReason
from spark_kafka_sink.report.report_builder import FinishedBatch, ReportBuilder
from spark_kafka_sink.report.task_report import TaskInfo

NODE = Node(1, "a", 9092)


def report() -> DeliveryReport:
    """Create a report of two batches with 10 and 30 records, 1,000 bytes each; one is compressed to
    250.
    """
    builder = ReportBuilder()
    builder.meters.settings = (("buffer.memory", "5000"),)
    builder.meters.buffer_wait, builder.meters.buffer_peak = 0.5, 2000
    broker = builder.meters.brokers.of(NODE)
    for records, wire, topic in ((10, 1000, "t"), (30, 250, "u")):
        done = FinishedBatch(
            topic=topic, partition=0, records=records, raw_bytes=1000, wire_bytes=wire
        )
        builder.count_acknowledged(done, 0)
        builder.add_queue_latency(0.02)
        sent = BatchSent(
            topic=topic,
            records=records,
            raw_bytes=1000,
            wire_bytes=wire,
            queue_times=[(0.02, records)],
            fill_time=0.01,
            close_reason=CloseReason.FULL,
            compression=None if wire == 1000 else 0.004,
        )
        builder.meters.add_batch(sent, broker)
    builder.meters.add_request(40)
    broker.tx_bytes, broker.connects = 1300, 1
    broker.tx, broker.rx = 2, 1
    broker.written(0, 0.001)
    broker.rtt.add_time(0.009)
    broker.throttle.add(30)
    builder.add_request_latency(0.01)
    builder.meters.count_retried("t", 10)
    builder.count_split()
    builder.count_failed("u", 0, 5, DeliveryStatus.NOT_PERSISTED, "E")
    return builder.build(TaskInfo(), 2000)


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
def test_values(name: str, value: float) -> None:
    assert client_values(report(), 2.0)[name] == pytest.approx(value)


def test_topics_and_nodes_have_separate_metrics() -> None:
    found = {(each.name, each.labels): each.value for each in java_metrics(report(), 2.0)}
    assert found["record-send-total", (("topic", "t"),)] == 10
    assert found["record-send-total", (("topic", "u"),)] == 30
    assert found["record-retry-total", (("topic", "t"),)] == 10
    assert found["batch-size-avg", (("topic", "u"),)] == 250
    assert found["request-latency-max", (("node_id", "1"),)] == 9
    assert found["outgoing-byte-total", (("node_id", "1"),)] == 1300


def test_totals_are_counters_and_names_are_unique() -> None:
    metrics = java_metrics(report(), 2.0)
    assert all(
        (metric.kind is MetricKind.COUNTER) == metric.name.endswith("-total") for metric in metrics
    )
    names = [(metric.name, metric.labels) for metric in metrics]
    assert len(names) == len(set(names))


def test_empty_report_has_metrics() -> None:
    assert set(client_values(DeliveryReport(), 0.0).values()) == {0.0, 1.0}
