"""Commit one batch: fence, read the log, decide, and end the transactions."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import (
    BrokerUnavailableError,
    FencedError,
    KafkaProdError,
    TransactionError,
    UnknownTopicError,
)
from spark_kafka_sink.exactly_once import decision_rules
from spark_kafka_sink.exactly_once.commit_outcome import CommitResult, CommitStatus
from spark_kafka_sink.exactly_once.decision_record import (
    DecidedBatch,
    DecisionRecord,
    ScopeState,
    state_of,
)
from spark_kafka_sink.exactly_once.scope_state import Decided, NoDecision
from spark_kafka_sink.exactly_once.steps.end_transactions import (
    append_done,
    append_torn,
    commit_decision,
)
from spark_kafka_sink.exactly_once.steps.orphans import abort_orphans, abort_own
from spark_kafka_sink.exactly_once.steps.recovery import roll_forward
from spark_kafka_sink.exactly_once.steps.rejection_error import rejection_error
from spark_kafka_sink.exactly_once.steps.torn_error import torn_error
from spark_kafka_sink.exactly_once.steps.transaction_checks import is_any_committed
from spark_kafka_sink.exactly_once.task_transaction import ids_of
from spark_kafka_sink.exactly_once.transactional_id import ScopeKind
from spark_kafka_sink.kafka.logs.appender import UnclearFenceError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
    from spark_kafka_sink.kafka.admin.transaction_description import TransactionDescription
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer


_SECOND_CHECK_TIMEOUT_S = 5.0
_TIMED_OUT = error_name(ErrorCode.invalid_txn_state)
"""With transactions V2, this error means that the driver's own transaction has timed out. Fencing
returns a different error.
"""
_LOG = logging.getLogger(__name__)


class _UnclearAppendError(Exception):
    """It is unknown what the log contains: the driver must fence and read the log again."""

    def __init__(self, error: KafkaProdError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class _CommitCall:
    """The state of one commit() call for a batch."""

    scope_client: ScopeClient
    write: decision_rules.BatchWrite
    tasks: tuple[TaskTransaction, ...]
    may_be_decided: bool = False
    """True if an append of this call has decided the batch, or may have decided it; its
    transactions must not be aborted in that case. Only a successful next append proves that the
    batch was not decided.
    """

    def is_finished(self) -> bool:
        """Return True if another driver has finished this run's decision and removed its record."""
        if not self.may_be_decided or self.scope_client.scope.kind is not ScopeKind.RUN:
            return False
        return is_any_committed(self.tasks, self.scope_client.describe_tasks(self.tasks))

    def abort_own(self, state: ScopeState) -> None:
        """Abort the call's transactions that can no longer be decided; fencing is not necessary.

        `state` is the state of the log. No other call can decide the transactions: a decision
        consists of the commit messages of one planning, and Spark passes these to commit() once.
        """
        if self.may_be_decided:
            return
        own_ids = decision_rules.never_decided(state, ids_of(self.tasks))
        abort_own(self.scope_client, self.tasks, own_ids)


def commit_batch(
    scope_client: ScopeClient, write: decision_rules.BatchWrite, tasks: Sequence[TaskTransaction]
) -> CommitResult:
    """Decide the batch and make it visible, or detect that another driver has done so.

    If the call fails and has certainly not decided the batch, the tasks' transactions are aborted.
    A later abort() then finds no open transaction, and does not fence the driver that has taken
    over.

    Args:
        scope_client: the operations of the scope.
        write: the batch and its query.
        tasks: open transactions of its tasks.

    Raises:
        TornTransactionError: rows of a decided batch are lost.
        FencedError: a newer driver has taken over.
        TransactionError: the batch is rejected, or a transaction cannot be committed safely;
            nothing is decided.
        BrokerUnavailableError: max.block.ms has passed, and it is uncertain whether the batch is
            decided.
        UnknownTopicError: the decision log was deleted after planning.
    """
    call = _CommitCall(scope_client, write, tuple(tasks))
    while True:
        try:
            return _commit_once(call)
        except _UnclearAppendError as unclear:
            call.may_be_decided = True
            if scope_client.timer.is_overdue:
                raise unclear.error from None
            _LOG.warning(
                "it is unclear whether batch %s of %s is decided; reading the decision log again: "
                "%s",
                write.batch,
                scope_client.scope,
                unclear,
            )


def _commit_once(call: _CommitCall) -> CommitResult:
    """Fence, read the log, and carry out the steps that follow from its record.

    If the call is fenced, or the log was deleted, its transactions are aborted.
    """
    owner = call.scope_client.fence()
    record: DecisionRecord | None = None
    try:
        record = call.scope_client.log.read_after_fence()
        return _carry_out_steps(call, owner, record)
    except UnclearFenceError:
        raise
    except (FencedError, UnknownTopicError):
        call.abort_own(state_of(record))
        raise


