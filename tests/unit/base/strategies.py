"""Hypothesis strategies for delivery reports."""

from __future__ import annotations

from hypothesis import strategies as st

from spark_kafka_sink.base.delivery_report import DeliveryReport
from spark_kafka_sink.base.report import BatchDone, DeliveryStatus, ReportBuilder, TaskInfo
from spark_kafka_sink.base.transaction_info import TransactionInfo

SMALL = st.integers(0, 1000)
TOPICS = st.sampled_from(["a", "b", "ü"])
ERRORS = st.sampled_from(["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "CORRUPT_MESSAGE"])
FAILED = st.sampled_from([DeliveryStatus.NOT_PERSISTED, DeliveryStatus.POSSIBLY_PERSISTED])
BATCHES = st.builds(
    BatchDone,
    topic=TOPICS,
    partition=st.integers(0, 3),
    records=st.integers(1, 1000),
    raw_bytes=SMALL,
    wire_bytes=SMALL,
)
EVENTS = st.one_of(
    st.tuples(st.just("acknowledged"), BATCHES, st.none() | st.integers(-1, 10**12)),
    st.tuples(st.just("sent"), BATCHES),
    st.tuples(st.just("failed"), TOPICS, st.integers(0, 3), SMALL, FAILED, ERRORS),
    st.tuples(st.just("retried"), ERRORS),
    st.tuples(st.just("split")),
    st.tuples(st.just("request_latency"), st.floats(0, 100)),
    st.tuples(st.just("queue_latency"), st.floats(0, 100)),
    st.tuples(st.just("throttled"), SMALL),
)
TASKS = st.builds(TaskInfo, partition_id=SMALL, attempt=st.integers(0, 3), task_attempt_id=SMALL)
TRANSACTIONS = st.builds(
    TransactionInfo, transactional_id=st.text(max_size=5), producer_id=SMALL, epoch=SMALL
)


@st.composite
def task_reports(draw: st.DrawFn) -> DeliveryReport:
    """Reports of one task, as a builder makes them."""
    builder = ReportBuilder()
    for name, *arguments in draw(st.lists(EVENTS, max_size=8)):
        getattr(builder, name)(*arguments)
    transactions = tuple(draw(st.lists(TRANSACTIONS, max_size=1)))
    return builder.build(draw(TASKS), draw(SMALL), transactions)


def reports() -> st.SearchStrategy[DeliveryReport]:
    """Reports of none, one or several tasks."""
    return st.lists(task_reports(), max_size=4).map(DeliveryReport.merge_all)
