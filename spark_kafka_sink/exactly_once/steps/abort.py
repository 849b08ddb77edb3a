"""Abort a batch: a decided batch is completed; otherwise its transactions are aborted."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import KafkaProdError, TornTransactionError
from spark_kafka_sink.exactly_once import decision_rules
from spark_kafka_sink.exactly_once.commit_outcome import CommitResult, CommitStatus
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord, ScopeState, state_of
from spark_kafka_sink.exactly_once.scope_state import Decided, NoDecision
from spark_kafka_sink.exactly_once.steps.orphans import (
    AbortResult,
    abort_listed_orphans,
    abort_orphans,
    abort_own,
)
from spark_kafka_sink.exactly_once.steps.recovery import recover_scope, roll_forward
from spark_kafka_sink.exactly_once.steps.transaction_checks import is_any_committed
from spark_kafka_sink.exactly_once.task_transaction import ids_of
from spark_kafka_sink.exactly_once.transactional_id import ScopeKind, nonces_of
from spark_kafka_sink.kafka.protocol.transactions import TransactionState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
    from spark_kafka_sink.kafka.admin.transaction_description import TransactionDescription
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer

_ENDED = frozenset(
    {
        TransactionState.PREPARE_COMMIT,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.PREPARE_ABORT,
        TransactionState.COMPLETE_ABORT,
        TransactionState.PREPARE_EPOCH_FENCE,
    }
)
_LOG = logging.getLogger(__name__)
_DESCRIBE_TIMEOUT_S = 5.0
_DECIDING = "a driver is about to decide the batch"
_UNKNOWN = "no task has reported, and the plan of the micro-batch is unknown"


def abort_undecided(
    scope_client: ScopeClient, batch: str, tasks: Sequence[TaskTransaction], nonces: frozenset[str]
) -> CommitResult:
    """Abort a batch whose commit() was never called, so it cannot have been decided.

    Planning calls this without tasks for a planning that it gives up. In that case, a commit() may
    have been called; see `_abort_unfinished`.
    """
    given_up = nonces | nonces_of(tasks)
    aborted = abort_own(scope_client, tasks, ids_of(tasks))
    aborted += (
        _abort_unfinished(scope_client, given_up) if given_up else AbortResult(problem=_UNKNOWN)
    )
    return _batch_result(CommitStatus.ABORTED, batch, aborted)


def _abort_unfinished(scope_client: ScopeClient, nonces: frozenset[str]) -> AbortResult:
    """Abort the open and future transactions of tasks that have not sent a commit message.

    The nonces may come from a planning file that another driver has since replaced, or from an
    earlier planning of a stopped query. In these cases, a commit() may already have
    decided these transactions, or may be about to; see `ScopeClient.check_committable`.
    """
    try:
        scope_client.create_abort_flags(nonces)
        records = scope_client.log.read_and_await_markers()
    except KafkaProdError as error:
        return AbortResult(problem=error.message)
    if scope_client.log.is_deciding():
        return AbortResult(problem=_DECIDING)
    record = records.latest(scope_client.scope)
    return abort_listed_orphans(scope_client, state_of(record), nonces)


def abort_batch(
    scope_client: ScopeClient, write: decision_rules.BatchWrite, tasks: Sequence[TaskTransaction]
) -> CommitResult:
    """Abort a batch whose commit() may have been called, unless it was decided.

    If all of its transactions have ended (a commit() that fails aborts them itself), there is
    nothing to abort. In that case, the log is read without fencing, because fencing would only stop
    another driver.

    Args:
        scope_client: the operations of the scope.
        write: the batch and its query, with the nonce of its planning.
        tasks: transactions of its tasks.

    Raises:
        TornTransactionError: the batch was decided, and some of its rows are lost. The tasks'
            transactions that are not part of the decision are aborted.
        FencedError: a newer driver has taken over; nothing is aborted.
    """
    descriptions = scope_client.describe_tasks(tasks)
    if all(_is_ended(task, descriptions.get(task.transactional_id)) for task in tasks):
        return _finish_without_fence(scope_client, write, tasks, descriptions)
    owner = scope_client.fence()
    record = scope_client.log.read_after_fence()
    logged = state_of(record)
    if isinstance(logged, NoDecision) and scope_client.scope.kind is ScopeKind.RUN:
        descriptions = _described_again(scope_client, tasks, descriptions)
        if _is_finished_run(scope_client, tasks, descriptions):
            return _batch_result(CommitStatus.ALREADY_WRITTEN, write.batch, AbortResult())
    state, torn = _roll_forward_or_give_up(scope_client, owner, record, write)
    if torn is not None:
        return _abort_after_torn(scope_client, write, tasks, logged, torn)
    own_ids = ids_of(tasks)
    aborted = abort_own(scope_client, tasks, decision_rules.never_decided(logged, own_ids))
    aborted += abort_orphans(scope_client, logged, write.nonces)
    status = CommitStatus.ABORTED
    if decision_rules.is_written(state, write):
        rolled = isinstance(logged, Decided)
        status = CommitStatus.ROLLED_FORWARD if rolled else CommitStatus.ALREADY_WRITTEN
    batch_result = _batch_result(status, write.batch, aborted)
    if status is CommitStatus.ABORTED or not decision_rules.is_superseded(logged, own_ids):
        return batch_result
    descriptions = _described_again(scope_client, tasks, descriptions)
    return replace(batch_result, is_superseded=not is_any_committed(tasks, descriptions))


def _roll_forward_or_give_up(
    scope_client: ScopeClient,
    owner: TransactionalProducer,
    record: DecisionRecord | None,
    write: decision_rules.BatchWrite,
) -> tuple[ScopeState, TornTransactionError | None]:
    """Commit the decision in the log, and record that the plannings of the write are given up.

    Nothing is recorded after a torn batch, because the log must keep its record.

    Returns:
        The new state, and the error if the batch in the log is torn.
    """
    state = state_of(record)
    while not isinstance(
        step := decision_rules.next_abort_step(state, write), decision_rules.AbortTasks
    ):
        if isinstance(step, decision_rules.RollForward):
            fates = () if record is None else record.fates
            try:
                owner = roll_forward(scope_client, owner, step.decided, None, fates)
            except TornTransactionError as error:
                return state, error
            state = step.decided.to_done()
        else:
            state = step.state
            given_up = replace(
                record or DecisionRecord(state=state, at_ms=0),
                state=step.state,
                at_ms=scope_client.timer.wall_ms(),
                fates=(),
            )
            owner = scope_client.log.append(owner, given_up)
    return state, None


def _abort_after_torn(
    scope_client: ScopeClient,
    write: decision_rules.BatchWrite,
    tasks: Sequence[TaskTransaction],
    logged: ScopeState,
    torn: TornTransactionError,
) -> CommitResult:
    """Abort a batch after a torn batch, whose record in the log must be kept.

    The log cannot record that these plannings are given up. Instead, the abort flags prevent
    a commit() that is still running from deciding the batch.

    Raises:
        TornTransactionError: the torn batch is the batch to abort.
    """
    try:
        scope_client.create_abort_flags(write.nonces)
        record = scope_client.log.read_and_await_markers().latest(scope_client.scope)
    except KafkaProdError as error:
        aborted = AbortResult(problem=error.message)
    else:
        if record is None or record.state != logged:  # commit() has decided the batch meanwhile.
            return abort_batch(scope_client, write, tasks)
        if scope_client.log.is_deciding():
            aborted = AbortResult(problem=_DECIDING)
        else:
            own_ids = decision_rules.never_decided(logged, ids_of(tasks))
            aborted = abort_own(scope_client, tasks, own_ids)
            aborted += abort_listed_orphans(scope_client, logged, write.nonces)
    if isinstance(logged, Decided) and decision_rules.is_same_batch(logged, write):
        raise torn
    _LOG.warning("%s", torn)
    return _batch_result(CommitStatus.ABORTED, write.batch, aborted)


def _described_again(
    scope_client: ScopeClient,
    tasks: Sequence[TaskTransaction],
    before: Mapping[str, TransactionDescription],
) -> Mapping[str, TransactionDescription]:
    """Describe the transactions after the fence: until then, a commit() may have finished.

    If this fails, return the descriptions of `before`, because only the report depends on it.
    """
    deadline = scope_client.timer.deadline_in(_DESCRIBE_TIMEOUT_S)
    with suppress(KafkaProdError):
        return scope_client.describe(ids_of(tasks), deadline) or before
    return before


def _is_ended(task: TaskTransaction, description: TransactionDescription | None) -> bool:
    """Return True if it is certain that a task's transaction has ended."""
    if description is None or description.producer_id != task.transaction.producer_id:
        return False
    return description.state in _ENDED or description.epoch > task.transaction.epoch


