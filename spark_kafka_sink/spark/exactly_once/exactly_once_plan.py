"""The plan of an exactly-once write: which batches the tasks write, in which transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.config.exactly_once import acl_prefix
from spark_kafka_sink.exactly_once.batch_rejection import BatchRejection
from spark_kafka_sink.exactly_once.decision_rules import BatchVerdict, BatchWrite, batch_verdict
from spark_kafka_sink.exactly_once.steps.rejection_error import rejection_error
from spark_kafka_sink.exactly_once.transactional_id import (
    Scope,
    ScopeKind,
    TaskTransactionalId,
    abort_flag_id,
)
from spark_kafka_sink.producer.transactions.transaction_settings import (
    SharedTransaction,
    TransactionSettings,
)

if TYPE_CHECKING:
    from spark_kafka_sink.exactly_once.scope_state import ScopeStateOf
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
    from spark_kafka_sink.report.task_attempt import TaskAttempt

_FINAL = "Spark retries the task like any other, and each attempt fails with this error."
"""Hint for errors in tasks. Planning cannot raise them, because Spark passes neither query nor
batch to it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactlyOncePlan:
    """The plan of one batch write or micro-batch; pickled with its writer."""

    scope: Scope
    nonce: str
    """Unique to this planning, so that two attempts never share a transactional id."""
    state: ScopeStateOf[TaskTransaction]
    """State of the scope, as read from the decision log."""
    has_later_batch: bool = False
    """See `BatchWrite.has_later_batch`."""
    timeout_ms: int
    """The transaction.timeout.ms of each task's transaction."""
    reset: bool = False
    reset_batch: str | None = None
    two_phase: bool = False
    shared: TransactionalProducer | None = None
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
        single = self.scope.kind is not ScopeKind.STREAM
        write = BatchWrite(
            query_id=query_id,
            batch=batch,
            resets_state=self.reset,
            reset_batch=self.reset_batch,
            is_single_batch=single,
            run_id=run_id,
            has_later_batch=self.has_later_batch,
            nonces=frozenset((self.nonce,)),
        )
        verdict = batch_verdict(self.state, write)
        if isinstance(verdict, BatchRejection):
            rejected = rejection_error(verdict, self.scope, self.state, write)
            rejected.hint = f"{rejected.hint} {_FINAL}"
            raise rejected
        return verdict is BatchVerdict.WRITE

    def transaction(
        self, query_id: str | None, batch: str, task: TaskAttempt
    ) -> TransactionSettings:
        """Return the transaction settings for one attempt of one task."""
        task_id = TaskTransactionalId(
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
                shared=SharedTransaction(producer=self.shared, claim_id=task_id.claim_id),
            )
        return TransactionSettings(
            transactional_id=str(task_id),
            timeout_ms=self.timeout_ms,
            abort_flag=abort_flag_id(self.scope, self.nonce),
            id_prefix=acl_prefix(self.scope.prefix),
            two_phase=self.two_phase,
        )
