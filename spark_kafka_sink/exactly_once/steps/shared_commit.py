"""Begin, commit and abort the transaction that all tasks of a batch share (atomicBatch=true).

The transaction has the driver's own transactional id, so drivers with and without atomicBatch fence
each other. The record that marks the batch as done is written in the same transaction. The single
EndTxn is the decision, so no batch can be torn.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common import errors
from spark_kafka_sink.exactly_once import decision_record, decision_rules
from spark_kafka_sink.exactly_once.commit_outcome import CommitResult, CommitStatus
from spark_kafka_sink.exactly_once.scope_state import Decided, NoDecision
from spark_kafka_sink.exactly_once.shared_transaction import check_producers, written_ranges
from spark_kafka_sink.exactly_once.steps.fates import FateReader
from spark_kafka_sink.exactly_once.steps.orphans import abort_orphans
from spark_kafka_sink.exactly_once.steps.recovery import recover_scope
from spark_kafka_sink.exactly_once.steps.rejection_error import rejection_error
from spark_kafka_sink.exactly_once.transactional_id import ScopeKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
    from spark_kafka_sink.exactly_once.task_transaction import TaskResult, TaskTransaction
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer

_LOG = logging.getLogger(__name__)


def begin_shared(
    scope_client: ScopeClient, timeout_ms: int, *, reset: bool
) -> tuple[decision_record.ScopeState, TransactionalProducer | None]:
    """Fence earlier drivers and their tasks, then read the state of the scope.

    InitProducerId returns after the previous transaction has ended, so a later read of the log
    shows the final state of the previous batches.

    Args:
        scope_client: the operations of the scope.
        timeout_ms: transaction.timeout.ms of the batch's transaction.
        reset: continue after a torn batch.

    Returns:
        The state of the scope, and the producer id and epoch for all tasks; None if the batch of a
        batch job is already written.

    Raises:
        ConfigError: the brokers cannot describe producers, which the check of the transaction
            requires.
        TornTransactionError: rows of a batch that was decided without atomicBatch are lost.
    """
    state = recover_scope(scope_client, lambda _: reset, create=True)
    if scope_client.scope.kind is not ScopeKind.STREAM and not isinstance(state, NoDecision):
        return state, None
    scope_client.check_can_describe_producers()
    shared = scope_client.fence(timeout_ms)
    return recover_scope(scope_client, lambda _: reset), shared


def commit_shared(
    scope_client: ScopeClient,
    write: decision_rules.BatchWrite,
    shared: TransactionalProducer,
    results: Sequence[TaskResult],
) -> CommitResult:
    """Make the rows of all tasks visible with one EndTxn, or none of them.

    Args:
        scope_client: the operations of the scope.
        write: the batch and its query.
        shared: the transaction.
        results: results of all tasks, none of which has skipped the batch.

    Raises:
        FencedError: a newer driver has taken over.
        TransactionError: the batch is rejected, or the partitions do not contain what tasks report.
        BrokerUnavailableError: max.block.ms has passed; `abort_shared` determines what is visible.
    """
    try:
        return _commit_transaction(scope_client, write, shared, results)
    except errors.FencedError as error:
        return _fenced_result(scope_client, write, results, error)
    except errors.BrokerUnavailableError:
        raise
    except errors.KafkaProdError:
        _try_abort(scope_client, shared)
        raise


def abort_shared(
    scope_client: ScopeClient,
    write: decision_rules.BatchWrite | None,
    shared: TransactionalProducer,
    batch: str,
    results: Sequence[TaskResult],
) -> CommitResult:
    """Abort the transaction, unless it was committed.

    The epoch is ended first. After that, an EndTxn that is still in flight has no effect, so the
    log shows the final state of the batch. A decision of another driver is committed.

    Args:
        scope_client: the operations of the scope.
        write: the batch and its query; None if no task has reported.
        shared: the transaction.
        batch: number or name of the batch.
        results: results of the tasks that finished.

    Raises:
        TornTransactionError: another driver has decided the batch, and some of its rows are lost.
    """
    scope_client.end_epoch(shared)
    state = recover_scope(
        scope_client,
        lambda decided: write is None or not decision_rules.is_same_batch(decided, write),
    )
    is_written = write is not None and decision_rules.is_written(state, write)
    return CommitResult(
        status=CommitStatus.ALREADY_WRITTEN if is_written else CommitStatus.ABORTED,
        batch=batch,
        aborted=0 if is_written else 1,
        is_superseded=is_written and _is_aborted(scope_client, results),
    )


def _commit_transaction(
    scope_client: ScopeClient,
    write: decision_rules.BatchWrite,
    shared: TransactionalProducer,
    results: Sequence[TaskResult],
) -> CommitResult:
    owners = written_ranges(results)
    if not owners and scope_client.scope.kind is ScopeKind.RUN:
        _try_abort(scope_client, shared)  # The brokers might have rejected all rows.
        return CommitResult(status=CommitStatus.EMPTY, batch=write.batch)
    record = scope_client.log.read_after_fence()
    state = decision_record.state_of(record)
    if isinstance(state, Decided):
        # A driver without atomicBatch has decided the batch since planning.
        state = recover_scope(
            scope_client, lambda decided: decision_rules.replaces_query(decided, write)
        )
    no_tasks: tuple[TaskTransaction, ...] = ()  # the record lists no transactions
    step = decision_rules.next_commit_step(state, write, no_tasks)
    if isinstance(step, decision_rules.RejectBatch):
        raise rejection_error(step.rejection, scope_client.scope, state, write)
    if isinstance(step, decision_rules.AlreadyDone):
        _try_abort(scope_client, shared)
        batch_result = _batch_result(scope_client, write, CommitStatus.ALREADY_WRITTEN, state)
        return replace(batch_result, is_superseded=bool(owners))
    assert isinstance(step, decision_rules.Decide)

    def check_unaborted() -> None:
        producers = scope_client.admin.describe_producers(owners, scope_client.timer.deadline)
        check_producers(shared, owners, producers)

    if owners:
        check_unaborted()
    # With transactions V1, an epoch can be reused after an abort. If the transaction was aborted in
    # between, the record is in a new transaction, which could be committed without the rows.
    second_check = check_unaborted if owners and not shared.version.bumps_epoch else None
    done = decision_record.DecisionRecord(
        state=step.decided.to_done(),
        at_ms=scope_client.timer.wall_ms(),
        transactions=1 if owners else 0,
        records=sum(owner.records for owner in owners.values()),
    )
    scope_client.log.append(shared, done, before_commit=second_check)
    batch_result = _batch_result(
        scope_client, write, CommitStatus.COMMITTED if owners else CommitStatus.EMPTY, done.state
    )
    return replace(batch_result, transactions=done.transactions, records=done.records)


def _fenced_result(
    scope_client: ScopeClient,
    write: decision_rules.BatchWrite,
    results: Sequence[TaskResult],
    error: errors.FencedError,
) -> CommitResult:
    """Return the result of a batch whose transaction has ended.

    Another client has ended it, or this driver's EndTxn, whose response was lost.
    """
    state = recover_scope(
        scope_client, lambda decided: not decision_rules.is_same_batch(decided, write)
    )
    if decision_rules.is_written(state, write):
        batch_result = _batch_result(scope_client, write, CommitStatus.ALREADY_WRITTEN, state)
        return replace(batch_result, is_superseded=_is_aborted(scope_client, results))
    raise errors.TransactionError(
        f"the transaction of batch {write.batch} of {scope_client.scope} ended before it could be "
        "committed, and none of its rows are visible: transaction.timeout.ms has passed, or a "
        "newer driver has taken over",
        kafka_error=error.kafka_error,
        hint="Restart the query or the job. Only one run of a query may use its "
        "transactionalIdPrefix at a time; if tasks take longer than transaction.timeout.ms, raise "
        "that option and the brokers' transaction.max.timeout.ms, or write smaller batches.",
    ) from error


def _is_aborted(scope_client: ScopeClient, results: Iterable[TaskResult]) -> bool:
    """Return True if the tasks' records are followed by an abort marker."""
    tasks = [result.transaction for result in results if result.transaction is not None]
    deadline = scope_client.timer.deadline_in(scope_client.timer.max_block_s)
    fates = FateReader(scope_client.client, deadline)
    return bool(tasks) and fates.fate_of(tasks[0]) is decision_record.Fate.LOST


def _try_abort(scope_client: ScopeClient, shared: TransactionalProducer) -> None:
    """Try to abort; if this fails, the transaction is never committed."""
    try:
        scope_client.end_epoch(shared)
    except errors.KafkaProdError as error:
        _LOG.warning(
            "transaction %s could not be aborted and may block readers: %s",
            shared.transactional_id,
            error,
        )


def _batch_result(
    scope_client: ScopeClient,
    write: decision_rules.BatchWrite,
    status: CommitStatus,
    state: decision_record.ScopeState,
) -> CommitResult:
    aborted = abort_orphans(scope_client, state)
    return CommitResult(status=status, batch=write.batch, aborted=len(aborted.ended))
