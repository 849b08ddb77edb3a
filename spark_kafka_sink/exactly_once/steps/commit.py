"""One commit of a batch: fence, read, and then what the log and the protocol say."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import (
    BrokerUnavailableError,
    FencedError,
    KafkaProdError,
    TransactionError,
)
from spark_kafka_sink.exactly_once.commit_outcome import CommitOutcome, CommitStatus
from spark_kafka_sink.exactly_once.log.decision import Record
from spark_kafka_sink.exactly_once.log_state import Nothing
from spark_kafka_sink.exactly_once.protocol import (
    AlreadyDone,
    Refuse,
    RollForward,
    finished,
    never_decided,
    next_commit_step,
)
from spark_kafka_sink.exactly_once.scope import ScopeKind
from spark_kafka_sink.exactly_once.steps.finish import commit_all
from spark_kafka_sink.exactly_once.steps.orphan_sweep import abort_orphans, abort_ours
from spark_kafka_sink.exactly_once.steps.refusals import refusal_error
from spark_kafka_sink.exactly_once.steps.roll_forward import note_done, note_torn, roll_forward
from spark_kafka_sink.exactly_once.steps.torn import torn_error
from spark_kafka_sink.protocol.error_codes import ErrorCode, error_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.exactly_once.log.decision import DecidedBatch, ScopeState
    from spark_kafka_sink.exactly_once.protocol import Caller
    from spark_kafka_sink.exactly_once.steps.driver import Driver
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
    from spark_kafka_sink.protocol.open_transaction import OpenTransaction

_SECOND_LOOK_SECONDS: Final = 5.0
_TIMED_OUT: Final = error_name(ErrorCode.invalid_txn_state)
"""On transactions V2 the driver's own transaction has timed out; a newer driver is told apart."""
_LOG = logging.getLogger(__name__)


class _UnclearAppendError(Exception):
    """What the log holds is not known for certain: only a new epoch and a new look can tell."""

    def __init__(self, error: KafkaProdError) -> None:
        super().__init__(str(error))
        self.error = error


def commit_batch(driver: Driver, caller: Caller, tasks: Sequence[TaskTransaction]) -> CommitOutcome:
    """Decide the batch and make it visible, or find out that somebody has.

    Args:
        driver: of the scope.
        caller: which batch of which query.
        tasks: the transactions that its tasks have left open.

    Raises:
        TornTransactionError: rows of a decided batch are lost.
        FencedError: a newer driver has taken over.
        TransactionError: the batch is refused, or a transaction is not alive; nothing is decided.
        BrokerUnavailableError: max.block.ms has passed before it was certain that it is decided.
    """
    while True:
        try:
            return _commit(driver, caller, tasks)
        except _UnclearAppendError as unclear:
            if driver.is_late:
                raise unclear.error from None
            _LOG.warning(
                "whether batch %s of %s is decided is not clear, and the log is asked: %s",
                caller.batch,
                driver.scope,
                unclear,
            )


def _commit(driver: Driver, caller: Caller, tasks: Sequence[TaskTransaction]) -> CommitOutcome:
    owner = driver.fence()
    record = driver.read().latest(driver.scope)
    state: ScopeState = Nothing() if record is None else record.state
    rolled: DecidedBatch | None = None
    while isinstance(step := next_commit_step(state, caller, tuple(tasks)), RollForward):
        rolled = step.decided
        known = () if record is None else record.fates
        owner = roll_forward(driver, owner, rolled, caller, known)
        state = finished(rolled)
    if isinstance(step, Refuse):
        ours = {each.transactional_id for each in tasks}
        abort_ours(driver, tasks, never_decided(rolled or state, ours))
        raise refusal_error(step.refusal, driver.scope, state, caller)
    if isinstance(step, AlreadyDone):
        return _already_done(driver, state, rolled, record, tasks)
    return _decide(driver, owner, step.decided, (state,) if rolled is None else (state, rolled))


