"""Tasks of an exactly-once write: the plan, the write in an open transaction, and the message.

Each attempt has its own transaction. The driver aborts the transactions of lost attempts. With
atomicBatch=true, all tasks write in one transaction, and only one attempt of each task writes.

A task finds its micro-batch and query in Spark's local properties. The query's id comes from the
checkpoint: it is stable across restarts, and a new checkpoint gets a new id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from spark_kafka_sink.common.errors import ConfigError, TransactionError
from spark_kafka_sink.config.enums import ReportTasks
from spark_kafka_sink.config.exactly_once import acl_prefix
from spark_kafka_sink.exactly_once import transactional_id as ids
from spark_kafka_sink.exactly_once.decision_rules import (
    BatchRejection,
    BatchVerdict,
    Caller,
    LogState,
    judge,
)
from spark_kafka_sink.exactly_once.shared_transaction import claim
from spark_kafka_sink.exactly_once.steps.rejections import rejection_error
from spark_kafka_sink.exactly_once.task_transaction import (
    MAX_TOPICS,
    PartitionRange,
    TaskOutcome,
    TaskResult,
    TaskTransaction,
    partitions_to_list,
)
from spark_kafka_sink.producer.transactions.state import JoinedTransaction, TransactionSettings
from spark_kafka_sink.report.delivery_counters import SLOWEST_KEPT, TASKS_KEPT
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.packed_columns import UNKNOWN
from spark_kafka_sink.report.packed_report import columns_of
from spark_kafka_sink.report.task_report import TaskInfo, TransactionInfo
from spark_kafka_sink.spark.runtime import internals, worker_context
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES
from spark_kafka_sink.spark.writers.commit_messages import DeliveryMessage
from spark_kafka_sink.spark.writers.task_writer import TaskWriter, task_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.kafka.protocol.transactions import OpenTransaction
    from spark_kafka_sink.producer.rows import Rows
    from spark_kafka_sink.producer.session import ProducerSession
    from spark_kafka_sink.report.partition_report import PartitionReport
    from spark_kafka_sink.report.recreated_topics import WrittenTopic
    from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
    from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles


_MAX_REPORTED: Final = {
    ReportTasks.ALL: TASKS_KEPT,
    ReportTasks.SLOWEST: SLOWEST_KEPT,
    ReportTasks.NONE: 0,
}
_RUN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_SESSION: Final = "(frame.sparkSession)" if HAS_DATA_SOURCES else ""
"""Argument of `inheritable_thread_target`; in 3.5, it takes the function of a classic session."""
_FINAL: Final = "Spark retries the task like any other, and each attempt fails with this error."
"""Hint for errors in tasks. Planning cannot raise them, because Spark passes neither query nor
batch to it.
"""
SPECULATION = "spark.speculation"
_MAX_NAME_CHARS = 249
"""Maximum length of a topic name, in characters."""


@dataclass
class TransactionMessage(DeliveryMessage):
    """Message of a task whose rows are acknowledged, in a transaction that the driver will end."""

    result: TaskResult
    """The task's result. Its transaction does not list the partitions: the report contains them."""
    nonce: str
    """Nonce of the planning that created the task."""


def of_tasks(messages: Sequence[object]) -> list[TransactionMessage]:
    """Return the messages of finished tasks."""
    return [message for message in messages if isinstance(message, TransactionMessage)]


def results_of(messages: Sequence[TransactionMessage]) -> list[TaskResult]:
    """Return the result of each task, with at most as many partitions as a decision can list."""
    written = sum(message.result.transaction is not None for message in messages)
    most = partitions_to_list(written)
    return [_result_of(message, most) for message in messages]


def transactions_of(
    results: Sequence[TaskResult], tasks: ReportTasks
) -> tuple[TransactionInfo, ...]:
    """Return the distinct transactions of the tasks, sorted by id.

    Their number is limited in the same way as the task lines of a report.
    """
    written = {
        result.transaction.transaction for result in results if result.transaction is not None
    }
    infos = sorted(
        TransactionInfo(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            epoch=transaction.epoch,
        )
        for transaction in written
    )
    return tuple(infos[: _MAX_REPORTED[tasks]])


