"""Reports of healthy jobs, and changes to them."""

from dataclasses import replace
from typing import Any

from spark_kafka_sink.common.histogram import Histogram, HistogramBuilder
from spark_kafka_sink.report.advice.advice import Advice, Direction
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.metrics.producer_metrics import (
    BrokerMetrics,
    ProducerMetrics,
    TopicMetrics,
)
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.spark_settings import ARROW_COLUMNS

SETTINGS = {
    "batch.size": "1048576",
    "buffer.memory": "67108864",
    "compression.type": "none",
    "linger.ms": "50",
    "max.in.flight.requests.per.connection": "5",
}
BATCHES = 200
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def times(seconds: float, count: int = BATCHES) -> Histogram:
    builder = HistogramBuilder()
    for _ in range(count):
        builder.add_duration(seconds)
    return builder.build()


def spread(value: float, count: int = BATCHES) -> Histogram:
    builder = HistogramBuilder()
    for _ in range(count):
        builder.add(int(value))
    return builder.build()


def parts(*sizes: int) -> tuple[PartitionReport, ...]:
    return tuple(
        PartitionReport(
            topic="t",
            partition=number,
            batches=BATCHES // len(sizes),
            bytes_uncompressed=size,
            bytes_sent=size,
            persisted=1000,
            next_ack_seq=1000,
        )
        for number, size in enumerate(sizes)
    )


def report(settings: dict[str, str] | None = None, **changes: Any) -> DeliveryReport:
    """Create the report of a healthy one-task job: 200 batches of 900 kB to two partitions in ten
    seconds.

    `changes` are fields of the report, or of its metrics.
    """
    metrics = ProducerMetrics(
        fill_time=spread(20_000),
        request_records=spread(10_000),
        closed_full=BATCHES,
        brokers=(BrokerMetrics(node_id=1, name="a:1", int_latency=spread(30_000)),),
        topics=(TopicMetrics(topic="t", keyed_records=1_000_000),),
        settings=tuple(sorted({**SETTINGS, **(settings or {})}.items())),
    )
    healthy = DeliveryReport(
        tasks=1,
        partitions=parts(90_000_000, 90_000_000),
        request_latency=times(0.01),
        queue_latency=times(0.03),
        duration_max_ms=10_000,
        duration_sum_ms=10_000,
        metrics=metrics,
    )
    inner = {name: changes.pop(name) for name in list(changes) if hasattr(metrics, name)}
    return replace(healthy, metrics=replace(metrics, **inner), **changes)


def only(advice: list[Advice]) -> tuple[str, Direction]:
    assert len(advice) == 1, advice
    return advice[0].setting, advice[0].direction


def arrow_batches_of(
    rows: int,
    row_bytes: int,
    max_bytes: int = 67_108_864,
    max_rows: int = 10_000,
    columns: int = 1,
    **changes: Any,
) -> DeliveryReport:
    """Create one second of a healthy one-task job with such Arrow batches from Spark."""
    half = replace(parts(0)[0], bytes_uncompressed=rows * row_bytes // 2, persisted=rows // 2)
    settings = {ARROW_BYTES: str(max_bytes), ARROW_ROWS: str(max_rows), ARROW_COLUMNS: str(columns)}
    both = (half, replace(half, partition=1))
    return report(settings, partitions=both, duration_sum_ms=1000, duration_max_ms=1000, **changes)


def rows_of(
    partitioner: str, *, keyed: int = 0, assigned: int = 0, partitions: int = 8
) -> dict[str, Any]:
    """Create settings and metrics of a write whose rows were assigned in this way."""
    meter = TopicMetrics(
        topic="t", partitions=partitions, keyed_records=keyed, assigned_records=assigned
    )
    return {"settings": {"partitioner": partitioner}, "topics": (meter,)}
