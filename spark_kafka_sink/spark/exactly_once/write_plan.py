"""The plan of an exactly-once write, and the identity of its tasks.

A task finds its micro-batch and query in Spark's local properties. The query's id comes from the
checkpoint: it is stable across restarts, and a new checkpoint has a new one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.config.exactly_once import acl_prefix
from spark_kafka_sink.exactly_once.protocol import Caller, Refusal, Verdict, judge
from spark_kafka_sink.exactly_once.steps.commit import refusal_error
from spark_kafka_sink.exactly_once.transactional_id import (
    ClaimId,
    ScopeKind,
    TaskTransactionalId,
    abort_flag_id,
)
from spark_kafka_sink.producer.transactions.settings import JoinedTransaction, TransactionSettings
from spark_kafka_sink.spark.session_conf import BATCH_ID, JOB_GROUP, QUERY_ID, setting

if TYPE_CHECKING:
    from spark_kafka_sink.exactly_once.protocol import LogState
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
    from spark_kafka_sink.exactly_once.transactional_id import Scope
    from spark_kafka_sink.protocol.transactions import OpenTransaction
    from spark_kafka_sink.report.task_report import TaskInfo


_RUN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch: the query's id and Spark's number of the batch."""

    query_id: str
    batch: str


def current_micro_batch() -> MicroBatch:
    """Return the micro-batch of the task that runs in this thread.

    Raises:
        TransactionError: Spark does not provide it, so the batch could not be recognized later.
    """
    query_id, batch = setting(QUERY_ID), setting(BATCH_ID)
    if not query_id or batch is None or not batch.isdecimal():
        raise TransactionError(
            "Spark tells this task no micro-batch, so exactly once can't be kept: "
            f"{QUERY_ID} is {query_id}, {BATCH_ID} is {batch}",
            hint="Write from foreachBatch with the option batchId.",
        )
    return MicroBatch(query_id, batch)


def current_run() -> str | None:
    """Return the run id of the query of this thread's task; each start has another one.

    None outside of a query, or if the user has set another job group: a group that is the same
    after a restart does not distinguish runs.
    """
    group = setting(JOB_GROUP)
    if not setting(QUERY_ID) or group is None or not _RUN_ID.fullmatch(group):
        return None
    return group


_FINAL: Final = "Spark runs the task again as it does any other, and each attempt ends with this"
"""Spark passes neither query nor batch to planning on the driver, so only tasks can judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """One planning of a batch write or of a micro-batch; pickled with its writer."""

    scope: Scope
    nonce: str
    """Unique to this planning, so that no two attempts ever share a transactional id."""
    state: LogState[TaskTransaction]
    """State of the scope according to the decision log."""
    timeout_ms: int
    """transaction.timeout.ms of each task's transaction."""
    reset: bool = False
    reset_batch: str | None = None
    two_phase: bool = False
    shared: OpenTransaction | None = None
    """The transaction that all tasks write in; None if each has its own."""

    def must_write(self, query_id: str | None, batch: str, run_id: str | None = None) -> bool:
        """Return True if the tasks of a batch must write, given the state read at planning.

        Args:
            query_id: id of the streaming query; None in a batch job.
            batch: batch number of a stream; otherwise the name of the scope.
            run_id: of the query's run, within foreachBatch.

        Raises:
            TransactionError: the batch is refused; the message says why, and what to do.
        """
        single = self.scope.kind is not ScopeKind.STREAM
        caller = Caller(
            query=query_id,
            batch=batch,
            reset=self.reset,
            reset_batch=self.reset_batch,
            single=single,
            run=run_id,
            nonces=frozenset((self.nonce,)),
        )
        verdict = judge(self.state, caller)
        if isinstance(verdict, Refusal):
            refused = refusal_error(verdict, self.scope, self.state, caller)
            refused.hint = f"{refused.hint}. {_FINAL}"
            raise refused
        return verdict is Verdict.WRITE

    def transaction(self, query_id: str | None, batch: str, task: TaskInfo) -> TransactionSettings:
        """Return the transaction settings for one attempt of one task."""
        if self.shared is not None:
            return TransactionSettings(
                transactional_id=self.shared.transactional_id,
                timeout_ms=self.timeout_ms,
                id_prefix=acl_prefix(self.scope.prefix),
                joined=JoinedTransaction(
                    producer=self.shared, claim_id=self._claim_id(query_id, batch, task)
                ),
            )
        transactional_id = TaskTransactionalId(
            scope=self.scope,
            query_id=query_id,
            batch=batch,
            nonce=self.nonce,
            partition=task.partition_id,
            task_attempt_id=task.task_attempt_id,
        )
        return TransactionSettings(
            transactional_id=str(transactional_id),
            timeout_ms=self.timeout_ms,
            abort_flag=abort_flag_id(self.scope, self.nonce),
            id_prefix=acl_prefix(self.scope.prefix),
            two_phase=self.two_phase,
        )

    def _claim_id(self, query_id: str | None, batch: str, task: TaskInfo) -> str:
        """Return the id that one attempt of a task can claim."""
        claim = ClaimId(
            scope=self.scope,
            query_id=query_id,
            batch=batch,
            nonce=self.nonce,
            partition=task.partition_id,
        )
        return str(claim)