def _result_of(message: TransactionMessage, most: int) -> TaskResult:
    """Return the task's result with its partitions, at most `most` of them.

    If the tasks share a transaction, all partitions are included, because the check of that
    transaction needs to know which task wrote to each partition.
    """
    result = message.result
    if result.transaction is None:
        return result
    columns = columns_of(message.report)
    persisted = columns.column("persisted")
    written = np.flatnonzero(persisted)
    if result.shared is not None:
        most = len(written)
    # If the offset is unknown, the transaction's outcome cannot be read from the topic later.
    unclear = columns.column("last_offset")[written] == UNKNOWN
    order = written[np.argsort(unclear, kind="stable")]
    named, unnamed = np.sort(order[:most]), order[most:]
    transaction = replace(
        result.transaction,
        partitions=tuple(_range(part) for part in columns.select(named).to_reports()),
        unnamed_partitions=len(unnamed),
        unnamed_records=int(persisted[unnamed].sum()),
    )
    return replace(result, transaction=transaction)


def _range(part: PartitionReport) -> PartitionRange:
    return PartitionRange(
        topic=part.topic,
        partition=part.partition,
        records=part.persisted,
        first_offset=part.first_offset,
        last_offset=part.last_offset,
    )


def current_micro_batch() -> tuple[str, str]:
    """Return the query's id and the micro-batch number for the task of this thread.

    Raises:
        TransactionError: Spark does not provide them, so the batch could not be recognized later.
    """
    query_id = internals.local_property(internals.QUERY_ID)
    batch = internals.local_property(internals.BATCH_ID)
    if not query_id or batch is None or not batch.isdecimal():
        raise TransactionError(
            "Spark does not pass the micro-batch to this task, as exactly-once writes require: "
            f"{internals.QUERY_ID} is {query_id}, {internals.BATCH_ID} is {batch}",
            hint="Write from foreachBatch with the option batchId.",
        )
    return query_id, batch


def current_query() -> str | None:
    """Return the query whose foreachBatch runs this thread's task; None in a batch job.

    Raises:
        TransactionError: the query is unknown, so two writes of one batchId could not be
            distinguished.
    """
    if worker_context.lacks_query():
        raise TransactionError(
            "foreachBatch writes with batchId in a thread that lacks the streaming query's "
            "properties, so exactly-once delivery cannot be guaranteed",
            hint="Start the thread with these properties: instead of function, pass "
            f"pyspark.inheritable_thread_target{_SESSION}(function) to the thread or executor.",
        )
    return internals.local_property(internals.QUERY_ID)


