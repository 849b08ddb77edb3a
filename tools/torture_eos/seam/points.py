"""Which functions of the sink are the steps: by module, name, and whether before or after."""

from __future__ import annotations

from dataclasses import dataclass

from tools.torture_eos.plans.steps import Step

_WRITER = "spark_kafka_sink.spark.writer"
_SESSION = "spark_kafka_sink.producer.session"
TASK, JOB = "task", "job"
"""Scopes that are no argument's name."""


@dataclass(frozen=True, slots=True)
class Point:
    """`before` and `after`: the steps that a call of `module`'s `function` begins and ends with.

    `scope`: how the micro-batch is known from here on: by the task, or by the argument `batchId`;
    jobs have none. `told`: what of its first argument goes into the trace.
    """

    module: str
    function: str
    before: Step | None = None
    after: Step | None = None
    scope: str | None = None
    told: str | None = None


_TRANSACTIONS = "spark_kafka_sink.producer.transactions"
_ADMIN = "spark_kafka_sink.admin.transaction_admin"
_PROTOCOL = "spark_kafka_sink.exactly_once"
_DRIVER = f"{_PROTOCOL}.steps.driver"

POINTS = (
    Point(
        "spark_kafka_sink.spark.datasource",
        "KafkaProdDataSource.streamWriter",
        after=Step.PLANNED,
    ),
    Point(_WRITER, "TaskWriter.run", Step.TASK_BEGUN, Step.TASK_ENDED, scope=TASK),
    Point(_SESSION, "ProducerSession.append", after=Step.TASK_APPENDED),
    Point(_SESSION, "ProducerSession.flush", after=Step.TASK_FLUSHED),
    Point(
        _WRITER,
        "KafkaProdStreamWriter.commit",
        Step.COMMIT_BEGUN,
        Step.COMMIT_ENDED,
        scope="batchId",
    ),
    Point(
        _WRITER, "KafkaProdStreamWriter.abort", Step.ABORT_BEGUN, Step.ABORT_ENDED, scope="batchId"
    ),
    Point(f"{_TRANSACTIONS}.coordinator", "init_producer_id", before=Step.TASK_OPENING),
    Point(
        f"{_TRANSACTIONS}.manager",
        "TransactionManager._initialized",
        after=Step.TASK_OPENED,
        told="settings.transactional_id",
    ),
    Point(_WRITER, "KafkaProdWriter.commit", Step.COMMIT_BEGUN, Step.COMMIT_ENDED, scope=JOB),
    Point(_WRITER, "KafkaProdWriter.abort", Step.ABORT_BEGUN, Step.ABORT_ENDED, scope=JOB),
    Point(_ADMIN, "TransactionAdmin.init_producer_id", Step.FENCING, Step.FENCED),
    Point(
        "spark_kafka_sink.admin.appender",
        "TransactionalAppender._commit",
        before=Step.APPENDED_UNCOMMITTED,
    ),
    Point(_ADMIN, "TransactionAdmin.end_all", before=Step.ENDING),
    Point(_DRIVER, "Driver.begin", Step.BEGINNING, Step.BEGUN, scope=JOB),
    Point(f"{_PROTOCOL}.shared_transaction", "claim", after=Step.TASK_CLAIMED),
    Point(f"{_PROTOCOL}.shared_transaction", "check_producers", after=Step.CHECKED),
    Point(_DRIVER, "Driver.read", after=Step.LOG_READ),
    Point(_DRIVER, "Driver.append", Step.APPENDING, Step.APPENDED),
)