def _finish_without_fence(
    scope_client: ScopeClient,
    write: decision_rules.BatchWrite,
    tasks: Sequence[TaskTransaction],
    descriptions: Mapping[str, TransactionDescription],
) -> CommitResult:
    """Return the result for a batch whose tasks' transactions have all ended.

    Transactions of lost attempts are aborted.
    """
    state = recover_scope(
        scope_client, lambda decided: not decision_rules.is_same_batch(decided, write)
    )
    orphans = abort_orphans(scope_client, state, write.nonces)
    if decision_rules.is_written(state, write) or _is_finished_run(
        scope_client, tasks, descriptions
    ):
        batch_result = _batch_result(CommitStatus.ALREADY_WRITTEN, write.batch, orphans)
        is_superseded = bool(tasks) and not is_any_committed(tasks, descriptions)
        return replace(batch_result, is_superseded=is_superseded)
    ended = AbortResult(ended=frozenset(ids_of(tasks)))
    return _batch_result(CommitStatus.ABORTED, write.batch, ended + orphans)


def _is_finished_run(
    scope_client: ScopeClient,
    tasks: Sequence[TaskTransaction],
    descriptions: Mapping[str, TransactionDescription],
) -> bool:
    """Return True if this is a run whose commit() has finished and removed its record from the log.

    Only a decision can have committed a task's transaction.
    """
    return scope_client.scope.kind is ScopeKind.RUN and is_any_committed(tasks, descriptions)


def _batch_result(status: CommitStatus, batch: str, aborted: AbortResult) -> CommitResult:
    return CommitResult(
        status=status,
        batch=batch,
        aborted=len(aborted.ended),
        left_open=tuple(sorted(aborted.left_open)),
        problem=aborted.problem,
    )
