"""Hypothesis strategies for delivery reports."""

from dataclasses import replace

from hypothesis import strategies as st

from spark_kafka_sink.common.close_reason import CloseReason
from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from spark_kafka_sink.report.codec_cost import CodecCost
from spark_kafka_sink.report.delivery_counters import ReportedTransaction
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.metrics.metrics_recorder import BatchSent, BufferUsage, MetricsRecorder
from spark_kafka_sink.report.report_builder import FinishedBatch, ReportBuilder
from spark_kafka_sink.report.task_attempt import TaskAttempt

SMALL = st.integers(0, 1000)
TOPICS = st.sampled_from(["a", "b", "ü"])
ERRORS = st.sampled_from(["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "CORRUPT_MESSAGE"])
FAILED = st.sampled_from([DeliveryStatus.NOT_PERSISTED, DeliveryStatus.POSSIBLY_PERSISTED])
BATCHES = st.builds(
    FinishedBatch,
    topic=TOPICS,
    partition=st.integers(0, 3),
    records=st.integers(1, 1000),
    bytes_uncompressed=SMALL,
    bytes_sent=SMALL,
    next_sequence=st.none() | SMALL,
    append_time=st.none() | SMALL,
)
SENT = st.builds(
    BatchSent,
    topic=TOPICS,
    records=st.integers(1, 1000),
    bytes_uncompressed=st.integers(1, 1000),
    bytes_sent=SMALL,
    queue_times=st.lists(st.tuples(st.floats(0, 100), st.integers(1, 9)), min_size=1, max_size=3),
    fill_time=st.floats(0, 100),
    close_reason=st.sampled_from(CloseReason),
    compression=st.none() | st.floats(0, 1),
)
CODECS = st.builds(
    CodecCost,
    codec=st.sampled_from(["none", "lz4", "zstd"]),
    batches=SMALL,
    records=SMALL,
    bytes_uncompressed=SMALL,
    bytes_compressed=SMALL,
    cpu_ns=SMALL,
)
NODES = st.builds(Node, st.integers(-1, 2), st.just("host"), st.integers(1, 3))
EVENTS = st.one_of(
    st.tuples(st.just("count_acknowledged"), BATCHES, st.none() | st.integers(-1, 10**12)),
    st.tuples(st.just("count_sent"), BATCHES),
    st.tuples(st.just("count_would_be_written"), BATCHES),
    st.tuples(st.just("add_codec_costs"), st.lists(CODECS, max_size=3)),
    st.tuples(st.just("count_failed"), TOPICS, st.integers(0, 3), SMALL, FAILED, ERRORS),
    st.tuples(st.just("count_retry"), ERRORS),
    st.tuples(st.just("count_split")),
    st.tuples(st.just("add_request_latency"), st.floats(0, 100)),
    st.tuples(st.just("add_queue_latency"), st.floats(0, 100)),
    st.tuples(st.just("add_throttle_time"), SMALL),
    st.tuples(st.just("set_leader"), TOPICS, st.integers(0, 3), st.integers(1, 3)),
    st.tuples(st.just("set_failed_sequence"), TOPICS, st.integers(0, 3), SMALL),
)
TASKS = st.builds(TaskAttempt, partition_id=SMALL, attempt=st.integers(0, 3), task_attempt_id=SMALL)
TRANSACTIONS = st.builds(
    ReportedTransaction, transactional_id=st.text(max_size=5), producer_id=SMALL, epoch=SMALL
)


@st.composite
def task_reports(draw: st.DrawFn) -> DeliveryReport:
    """Reports of one task, as a builder creates them."""
    builder = ReportBuilder(dry_run=draw(st.booleans()))
    for name, *arguments in draw(st.lists(EVENTS, max_size=8)):
        getattr(builder, name)(*arguments)
    _measure(draw, builder.recorder)
    transactions = tuple(draw(st.lists(TRANSACTIONS, max_size=1)))
    usage = BufferUsage(waits=draw(SMALL), peak=draw(SMALL))
    report = builder.build(draw(TASKS), draw(SMALL), buffer=usage)
    return replace(report, transactions=transactions)


def _measure(draw: st.DrawFn, recorder: MetricsRecorder) -> None:
    """Draw batches and requests, as the sender records them."""
    for sent, node in draw(st.lists(st.tuples(SENT, NODES), max_size=4)):
        broker = recorder.brokers.of(node)
        recorder.add_batch(sent, broker)
        recorder.add_request(sent.records)
        recorder.count_retried(sent.topic, sent.records)
        broker.count_written(0, sent.queue_times[0][0])
        broker.rtt.add_duration(sent.fill_time)
        broker.throttle.add(sent.bytes_sent)
    recorder.settings = draw(st.sampled_from([(), (("linger.ms", "5"),), (("linger.ms", "50"),)]))


def reports() -> st.SearchStrategy[DeliveryReport]:
    """Reports of zero, one or several tasks."""
    return st.lists(task_reports(), max_size=4).map(DeliveryReport.merge_all)
