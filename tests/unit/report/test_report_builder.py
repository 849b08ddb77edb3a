"""What `ReportBuilder` counts."""

from spark_kafka_sink.common.delivery_status import DeliveryStatus, PartitionStatus
from spark_kafka_sink.report.metrics.metrics_recorder import BufferUsage, TopicCounts
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.report_builder import FinishedBatch, ReportBuilder
from spark_kafka_sink.report.task_attempt import TaskAttempt

TASK = TaskAttempt(partition_id=3, attempt=1, task_attempt_id=42)


def batch(partition: int = 0, records: int = 10) -> FinishedBatch:
    return FinishedBatch(
        topic="t", partition=partition, records=records, bytes_uncompressed=1000, bytes_sent=400
    )


def test_every_event_is_counted() -> None:
    builder = ReportBuilder()
    builder.count_acknowledged(batch(), 100)
    builder.count_acknowledged(batch(), 50)
    builder.count_acknowledged(batch(), None)
    builder.count_sent(batch(1))
    builder.count_failed("t", 0, 7, DeliveryStatus.NOT_PERSISTED, "MESSAGE_TOO_LARGE")
    builder.count_failed("t", 0, 5, DeliveryStatus.POSSIBLY_PERSISTED, "REQUEST_TIMED_OUT")
    builder.count_retry("REQUEST_TIMED_OUT")
    builder.count_split()
    builder.add_request_latency(0.25)
    builder.add_queue_latency(0.5)
    builder.add_throttle_time(30)
    builder.add_throttle_time(12)
    report = builder.build(TASK, 1234)
    assert report.partitions == (
        PartitionReport(
            topic="t",
            partition=0,
            batches=3,
            bytes_uncompressed=3000,
            bytes_sent=1200,
            first_offset=50,
            last_offset=109,
            persisted=30,
            possibly_persisted=5,
            not_persisted=7,
        ),
        PartitionReport(
            topic="t", partition=1, batches=1, bytes_uncompressed=1000, bytes_sent=400, sent=10
        ),
    )
    assert report.errors == (("MESSAGE_TOO_LARGE", 1), ("REQUEST_TIMED_OUT", 2))
    assert (report.retries, report.splits, report.throttle_ms) == (1, 1, 42)
    assert report.request_latency.high == 250_000
    assert report.queue_latency.high == 500_000
    assert (report.tasks, report.retried_tasks) == (1, 1)
    assert report.duration_max_ms == report.duration_sum_ms == 1234
    assert report.slowest[0].task == TASK


def test_unknown_offset_is_none_and_not_minus_one() -> None:
    builder = ReportBuilder()
    builder.count_acknowledged(batch(), -1)
    (part,) = builder.build(TASK, 0).partitions
    assert (part.first_offset, part.last_offset, part.persisted) == (None, None, 10)


def test_failures_contain_their_errors_and_are_summed() -> None:
    builder = ReportBuilder()
    for _ in range(2):
        builder.count_failed("t", 1, 5, DeliveryStatus.NOT_PERSISTED, "EXPIRED")
    builder.count_failed("t", 0, 1, DeliveryStatus.POSSIBLY_PERSISTED, "EXPIRED")
    assert builder.failures() == (
        PartitionStatus(
            topic="t",
            partition=0,
            records=1,
            status=DeliveryStatus.POSSIBLY_PERSISTED,
            error="EXPIRED",
        ),
        PartitionStatus(
            topic="t", partition=1, records=10, status=DeliveryStatus.NOT_PERSISTED, error="EXPIRED"
        ),
    )


def test_statuses_omit_delivered_records() -> None:
    builder = ReportBuilder()
    builder.count_acknowledged(batch(), 0)
    builder.count_failed("t", 0, 5, DeliveryStatus.NOT_PERSISTED, "E")
    (status,) = builder.build(TASK, 0).statuses()
    assert (status.records, status.status) == (5, DeliveryStatus.NOT_PERSISTED)


def test_building_twice_is_harmless() -> None:
    builder = ReportBuilder()
    builder.count_acknowledged(batch(), 0)
    assert builder.build(TASK, 1) == builder.build(TASK, 1)
    builder.count_acknowledged(batch(), 10)
    assert builder.build(TASK, 1).persisted == 20


def test_task_without_rows_has_a_report() -> None:
    report = ReportBuilder().build(TaskAttempt(), 5)
    assert (report.tasks, report.records, report.partitions) == (1, 0, ())


def test_counts_of_the_session_belong_to_the_report_for_which_they_are_given() -> None:
    builder = ReportBuilder()
    builder.recorder.count_retried("t", 1)
    topics = TopicCounts(partitions={"t": 3, "other": 1}, keyed_records={"t": 5})
    metrics = builder.build(TASK, 1, buffer=BufferUsage(2, 0.5, 700), topics=topics).metrics
    (topic,) = metrics.topics
    assert (topic.partitions, topic.keyed_records, topic.assigned_records) == (3, 5, 0)
    assert (metrics.buffer_waits, metrics.buffer_wait, metrics.buffer_peak) == (2, 500_000, 700)
    assert builder.build(TASK, 1).metrics.topics[0].partitions == 0