def current_run() -> str | None:
    """Return the query's run id for the task of this thread; every start has a new run id.

    With Spark Connect, the id of the run's session takes its place.

    Return None outside of a query, or if the user has set a different job group: a group that is
    the same after a restart does not distinguish runs.
    """
    if not internals.local_property(internals.QUERY_ID):
        return worker_context.connect_query_session()
    group = internals.local_property(internals.JOB_GROUP)
    return group if group is not None and _RUN_ID.fullmatch(group) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactlyOncePlan:
    """The plan of one batch write or micro-batch; pickled with its writer."""

    scope: ids.Scope
    nonce: str
    """Unique to this planning, so that two attempts never share a transactional id."""
    state: LogState[TaskTransaction]
    """State of the scope, as read from the decision log."""
    is_followed: bool = False
    """See `Caller.is_followed`."""
    timeout_ms: int
    """The transaction.timeout.ms of each task's transaction."""
    reset: bool = False
    reset_batch: str | None = None
    two_phase: bool = False
    shared: OpenTransaction | None = None
    """The transaction in which all tasks write, or None if each task has its own transaction."""

    def must_write(self, query_id: str | None, batch: str, run_id: str | None = None) -> bool:
        """Return True if the tasks of a batch must write, given the state read during planning.

        Args:
            query_id: id of the streaming query; None in a batch job.
            batch: batch number of a stream; otherwise the name of the scope.
            run_id: id of the query's run, within foreachBatch.

        Raises:
            TransactionError: the batch is rejected; message and hint contain the reason and the
                remedy.
        """
        single = self.scope.kind is not ids.ScopeKind.STREAM
        caller = Caller(
            query=query_id,
            batch=batch,
            reset=self.reset,
            reset_batch=self.reset_batch,
            single=single,
            run=run_id,
            is_followed=self.is_followed,
            nonces=frozenset((self.nonce,)),
        )
        verdict = judge(self.state, caller)
        if isinstance(verdict, BatchRejection):
            rejected = rejection_error(verdict, self.scope, self.state, caller)
            rejected.hint = f"{rejected.hint} {_FINAL}"
            raise rejected
        return verdict is BatchVerdict.WRITE

    def transaction(self, query_id: str | None, batch: str, task: TaskInfo) -> TransactionSettings:
        """Return the transaction settings for one attempt of one task."""
        task_id = ids.TaskTransactionalId(
            scope=self.scope,
            query_id=query_id,
            batch=batch,
            nonce=self.nonce,
            partition=task.partition_id,
            task_attempt_id=task.task_attempt_id,
        )
        if self.shared is not None:
            return TransactionSettings(
                transactional_id=self.shared.transactional_id,
                timeout_ms=self.timeout_ms,
                id_prefix=acl_prefix(self.scope.prefix),
                joined=JoinedTransaction(producer=self.shared, claim_id=task_id.claim_id),
            )
        return TransactionSettings(
            transactional_id=str(task_id),
            timeout_ms=self.timeout_ms,
            abort_flag=ids.abort_flag_id(self.scope, self.nonce),
            id_prefix=acl_prefix(self.scope.prefix),
            two_phase=self.two_phase,
        )


