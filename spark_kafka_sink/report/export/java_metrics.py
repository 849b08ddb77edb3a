"""Convert a delivery report to the metrics of the Java producer (``SenderMetricsRegistry``).

Rates are per second over the given duration, times are in milliseconds, sizes in bytes. The labels
correspond to Java's tags: none for client metrics, `topic` for a topic, `node_id` for a broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from itertools import groupby
from typing import TYPE_CHECKING

from spark_kafka_sink.common.histogram import MICROS_PER_S
from spark_kafka_sink.report.metrics.producer_metrics import MILLIONTHS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_kafka_sink.common.histogram import Histogram
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.report.metrics.producer_metrics import (
        BrokerMetrics,
        ProducerMetrics,
        TopicMetrics,
    )
    from spark_kafka_sink.report.partition_report import PartitionReport

Labels = tuple[tuple[str, str], ...]


class MetricKind(Enum):
    """The type of a metric."""

    COUNTER = auto()
    """A count for this write only. Exporters add up the values of several writes."""
    GAUGE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric with its value."""

    name: str
    kind: MetricKind
    value: float
    labels: Labels = ()


def java_metrics(report: DeliveryReport, seconds: float) -> list[Metric]:
    """Return all metrics of a report; `seconds` is the duration of the write, used for rates."""
    brokers, topics = report.metrics.brokers, report.metrics.topics
    return [
        *_client_metrics(report, seconds),
        *(line for broker in brokers for line in _node_metrics(broker, seconds)),
        *_topic_metrics(report.partitions, {topic.topic: topic for topic in topics}, seconds),
    ]


def client_values(report: DeliveryReport, seconds: float) -> dict[str, float]:
    """Return the values of the client's metrics by name."""
    return {metric.name: metric.value for metric in _client_metrics(report, seconds)}


def _client_metrics(report: DeliveryReport, seconds: float) -> Iterator[Metric]:
    metrics = report.metrics
    yield from _volume_metrics(report.partitions, seconds)
    yield from _total_and_rate("record-retry", metrics.retried_records, seconds)
    yield from _total_and_rate("batch-split", report.splits, seconds)
    yield from _traffic_metrics(metrics.brokers, seconds)
    queue, latency = report.queue_latency, report.request_latency
    yield from _average_and_max("record-queue-time", queue.mean / 1000, queue.high / 1000)
    yield from _average_and_max("request-latency", latency.mean / 1000, latency.high / 1000)
    yield from _batch_metrics(metrics)
    yield from _buffer_metrics(metrics, seconds)
    yield _gauge("record-size-avg", _ratio(report.bytes_uncompressed, report.persisted))


def _batch_metrics(metrics: ProducerMetrics) -> Iterator[Metric]:
    size, time = metrics.batch_size, metrics.compression_time
    yield from _average_and_max("batch-size", size.mean, size.high)
    yield _gauge("records-per-request-avg", metrics.request_records.mean)
    rate = metrics.compression_rate
    yield _gauge("compression-rate-avg", rate.mean / MILLIONTHS if rate.count else 1.0)
    yield from _average_and_max("compression-time", time.mean / 1000, time.high / 1000)
    yield from _average_and_max(
        "produce-throttle-time", metrics.throttle.mean, metrics.throttle.high
    )


def _buffer_metrics(metrics: ProducerMetrics, seconds: float) -> Iterator[Metric]:
    yield _counter("bufferpool-wait-time-ns-total", metrics.buffer_wait * 1000)
    yield _gauge("bufferpool-wait-ratio", _ratio(metrics.buffer_wait / MICROS_PER_S, seconds))
    limit = dict(metrics.settings).get("buffer.memory")
    if limit is not None:
        yield _gauge("buffer-total-bytes", int(limit))
        yield _gauge("buffer-available-bytes-min", max(0, int(limit) - metrics.buffer_peak))


def _traffic_metrics(brokers: Sequence[BrokerMetrics], seconds: float) -> Iterator[Metric]:
    yield from _total_and_rate("request", sum(broker.tx for broker in brokers), seconds)
    yield from _total_and_rate("response", sum(broker.rx for broker in brokers), seconds)
    yield from _total_and_rate("outgoing-byte", sum(broker.tx_bytes for broker in brokers), seconds)
    yield from _total_and_rate("incoming-byte", sum(broker.rx_bytes for broker in brokers), seconds)
    yield from _total_and_rate(
        "connection-creation", sum(broker.connects for broker in brokers), seconds
    )
    yield from _total_and_rate(
        "connection-close", sum(broker.disconnects for broker in brokers), seconds
    )


def _node_metrics(broker: BrokerMetrics, seconds: float) -> Iterator[Metric]:
    labels = (("node_id", str(broker.node_id)),)
    yield from _total_and_rate("request", broker.tx, seconds, labels)
    yield from _total_and_rate("response", broker.rx, seconds, labels)
    yield from _total_and_rate("outgoing-byte", broker.tx_bytes, seconds, labels)
    yield from _total_and_rate("incoming-byte", broker.rx_bytes, seconds, labels)
    yield from _latency_gauges("request-latency", broker.rtt, labels)
    yield from _latency_gauges("record-queue-time", broker.int_latency, labels)


def _topic_metrics(
    partitions: Sequence[PartitionReport], topics: dict[str, TopicMetrics], seconds: float
) -> Iterator[Metric]:
    for name, group in groupby(partitions, lambda partition: partition.topic):
        labels = (("topic", name),)
        yield from _volume_metrics(list(group), seconds, labels)
        if name in topics:
            size = topics[name].batch_size
            yield from _total_and_rate(
                "record-retry", topics[name].retried_records, seconds, labels
            )
            yield from _average_and_max("batch-size", size.mean, size.high, labels)


def _volume_metrics(
    partitions: Sequence[PartitionReport], seconds: float, labels: Labels = ()
) -> Iterator[Metric]:
    sent = sum(partition.persisted + partition.sent for partition in partitions)
    failed = sum(partition.not_persisted + partition.possibly_persisted for partition in partitions)
    yield from _total_and_rate("record-send", sent, seconds, labels)
    yield from _total_and_rate("record-error", failed, seconds, labels)
    yield from _total_and_rate(
        "byte", sum(partition.bytes_sent for partition in partitions), seconds, labels
    )


def _total_and_rate(
    name: str, total: float, seconds: float, labels: Labels = ()
) -> Iterator[Metric]:
    yield _counter(f"{name}-total", total, labels)
    yield _gauge(f"{name}-rate", _ratio(total, seconds), labels)


def _latency_gauges(name: str, micros: Histogram, labels: Labels) -> Iterator[Metric]:
    yield from _average_and_max(name, micros.mean / 1000, micros.high / 1000, labels)


def _average_and_max(
    name: str, average: float, highest: float, labels: Labels = ()
) -> Iterator[Metric]:
    yield _gauge(f"{name}-avg", average, labels)
    yield _gauge(f"{name}-max", highest, labels)


def _gauge(name: str, value: float, labels: Labels = ()) -> Metric:
    return Metric(name=name, kind=MetricKind.GAUGE, value=value, labels=labels)


def _counter(name: str, value: float, labels: Labels = ()) -> Metric:
    return Metric(name=name, kind=MetricKind.COUNTER, value=value, labels=labels)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
