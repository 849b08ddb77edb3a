"""Tasks of an exactly-once write, which write in an open transaction.

Each attempt has its own transaction. The driver aborts the transactions of lost attempts. With
atomicBatch=true, all tasks write in one transaction, and only one attempt of each task writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.exactly_once.shared_transaction import claim
from spark_kafka_sink.exactly_once.task_transaction import TaskOutcome, TaskResult, TaskTransaction
from spark_kafka_sink.exactly_once.transactional_id import ScopeKind
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.spark.exactly_once import running_query
from spark_kafka_sink.spark.exactly_once.row_counter import RowCounter
from spark_kafka_sink.spark.exactly_once.transaction_commit_messages import TransactionCommitMessage
from spark_kafka_sink.spark.runtime import internals, worker_context
from spark_kafka_sink.spark.runtime.worker_context import current_task_attempt
from spark_kafka_sink.spark.writers.task_writer import TaskWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from spark_kafka_sink.common.recreated_topics import WrittenTopic
    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.producer.rows import Rows
    from spark_kafka_sink.producer.session import ProducerSession
    from spark_kafka_sink.spark.exactly_once.exactly_once_plan import ExactlyOncePlan
    from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
    from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles


_SPECULATION = "spark.speculation"


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

    def write_and_report(self, batches: Iterable[pa.RecordBatch]) -> TransactionCommitMessage:
        """Write all rows, unless the batch is already decided.

        Raises:
            TransactionError: the batch cannot be written with this transactionalIdPrefix.
            KafkaProdError: a row cannot be delivered.
        """
        query_id, batch = self._query_and_batch()
        plan, kind = self.plan, self.plan.scope.kind
        if plan.shared is not None:
            _reject_speculation()
        run_id = None if kind is ScopeKind.STREAM else running_query.current_run_id()
        counted = RowCounter(batches, self.roles.topic if kind is ScopeKind.BATCH else None)
        report = DeliveryReport()
        transaction = None
        written: tuple[WrittenTopic, ...] = ()
        outcome = TaskOutcome.SKIPPED
        if plan.must_write(query_id, batch, run_id):
            report, transaction, written = self._write_transaction(counted, query_id, batch)
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
        return TransactionCommitMessage(
            self.origin.add_to(report), result, plan.nonce, written=written
        )

    def read_rows(
        self, batches: Iterable[pa.RecordBatch], min_rows: Callable[[], int] = lambda: 0
    ) -> Iterator[Rows]:
        """Yield the rows in chunks; see `TaskWriter.read_rows`.

        Raises:
            ConfigError: a row would be written to the decision log, which contains only decisions.
        """
        decision_log = self.config.exactly_once.decision_log_topic
        for rows in super().read_rows(batches, min_rows):
            if decision_log in rows.topics:
                raise ConfigError(
                    "a row's topic is the decision log",
                    topic=decision_log,
                    hint="Write the row to another topic, or set decisionLogTopic.",
                )
            yield rows

    def _query_and_batch(self) -> tuple[str | None, str]:
        """Return the query id and the batch. A batch write has a query only within foreachBatch."""
        kind, name = self.plan.scope.kind, self.plan.scope.name
        if kind is ScopeKind.STREAM:
            return running_query.current_micro_batch()
        if kind is ScopeKind.BATCH:
            return running_query.current_query_id(), name
        return internals.local_property(internals.QUERY_ID), name

    def _write_transaction(
        self, batches: Iterable[pa.RecordBatch], query_id: str | None, batch: str
    ) -> tuple[DeliveryReport, TaskTransaction | None, tuple[WrittenTopic, ...]]:
        """Return the report, the open transaction (None without rows), and the written topics."""
        settings = self.plan.transaction(query_id, batch, current_task_attempt())
        transaction: TaskTransaction | None = None

        def finish(session: ProducerSession | None) -> None:
            nonlocal transaction
            transaction = None if session is None else self._left_open(session)
            # Claim even if there are no rows, so that no other attempt of this task can write.
            if settings.shared is not None and not (session and session.has_sent_init_producer_id):
                config = worker_context.with_shipped_files(
                    self.config.producer, self.artifact_folder
                )
                claim_id, prefix = settings.shared.claim_id, self.plan.scope.prefix
                claim(config, claim_id, self.plan.timeout_ms, prefix)

        report, written = self.send_rows(batches, settings, finish)
        return report, transaction, written

    def _left_open(self, session: ProducerSession) -> TaskTransaction | None:
        """Return the open transaction, or None if no row was written because all were dropped."""
        transaction, started_ms = session.flush_transaction(), session.transaction_started_ms
        if transaction is None or started_ms is None:
            return None
        return TaskTransaction(
            transaction=transaction, started_ms=started_ms, timeout_ms=self.plan.timeout_ms
        )


def _reject_speculation() -> None:
    """Raise an error if speculation is enabled; only tasks receive this setting of the session.

    Raises:
        ConfigError: Spark may run two attempts of a task at the same time.
    """
    if (internals.local_property(_SPECULATION) or "").strip().lower() == "true":
        raise ConfigError(
            f"option atomicBatch and {_SPECULATION} cannot be used together: speculation can run a "
            "second attempt of a task, but only one attempt may write",
            hint=f"Remove one of them; {_SPECULATION} is set when the session is created.",
        )