def _already_done(
    driver: Driver,
    state: ScopeState,
    rolled: DecidedBatch | None,
    record: Record | None,
    tasks: Sequence[TaskTransaction],
) -> CommitOutcome:
    ours = [each.transactional_id for each in tasks]
    aborted = abort_ours(driver, tasks, never_decided(rolled or state, ours))
    aborted += abort_orphans(driver, rolled or state)
    return CommitOutcome(
        status=CommitStatus.ROLLED_FORWARD if rolled else CommitStatus.ALREADY_WRITTEN,
        batch=state.batch if not isinstance(state, Nothing) else "",
        transactions=0 if record is None else record.transactions,
        records=0 if record is None else record.records,
        rows=None if isinstance(state, Nothing) else state.rows,
        aborted=aborted,
        steps=driver.watch.steps,
    )


def _decide(
    driver: Driver,
    owner: OpenTransaction,
    decided: DecidedBatch,
    known: tuple[ScopeState, ...],
) -> CommitOutcome:
    """Make the decision, after which there is no way back.

    `known` is what it goes by: the log's state, and before it the one that was rolled forward, as
    the marker behind the record that says so may not be written yet.
    """
    tasks = decided.transactions
    forget = driver.scope.kind is ScopeKind.RUN
    done = Record.done(decided, driver.client.wall_ms())
    if not tasks:
        if not forget:
            _append_decision(driver, owner, done)
        return _outcome(driver, decided, CommitStatus.EMPTY)
    look = _Look(driver, tasks, known)
    try:
        look()
        record = Record.of(decided, driver.client.wall_ms())
        owner = _append_decision(driver, owner, record, look.again)
    except TransactionError:
        if look.failed:  # otherwise the append did, and the decision may be in the log
            abort_ours(driver, tasks, decided.transactional_ids)
        raise
    fates = commit_all(driver, decided)
    if fates:
        note_torn(driver, owner, decided, fates)
        raise torn_error(driver.scope, decided, fates)
    note_done(driver, owner, None if forget else done)
    return _outcome(driver, decided, CommitStatus.COMMITTED)


@dataclass(slots=True)
class _Look:
    """Whether the batch may be decided; looked at before the decision is appended, and again then.

    The first look waits for coordinators that can't be reached. At the second one the driver's
    transaction is open, and its coordinator ends it after `DRIVER_TIMEOUT_MS`, which is less than
    `MIN_LEFT_MS`: no pause of the driver can make it decide what has timed out meanwhile. The log
    is read again, as the leader that told its end before may have been deposed without knowing it:
    the one that has taken the decision is the leader.
    """

    driver: Driver
    tasks: Sequence[TaskTransaction]
    known: tuple[ScopeState, ...]
    failed: bool = False

    def __call__(self, seconds: float | None = None) -> None:
        """Raise a TransactionError unless all transactions can be committed."""
        try:
            self.driver.check_alive(self.tasks, seconds)
        except TransactionError:
            self.failed = True
            raise

    def again(self) -> None:
        """The second look."""
        self(_SECOND_LOOK_SECONDS)
        driver = self.driver
        record = driver.read(create=False).latest(driver.scope)
        if (Nothing() if record is None else record.state) not in self.known:
            raise _UnclearAppendError(_stale(driver))


def _stale(driver: Driver) -> BrokerUnavailableError:
    return BrokerUnavailableError(
        f"the decision log's leader had an old end, and lacked the latest word on {driver.scope}",
        hint="Run the write again: nothing of it is decided",
    )


def _append_decision(
    driver: Driver,
    owner: OpenTransaction,
    record: Record,
    before_commit: Callable[[], None] | None = None,
) -> OpenTransaction:
    try:
        return driver.append(owner, record, "decide", before_commit=before_commit)
    except BrokerUnavailableError as error:
        raise _UnclearAppendError(error) from error
    except FencedError as error:
        if error.error == _TIMED_OUT:
            raise _UnclearAppendError(error) from error
        raise


def _outcome(driver: Driver, decided: DecidedBatch, status: CommitStatus) -> CommitOutcome:
    aborted = abort_orphans(driver, decided)
    return CommitOutcome(
        status=status,
        batch=decided.batch,
        transactions=len(decided.transactions),
        records=sum(each.records for each in decided.transactions),
        aborted=aborted,
        steps=driver.watch.steps,
    )