class TransactionalTaskWriter(TaskWriter):
    """Writes one task's rows in a transaction. The driver pickles it together with the plan."""

    def __init__(
        self,
        config: SinkConfig,
        roles: ColumnRoles,
        plan: ExactlyOncePlan,
        origin: WriteOrigin | None = None,
    ) -> None:
        super().__init__(config, roles, origin)
        self.plan = plan

    @property
    def must_write(self) -> bool:
        """See `TaskWriter`."""
        return self.plan.must_write(None, self.plan.scope.name)

    def write(self, batches: Iterable[pa.RecordBatch]) -> TransactionMessage:
        """Write all rows, unless the batch is already decided.

        Raises:
            TransactionError: the batch cannot be written with this transactionalIdPrefix.
            KafkaProdError: a row cannot be delivered.
        """
        query_id, batch = self._identity()
        plan, kind = self.plan, self.plan.scope.kind
        if plan.shared is not None:
            _reject_speculation()
        run_id = None if kind is ids.ScopeKind.STREAM else current_run()
        counted = _Counted(batches, self.roles.topic if kind is ids.ScopeKind.BATCH else None)
        report, transaction = DeliveryReport(), None
        written: tuple[WrittenTopic, ...] = ()
        outcome = TaskOutcome.SKIPPED
        if plan.must_write(query_id, batch, run_id):
            report, transaction, written = self._write(counted, query_id, batch)
            outcome = TaskOutcome.WRITTEN if transaction else TaskOutcome.EMPTY
        else:
            # Reading all rows also prevents Spark from treating the worker as crashed, which can
            # happen if rows are left unread.
            for _ in counted:
                pass
        result = TaskResult(
            outcome=outcome,
            query_id=query_id,
            batch=batch,
            transaction=transaction,
            rows=counted.rows,
            topics=counted.topics,
            run_id=run_id,
            shared=plan.shared,
        )
        return TransactionMessage(self.origin.of_task(report), result, plan.nonce, written=written)

    def read(
        self, batches: Iterable[pa.RecordBatch], min_rows: Callable[[], int] = lambda: 0
    ) -> Iterator[Rows]:
        """Yield the rows in chunks; see `TaskWriter.read`.

        Raises:
            ConfigError: a row would be written to the decision log, which contains only decisions.
        """
        decision_log = self.config.exactly_once.decision_log_topic
        for rows in super().read(batches, min_rows):
            if decision_log in rows.topics:
                raise ConfigError(
                    "a row's topic is the decision log",
                    topic=decision_log,
                    hint="Write the row to another topic, or set decisionLogTopic.",
                )
            yield rows

    def _identity(self) -> tuple[str | None, str]:
        """Return the query id and the batch. A batch write has a query only within foreachBatch."""
        kind, name = self.plan.scope.kind, self.plan.scope.name
        if kind is ids.ScopeKind.STREAM:
            return current_micro_batch()
        if kind is ids.ScopeKind.BATCH:
            return current_query(), name
        return internals.local_property(internals.QUERY_ID), name

    def _write(
        self, batches: Iterable[pa.RecordBatch], query_id: str | None, batch: str
    ) -> tuple[DeliveryReport, TaskTransaction | None, tuple[WrittenTopic, ...]]:
        """Return the report, the open transaction (None without rows), and the written topics."""
        settings = self.plan.transaction(query_id, batch, task_info())
        transaction: TaskTransaction | None = None

        def finish(session: ProducerSession | None) -> None:
            nonlocal transaction
            transaction = None if session is None else self._left_open(session)
            # Claim even if there are no rows, so that no other attempt of this task can write.
            if settings.joined is not None and not (session and session.has_claimed):
                config = worker_context.with_shipped_files(
                    self.config.producer, self.session_folder
                )
                claim_id, prefix = settings.joined.claim_id, self.plan.scope.prefix
                claim(config, claim_id, self.plan.timeout_ms, prefix)

        report, written = self.deliver(batches, settings, finish)
        return report, transaction, written

    def _left_open(self, session: ProducerSession) -> TaskTransaction | None:
        """Return the open transaction, or None if no row was written because all were dropped."""
        transaction, started_ms = session.transaction, session.transaction_started_ms
        if transaction is None or started_ms is None:
            return None
        return TaskTransaction(
            transaction=transaction,
            started_ms=started_ms,
            timeout_ms=self.plan.timeout_ms,
        )


def _reject_speculation() -> None:
    """Raise an error if speculation is enabled; only tasks receive this setting of the session.

    Raises:
        ConfigError: Spark may run two attempts of a task at the same time.
    """
    if (internals.local_property(SPECULATION) or "").strip().lower() == "true":
        raise ConfigError(
            f"option atomicBatch and {SPECULATION} cannot be used together: speculation can run a "
            "second attempt of a task, but only one attempt may write",
            hint=f"Remove one of them; {SPECULATION} is set when the session is created.",
        )


class _Counted:
    """Counts the rows of Arrow batches and collects their topics while they are read.

    Args:
        batches: the task's Arrow batches.
        topic: index of the column whose names are collected; None to collect no names.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], topic: int | None) -> None:
        self._batches = batches
        self._topic = topic
        self.rows = 0
        self.topics: frozenset[str] | None = None if topic is None else frozenset()
        """Collected topics; None if topics are not collected, or are too many or too long for topic
        names.
        """

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            if self._topic is not None and self.topics is not None:
                self.topics = _with_topics(self.topics, batch.column(self._topic))
            yield batch


def _with_topics(known: frozenset[str], column: pa.Array[Any]) -> frozenset[str] | None:
    from spark_kafka_sink.kafka.records.columns import read_bytes  # The driver does not need Arrow.

    names = read_bytes(column.unique()).to_pylist()
    # A name that is not UTF-8 is an error of its row, which is found later.
    topics = known.union(name.decode(errors="replace") for name in names if name is not None)
    is_small = len(topics) <= MAX_TOPICS and all(len(name) <= _MAX_NAME_CHARS for name in topics)
    return topics if is_small else None
