"""A batch that all tasks write in one transaction: begun at planning, ended by commit or abort.

The transaction has the driver's own transactional id, so drivers with and without atomicBatch fence
each other. The record that the batch is done is written in the same transaction: its single EndTxn
is the decision, and no batch can be torn.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import (
    BrokerUnavailableError,
    ConfigError,
    FencedError,
    KafkaProdError,
    ProtocolError,
    TransactionError,
)
from spark_kafka_sink.exactly_once.commit_outcome import CommitOutcome, CommitStatus
from spark_kafka_sink.exactly_once.log.decision import Record
from spark_kafka_sink.exactly_once.protocol import (
    AlreadyDone,
    Decide,
    Decided,
    Nothing,
    Refuse,
    Verdict,
    finished,
    judge,
    next_commit_step,
)
from spark_kafka_sink.exactly_once.shared_transaction import check_producers, owners_of
from spark_kafka_sink.exactly_once.steps.commit import refusal_error
from spark_kafka_sink.exactly_once.steps.orphans import abort_orphans
from spark_kafka_sink.exactly_once.steps.recovery import recover_scope
from spark_kafka_sink.exactly_once.transactional_id import ScopeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.exactly_once.log.decision import DecisionRecords, ScopeState
    from spark_kafka_sink.exactly_once.protocol import Caller
    from spark_kafka_sink.exactly_once.steps.driver import Driver
    from spark_kafka_sink.exactly_once.task_transaction import TaskResult, TaskTransaction
    from spark_kafka_sink.exactly_once.transactional_id import Scope
    from spark_kafka_sink.protocol.transactions import OpenTransaction

_LOG = logging.getLogger(__name__)


def begin_shared(
    driver: Driver, timeout_ms: int, *, reset: bool
) -> tuple[ScopeState, OpenTransaction | None]:
    """Fence earlier drivers and their tasks, and read the state of the scope after that.

    InitProducerId returns after the previous transaction has ended, so a later read of the log
    shows the final state of the previous batches.

    Args:
        driver: of the scope.
        timeout_ms: transaction.timeout.ms of the batch's transaction.
        reset: continue after a torn batch.

    Returns:
        The state of the scope, and the producer id and epoch for all tasks; None if the one batch
        of a batch job is already written.

    Raises:
        ConfigError: the brokers cannot describe producers, which the check of the transaction
            needs.
        TornTransactionError: rows of a batch that was decided without atomicBatch are lost.
    """
    state = recover_scope(driver, reset=reset)
    if driver.scope.kind is not ScopeKind.STREAM and not isinstance(state, Nothing):
        return state, None
    _check_brokers(driver)
    shared = driver.begin(timeout_ms)
    return recover_scope(driver, reset=reset), shared


def commit_shared(
    driver: Driver, caller: Caller, shared: OpenTransaction, results: Sequence[TaskResult]
) -> CommitOutcome:
    """Make the rows of all tasks visible with one EndTxn, or none of them.

    Args:
        driver: of the scope.
        caller: the batch and its query.
        shared: the transaction.
        results: of all tasks, none of which has skipped the batch.

    Raises:
        FencedError: a newer driver has taken over.
        TransactionError: the batch is refused, or the partitions do not contain what tasks report.
        BrokerUnavailableError: max.block.ms has passed; `abort_shared` determines what is visible.
    """
    try:
        return _commit(driver, caller, shared, results)
    except FencedError as error:
        return _fenced(driver, caller, error)
    except BrokerUnavailableError:
        raise
    except KafkaProdError:
        _give_up(driver, shared)
        raise


def abort_shared(
    driver: Driver, caller: Caller | None, shared: OpenTransaction, batch: str
) -> CommitOutcome:
    """Abort the transaction, unless it was committed.

    The epoch is ended first: an EndTxn that is still in flight has no effect after that, so the log
    shows the final state of the batch.

    Args:
        driver: of the scope.
        caller: the batch and its query; None if no task has reported.
        shared: the transaction.
        batch: its number or name.
    """
    driver.end_epoch(shared)
    state = _state_of(driver.read_unfenced(), driver.scope)
    is_written = caller is not None and judge(state, caller) is Verdict.SKIP
    status = CommitStatus.ALREADY_WRITTEN if is_written else CommitStatus.ABORTED
    return CommitOutcome(
        status=status, batch=batch, aborted=0 if is_written else 1, steps=driver.watch.steps
    )


def _check_brokers(driver: Driver) -> None:
    try:
        driver.check_describes_producers()
    except ProtocolError as error:
        raise ConfigError(
            "option atomicBatch needs brokers that describe producers",
            broker=error.broker,
            error=error.error,
            hint="It needs Kafka 2.8 or later: leave it out.",
        ) from error


def _commit(
    driver: Driver, caller: Caller, shared: OpenTransaction, results: Sequence[TaskResult]
) -> CommitOutcome:
    owners = owners_of(results)
    if not owners and driver.scope.kind is ScopeKind.RUN:
        return CommitOutcome(status=CommitStatus.EMPTY, batch=caller.batch)
    record = driver.read_fenced()
    known: ScopeState = Nothing() if record is None else record.state
    # Batches decided without atomicBatch were committed at planning, and their driver was fenced.
    state = finished(known) if isinstance(known, Decided) else known
    no_tasks: tuple[TaskTransaction, ...] = ()  # the record lists none
    step = next_commit_step(state, caller, no_tasks)
    if isinstance(step, Refuse):
        raise refusal_error(step.refusal, driver.scope, state, caller)
    if isinstance(step, AlreadyDone):
        _give_up(driver, shared)
        return _outcome(driver, caller, CommitStatus.ALREADY_WRITTEN, state)
    assert isinstance(step, Decide)

    def look() -> None:
        check_producers(shared, owners, driver.producers(owners))

    if owners:
        look()
    # On transactions V1 an epoch can be reused after an abort. If the transaction was aborted in
    # between, the record is in a new transaction, which could be committed without the rows.
    again = look if owners and not shared.version.bumps_epoch else None
    done = Record(
        state=finished(step.decided),
        at_ms=driver.client.wall_ms(),
        transactions=1 if owners else 0,
        records=sum(each.records for each in owners.values()),
    )
    driver.append(shared, done, "commit", before_commit=again)
    outcome = _outcome(
        driver, caller, CommitStatus.COMMITTED if owners else CommitStatus.EMPTY, done.state
    )
    return replace(outcome, transactions=done.transactions, records=done.records)


def _fenced(driver: Driver, caller: Caller, error: FencedError) -> CommitOutcome:
    """Handle a transaction that was ended by our EndTxn (response lost) or by another client."""
    state = _state_of(driver.read_unfenced(), driver.scope)
    if judge(state, caller) is Verdict.SKIP:
        return _outcome(driver, caller, CommitStatus.ALREADY_WRITTEN, state)
    raise TransactionError(
        f"the transaction of batch {caller.batch} of {driver.scope} has ended before it could be "
        "committed, and nothing of it is visible: transaction.timeout.ms has passed, or a newer "
        "driver has taken over",
        error=error.error,
        hint="Start the query or the job again. A query may run once at a time under its "
        "transactionalIdPrefix; if tasks take longer than transaction.timeout.ms, raise it, and "
        "transaction.max.timeout.ms of the brokers with it, or make the batches smaller",
    ) from error


def _give_up(driver: Driver, shared: OpenTransaction) -> None:
    """Abort on a best-effort basis; on failure the transaction is never committed and times out."""
    try:
        driver.end_epoch(shared)
    except KafkaProdError as error:
        _LOG.warning("the transaction %s is left to time out: %s", shared.transactional_id, error)


def _state_of(records: DecisionRecords, scope: Scope) -> ScopeState:
    record = records.latest(scope)
    return Nothing() if record is None else record.state


def _outcome(
    driver: Driver, caller: Caller, status: CommitStatus, state: ScopeState
) -> CommitOutcome:
    aborted = abort_orphans(driver, state)
    return CommitOutcome(
        status=status,
        batch=caller.batch,
        aborted=len(aborted.ended),
        steps=driver.watch.steps,
    )
