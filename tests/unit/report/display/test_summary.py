"""The lines of a report's summary."""

from dataclasses import replace

import pytest
from hypothesis import given

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.display.key_figures import figures_of
from spark_kafka_sink.report.display.summary import summarize, summary_line
from spark_kafka_sink.report.metrics.producer_metrics import ProducerMetrics
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.report_builder import FinishedBatch, ReportBuilder
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.unit.report.strategies import reports


def test_summary_has_a_line_for_each_subject() -> None:
    builder = ReportBuilder()
    batch = FinishedBatch(
        topic="flights",
        partition=0,
        records=10_000,
        bytes_uncompressed=4_000_000,
        bytes_sent=1_000_000,
    )
    builder.count_acknowledged(batch, 500)
    builder.count_retry("NOT_LEADER_OR_FOLLOWER")
    builder.add_request_latency(0.004)
    builder.add_queue_latency(0.05)
    assert summarize(builder.build(TaskAttempt(attempt=1), 2_000)) == (
        "Kafka delivery report\n"
        "  records         10,000 persisted\n"
        "  size            4.0 MB, 1.0 MB sent (4.0 to 1)\n"
        "  spread          1 topic, 1 partition, 1 batch, 1 task\n"
        "  time            2.0 s, 5,000 records/s, 2.0 MB/s in the slowest task\n"
        "  request latency p50 4.0 ms, p99 4.0 ms, max 4.0 ms\n"
        "  queue latency   p50 50.0 ms, p99 50.0 ms, max 50.0 ms\n"
        "  problems        1 retry, 0 split batches, throttled 0 ms, 1 task on a later attempt, "
        "NOT_LEADER_OR_FOLLOWER 1\n"
        "  topic           flights: 10,000 records in 1 partition, offsets 500 to 10,499"
    )


def test_formats_and_schemas_are_listed() -> None:
    settings = (
        ("key.format", "json"),
        ("value.format", "json-confluent"),
        ("value.schema.id", "7"),
        ("value.subject", "orders-value"),
    )
    metrics = ProducerMetrics(settings=settings, serialize_time=1_500_000)
    text = summarize(DeliveryReport(tasks=4, duration_sum_ms=60_000, metrics=metrics))
    assert "key json, value json-confluent (schema 7 of orders-value); 1.5 s" in text
    assert "formats" not in summarize(DeliveryReport())


def test_transaction_outcomes_are_listed() -> None:
    text = summarize(DeliveryReport(transaction_outcome="already written"))
    assert text.splitlines()[1] == "  exactly once    already written"


def test_every_status_is_listed() -> None:
    part = PartitionReport(
        topic="t", partition=0, persisted=1, possibly_persisted=2, not_persisted=3, sent=4
    )
    text = summarize(DeliveryReport(partitions=(part,)))
    assert (
        "1 persisted, 2 possibly persisted, 3 not persisted, 4 sent without acknowledgement" in text
    )
    assert "t: 1 record in 1 partition, 9 possibly not delivered" in text


def test_acks_0_does_not_count_as_delivered() -> None:
    text = summarize(
        DeliveryReport(partitions=(PartitionReport(topic="t", partition=0, sent=5),)), 10
    )
    assert "0 persisted, 5 sent without acknowledgement" in text
    assert "0 records/s" in text


def test_driver_time_overrides_task_times() -> None:
    report = DeliveryReport(
        duration_max_ms=1000, partitions=(PartitionReport(topic="t", partition=0, persisted=100),)
    )
    assert "1.0 s, 100 records/s" in summarize(report)
    assert "4.0 s, 25 records/s" in summarize(report, 4000)


def test_worker_start_is_separate_from_writing() -> None:
    part = PartitionReport(topic="t", partition=0, persisted=100)
    report = DeliveryReport(duration_ms=6_100, startup_ms=5_400, partitions=(part,))
    expected = "6.1 s, of which 5.4 s Python worker start-up; then 143 records/s"
    assert expected in summarize(report)
    assert expected in summary_line(report)
    assert "start-up" not in summarize(replace(report, startup_ms=49))


@pytest.mark.parametrize(
    ("startup_ms", "rate"), [(0, "1,000"), (49, "1,961"), (99, "100,000"), (100, "1,000")]
)
def test_all_displays_show_the_same_rate(startup_ms: int, rate: str) -> None:
    part = PartitionReport(topic="t", partition=0, persisted=100)
    report = DeliveryReport(
        duration_ms=100, duration_max_ms=50, startup_ms=startup_ms, partitions=(part,)
    )
    figures = {figure.name: figure.value for figure in figures_of(report)}
    assert f" {rate} records/s" in summarize(report)
    assert f"{figures['rate']:,.0f}" == rate


def test_summary_is_short_for_many_partitions_topics_and_errors() -> None:
    parts = tuple(
        PartitionReport(topic=f"topic-{number % 500}", partition=number, persisted=number)
        for number in range(10_000)
    )
    errors = tuple((f"ERROR_{number}", number) for number in range(100))
    text = summarize(DeliveryReport(partitions=parts, errors=errors))
    assert len(text.splitlines()) <= 20
    assert len(text) < 2_000
    assert "and 492 more topics" in text
    assert "ERROR_99 99" in text
    assert "95 other errors" in text


def test_topic_with_a_loss_is_always_shown() -> None:
    parts = [
        PartitionReport(topic=f"topic-{number}", partition=0, persisted=1000)
        for number in range(100)
    ]
    parts[70] = replace(parts[70], persisted=0, not_persisted=1)
    text = summarize(DeliveryReport(partitions=tuple(parts)))
    assert "topic-70: 0 records in 1 partition, 1 possibly not delivered" in text
    assert DeliveryStatus.NOT_PERSISTED.replace("_", " ") in text


@pytest.mark.deep
@given(reports())
def test_any_report_has_a_summary(report: DeliveryReport) -> None:
    first = summarize(report).splitlines()[0]
    assert (first == "Kafka delivery report") == (not report.dry_run)


def test_empty_report_has_a_summary() -> None:
    text = summarize(DeliveryReport())
    assert "0 persisted" in text
    assert "none measured" in text