def _carry_out_steps(
    call: _CommitCall, owner: TransactionalProducer, record: DecisionRecord | None
) -> CommitResult:
    """Finish a decision in the log; then decide the batch, or detect that it is written.

    `record` is the latest record of the scope, read after fencing.
    """
    scope_client, write = call.scope_client, call.write
    logged = state = state_of(record)
    step = decision_rules.next_commit_step(state, write, call.tasks)
    if record is not None and isinstance(step, decision_rules.RollForward):
        owner = roll_forward(scope_client, owner, step.decided, write, record.fates)
        state = step.decided.to_done()
        step = decision_rules.next_commit_step(state, write, call.tasks)
    if isinstance(step, decision_rules.RejectBatch):
        call.abort_own(logged)
        raise rejection_error(step.rejection, scope_client.scope, state, write)
    if isinstance(step, decision_rules.Decide):
        if call.is_finished():
            return _commit_result(scope_client, step.decided, CommitStatus.COMMITTED)
        return _append_and_commit(call, owner, step.decided)
    assert record is not None
    assert isinstance(step, decision_rules.AlreadyDone)
    if step.done is not None:
        detailed = replace(record, state=step.done, fates=())
        _append_decision(scope_client, owner, detailed)
    return _already_done(call, record)


def _already_done(call: _CommitCall, record: DecisionRecord) -> CommitResult:
    """Return the result for a batch that `record` contains; abort the call's other transactions."""
    scope_client, logged, own_ids = call.scope_client, record.state, ids_of(call.tasks)
    is_superseded = decision_rules.is_superseded(logged, own_ids) and _is_uncommitted(
        scope_client, call.tasks
    )
    aborted = abort_own(
        scope_client, call.tasks, decision_rules.never_decided(logged, own_ids)
    ) + abort_orphans(scope_client, logged)
    is_decided = isinstance(logged, Decided)
    return CommitResult(
        status=CommitStatus.ROLLED_FORWARD if is_decided else CommitStatus.ALREADY_WRITTEN,
        batch=call.write.batch,
        transactions=record.transactions,
        records=record.records,
        aborted=len(aborted.ended),
        is_superseded=is_superseded,
    )


def _is_uncommitted(scope_client: ScopeClient, tasks: Sequence[TaskTransaction]) -> bool:
    """Return True unless one of the tasks' transactions is known to be committed."""
    descriptions: Mapping[str, TransactionDescription] = {}
    with suppress(KafkaProdError):  # The batch is written; only the report depends on this.
        descriptions = scope_client.describe_tasks(tasks)
    return not is_any_committed(tasks, descriptions)


def _append_and_commit(
    call: _CommitCall, owner: TransactionalProducer, decided: DecidedBatch
) -> CommitResult:
    """Append the decision, which is irreversible, and commit its transactions."""
    scope_client = call.scope_client
    forget = scope_client.scope.kind is ScopeKind.RUN
    done = DecisionRecord.done(decided, scope_client.timer.wall_ms())
    if not decided.transactions:
        if not forget:
            _append_decision(scope_client, owner, done)
        return _commit_result(scope_client, decided, CommitStatus.EMPTY)
    check = _CommittableCheck(scope_client, decided.transactions)
    try:
        check()
        record = DecisionRecord.of(decided, scope_client.timer.wall_ms())
        owner = _append_decision(scope_client, owner, record, check.repeat)
        call.may_be_decided = True
        scope_client.log.check_decision()
    except TransactionError:
        if check.failed:  # Otherwise, the append failed, but the log may contain the decision.
            call.abort_own(NoDecision())
        if not call.is_finished():
            raise
    fates = commit_decision(scope_client, decided)
    if fates:
        append_torn(scope_client, owner, decided, fates)
        raise torn_error(scope_client.scope, decided, fates)
    append_done(scope_client, owner, None if forget else done)
    return _commit_result(scope_client, decided, CommitStatus.COMMITTED)


@dataclass(slots=True)
class _CommittableCheck:
    """Checks that the batch may be decided, both before and after the decision is appended.

    The first check waits for unreachable coordinators. During the second one the driver's
    transaction is open, and its coordinator aborts it after `DRIVER_TIMEOUT_MS`, which is less than
    `MIN_LEFT_MS`: even a paused driver cannot decide transactions that timed out during the
    pause.
    """

    scope_client: ScopeClient
    tasks: Sequence[TaskTransaction]
    failed: bool = False

    def __call__(self, seconds: float | None = None) -> None:
        """Raise a TransactionError unless all transactions can be committed."""
        try:
            self.scope_client.check_committable(self.tasks, seconds)
        except TransactionError:
            self.failed = True
            raise

    def repeat(self) -> None:
        """Repeat the check after the decision has been appended."""
        self(_SECOND_CHECK_TIMEOUT_S)


def _append_decision(
    scope_client: ScopeClient,
    owner: TransactionalProducer,
    record: DecisionRecord,
    before_commit: Callable[[], None] | None = None,
) -> TransactionalProducer:
    try:
        return scope_client.log.append(owner, record, before_commit=before_commit)
    except BrokerUnavailableError as error:
        raise _UnclearAppendError(error) from error
    except FencedError as error:
        if error.kafka_error == _TIMED_OUT:
            raise _UnclearAppendError(error) from error
        raise


def _commit_result(
    scope_client: ScopeClient, decided: DecidedBatch, status: CommitStatus
) -> CommitResult:
    aborted = abort_orphans(scope_client, decided)
    return CommitResult(
        status=status,
        batch=decided.batch,
        transactions=len(decided.transactions),
        records=sum(transaction.records for transaction in decided.transactions),
        aborted=len(aborted.ended),
    )
