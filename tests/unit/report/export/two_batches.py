"""The report of a task that has sent two batches."""

from spark_kafka_sink.common.close_reason import CloseReason
from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.metrics.metrics_recorder import BatchSent, BufferUsage
from spark_kafka_sink.report.report_builder import FinishedBatch, ReportBuilder
from spark_kafka_sink.report.task_attempt import TaskAttempt

NODE = Node(1, "a", 9092)


def report() -> DeliveryReport:
    """Create a report of two batches with 10 and 30 records, 1,000 bytes each; one is compressed to
    250.
    """
    builder = ReportBuilder()
    builder.recorder.settings = (("buffer.memory", "5000"),)
    broker = builder.recorder.brokers.of(NODE)
    for records, wire, topic in ((10, 1000, "t"), (30, 250, "u")):
        done = FinishedBatch(
            topic=topic, partition=0, records=records, bytes_uncompressed=1000, bytes_sent=wire
        )
        builder.count_acknowledged(done, 0)
        builder.add_queue_latency(0.02)
        sent = BatchSent(
            topic=topic,
            records=records,
            bytes_uncompressed=1000,
            bytes_sent=wire,
            queue_times=[(0.02, records)],
            fill_time=0.01,
            close_reason=CloseReason.FULL,
            compression=None if wire == 1000 else 0.004,
        )
        builder.recorder.add_batch(sent, broker)
    builder.recorder.add_request(40)
    broker.tx_bytes, broker.connects = 1300, 1
    broker.tx, broker.rx = 2, 1
    broker.count_written(0, 0.001)
    broker.rtt.add_duration(0.009)
    broker.throttle.add(30)
    builder.add_request_latency(0.01)
    builder.recorder.count_retried("t", 10)
    builder.count_split()
    builder.count_failed("u", 0, 5, DeliveryStatus.NOT_PERSISTED, "E")
    return builder.build(TaskAttempt(), 2000, buffer=BufferUsage(wait=0.5, peak=2000))
