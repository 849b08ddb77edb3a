"""A task of an exactly-once write: it writes its rows in a transaction that it leaves open.

Each attempt has its own transaction. The driver aborts those of lost attempts. With
atomicBatch=true all tasks write in one transaction, and only one attempt of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.exactly_once.shared_transaction import claim
from spark_kafka_sink.exactly_once.task_transaction import (
    MAX_TOPICS,
    TaskOutcome,
    TaskResult,
    TaskTransaction,
)
from spark_kafka_sink.exactly_once.transactional_id import ScopeKind
from spark_kafka_sink.producer.session import borrow_session, discard_session, give_back_session
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.spark.exactly_once.messages import TransactionMessage
from spark_kafka_sink.spark.exactly_once.write_plan import current_micro_batch, current_run
from spark_kafka_sink.spark.session_conf import QUERY_ID, setting
from spark_kafka_sink.spark.shipped_files import with_shipped_files
from spark_kafka_sink.spark.writer import TaskWriter, spare_garbage_collections, task_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from spark_kafka_sink.config.model import ProducerConfig, SinkConfig
    from spark_kafka_sink.producer.session import ProducerSession
    from spark_kafka_sink.report.written_topics import WrittenTopic
    from spark_kafka_sink.spark.contract import Contract
    from spark_kafka_sink.spark.exactly_once.write_plan import WritePlan
    from spark_kafka_sink.spark.reports.error_file import WriteOrigin

SPECULATION = "spark.speculation"
_LONGEST_NAME = 249
"""Maximum number of characters of a topic's name."""
_ABORT_S = 5.0
"""Seconds that a failed task may take to abort its transaction; otherwise the driver does."""


class TransactionalTaskWriter(TaskWriter):
    """Writes one task's rows in a transaction; pickled from the driver with its plan."""

    def __init__(
        self,
        config: SinkConfig,
        contract: Contract,
        plan: WritePlan,
        origin: WriteOrigin | None = None,
    ) -> None:
        super().__init__(config, contract, origin)
        self.plan = plan

    def run(self, batches: Iterator[pa.RecordBatch]) -> TransactionMessage:
        """Write all rows, unless the batch is already decided.

        Raises:
            TransactionError: the batch may not be written under this transactionalIdPrefix.
            KafkaProdError: a row cannot be delivered.
        """
        spare_garbage_collections()
        query_id, batch = self._identity()
        if self.plan.shared is not None:
            _refuse_speculation()
        run_id = None if self.plan.scope.kind is ScopeKind.STREAM else current_run()
        is_batch = self.plan.scope.kind is ScopeKind.BATCH
        counted = _Counted(batches, self.contract.topic if is_batch else None)
        if not self.plan.must_write(query_id, batch, run_id):
            # Reading all rows also prevents Spark from treating the worker as crashed, which
            # happens sometimes if rows are left unread.
            for _ in counted:
                pass
            skipped = TaskResult(
                outcome=TaskOutcome.SKIPPED,
                query_id=query_id,
                batch=batch,
                rows=counted.rows,
                topics=counted.topics,
                run_id=run_id,
                shared=self.plan.shared,
            )
            report = self.origin.of_task(DeliveryReport())
            return TransactionMessage(report, skipped, self.plan.nonce)
        report, transaction, written = self._write(counted, query_id, batch)
        result = TaskResult(
            outcome=TaskOutcome.WRITTEN if transaction else TaskOutcome.EMPTY,
            query_id=query_id,
            batch=batch,
            transaction=transaction,
            rows=counted.rows,
            topics=counted.topics,
            run_id=run_id,
            shared=self.plan.shared,
        )
        report = self.origin.of_task(report)
        return TransactionMessage(report, result, self.plan.nonce, written=written)

    def _identity(self) -> tuple[str | None, str]:
        """Return query id and batch; a batch job has a query only within foreachBatch."""
        if self.plan.scope.kind is not ScopeKind.STREAM:
            return setting(QUERY_ID), self.plan.scope.name
        current = current_micro_batch()
        return current.query_id, current.batch

    def _write(
        self, batches: Iterable[pa.RecordBatch], query_id: str | None, batch: str
    ) -> tuple[DeliveryReport, TaskTransaction | None, tuple[WrittenTopic, ...]]:
        """Return the report, the open transaction (None without rows), and written topics."""
        session: ProducerSession | None = None
        config = with_shipped_files(self.config.producer)

        def wanted() -> int:
            return 0 if session is None else session.wanted_rows

        try:
            with self.reporter() as reporter:
                for rows in self.read(reporter.watch(batches), wanted):
                    session = session or reporter.attach(self._borrow(config, query_id, batch))
                    session.append(rows)
                if session is None:
                    self._claim(config, query_id, batch)
                    return DeliveryReport(), None, ()
                session.flush()
            report = session.report(task_info())
            transaction = self._left_open(session)
            if not session.has_claimed:
                self._claim(config, query_id, batch)
        except BaseException:
            if session is not None:
                _abort(session)
            raise
        written = session.written_topics
        give_back_session(session)
        return report, transaction, written

    def _borrow(self, config: ProducerConfig, query_id: str | None, batch: str) -> ProducerSession:
        transaction = self.plan.transaction(query_id, batch, task_info())
        return borrow_session(config, self.session_settings(), transaction)

    def _claim(self, config: ProducerConfig, query_id: str | None, batch: str) -> None:
        """Prevent other attempts of this task from writing if it had no rows to write.

        Nothing is done if each attempt has its own transaction.
        """
        joined = self.plan.transaction(query_id, batch, task_info()).joined
        if joined is not None:
            claim(config, joined.claim_id, self.plan.timeout_ms, self.plan.scope.prefix)

    def _left_open(self, session: ProducerSession) -> TaskTransaction | None:
        """Return the open transaction; None if no row was written (all were dropped)."""
        transaction, started_ms = session.transaction, session.transaction_started_ms
        if transaction is None or started_ms is None:
            return None
        return TaskTransaction(
            transaction=transaction,
            started_ms=started_ms,
            timeout_ms=self.plan.timeout_ms,
        )


def _refuse_speculation() -> None:
    """Raise if speculation is enabled; Spark passes the session's settings only to tasks.

    Raises:
        ConfigError: Spark may run two attempts of a task at the same time.
    """
    if (setting(SPECULATION) or "").strip().lower() == "true":
        raise ConfigError(
            f"option atomicBatch and {SPECULATION} contradict each other: of two attempts of a "
            "task one alone may write",
            hint=f"Leave one of them out; {SPECULATION} is set where the session is made.",
        )


class _Counted:
    """Counts the rows of Arrow batches and collects their topics while they are read.

    Args:
        batches: of the task.
        topic: index of the column whose names are collected, if any.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], topic: int | None) -> None:
        self._batches = batches
        self._topic = topic
        self.rows = 0
        self.topics: frozenset[str] | None = None if topic is None else frozenset()
        """None if they are not collected, or are too many or too long for names of topics."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            if self._topic is not None and self.topics is not None:
                self.topics = _with_topics(self.topics, batch.column(self._topic))
            yield batch


def _with_topics(known: frozenset[str], column: pa.Array[Any]) -> frozenset[str] | None:
    found = known.union(name for name in column.unique().to_pylist() if name is not None)
    is_small = len(found) <= MAX_TOPICS and all(len(name) <= _LONGEST_NAME for name in found)
    return found if is_small else None


def _abort(session: ProducerSession) -> None:
    """Abort the transaction of a failed task, and discard its session."""
    try:
        session.abort_transaction(_ABORT_S)
    finally:
        discard_session(session)
