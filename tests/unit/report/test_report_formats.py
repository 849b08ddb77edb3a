"""Formats in the report, and jobs limited by serialization."""

from spark_kafka_sink import DeliveryReport, advise, summarize
from spark_kafka_sink.report.metrics.producer_metrics import ProducerMetrics

SETTINGS = (
    ("key.format", "json"),
    ("value.format", "json-confluent"),
    ("value.schema.id", "7"),
    ("value.subject", "orders-value"),
)


def report(serialize_s: float, busy_s: float) -> DeliveryReport:
    metrics = ProducerMetrics(settings=SETTINGS, serialize_time=int(serialize_s * 1_000_000))
    return DeliveryReport(tasks=4, duration_sum_ms=int(busy_s * 1_000), metrics=metrics)


def advised(delivery: DeliveryReport) -> list[str]:
    return [advice.setting for advice in advise(delivery)]


def test_formats_and_schemas_are_listed() -> None:
    text = summarize(report(1.5, 60))
    assert "key json, value json-confluent (schema 7 of orders-value); 1.5 s" in text
    assert "formats" not in summarize(DeliveryReport())


def test_report_keeps_the_time() -> None:
    kept = DeliveryReport.from_json(report(1.5, 60).to_json())
    assert kept.metrics.serialize_time == 1_500_000
    assert (kept + kept).metrics.serialize_time == 3_000_000


def test_serialization_limits_a_job_that_does_little_else() -> None:
    assert "value.format" in advised(report(40, 60))
    assert "value.format" not in advised(report(20, 60))
    assert "value.format" not in advised(report(1, 1))
