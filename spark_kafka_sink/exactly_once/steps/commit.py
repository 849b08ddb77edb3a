"""One commit of a batch: fence, read, and then what the log and the protocol say."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.admin.appender import UnclearFenceError
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
    Decide,
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


@dataclass(slots=True)
class _Call:
    """One commit() of a batch, and what it has in its hands."""

    driver: Driver
    caller: Caller
    tasks: tuple[TaskTransaction, ...]
    may_be_decided: bool = False
    """An append of this call has decided the batch, or may have: nothing of it is aborted any more.
    That it has not, only the leader that takes the next append can tell for certain."""

    def abort_ours(self, state: ScopeState) -> None:
        """Abort what nobody can decide any more, as this call ends without; no fence is needed.

        `state` is the log's. Only this call knows the transactions: a decision names the messages
        of one planning, and Spark commits those once.
        """
        if self.may_be_decided:
            return
        ours = never_decided(state, (each.transactional_id for each in self.tasks))
        abort_ours(self.driver, self.tasks, ours)


def commit_batch(driver: Driver, caller: Caller, tasks: Sequence[TaskTransaction]) -> CommitOutcome:
    """Decide the batch and make it visible, or find out that somebody has.

    Where it raises and has certainly decided nothing, the tasks' transactions are aborted: abort()
    then finds nothing open, and need not fence the driver that has taken over.

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
    call = _Call(driver, caller, tuple(tasks))
    while True:
        try:
            return _commit(call)
        except _UnclearAppendError as unclear:
            call.may_be_decided = True
            if driver.is_late:
                raise unclear.error from None
            _LOG.warning(
                "whether batch %s of %s is decided is not clear, and the log is asked: %s",
                caller.batch,
                driver.scope,
                unclear,
            )


def _commit(call: _Call) -> CommitOutcome:
    driver, caller = call.driver, call.caller
    owner = driver.fence()
    record = driver.read_fenced()
    state: ScopeState = Nothing() if record is None else record.state
    read = state
    rolled: DecidedBatch | None = None
    try:
        while isinstance(step := next_commit_step(state, caller, call.tasks), RollForward):
            rolled = step.decided
            known = () if record is None else record.fates
            owner = roll_forward(driver, owner, rolled, caller, known)
            state = finished(rolled)
        if isinstance(step, Decide):
            return _decide(call, owner, step.decided)
        if isinstance(step, AlreadyDone) and record is not None:
            found = step.found or (state if driver.holds_earlier else None)
            _note_found(driver, owner, record, found)
    except UnclearFenceError:
        raise
    except FencedError:
        call.abort_ours(read)
        raise
    if isinstance(step, Refuse):
        call.abort_ours(read)
        raise refusal_error(
            step.refusal, driver.scope, state, caller, is_earlier=driver.holds_earlier
        )
    return _already_done(driver, state, rolled, record, call.tasks)


def _note_found(
    driver: Driver, owner: OpenTransaction, record: Record, state: ScopeState | None
) -> None:
    """Append what is new about a batch that is done; None if nothing is."""
    if state is None:
        return
    found = Record(
        state=state,
        at_ms=record.at_ms,
        transactions=record.transactions,
        records=record.records,
    )
    _append_decision(driver, owner, found, step="found")


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
        aborted=len(aborted.ended),
        steps=driver.watch.steps,
    )


def _decide(call: _Call, owner: OpenTransaction, decided: DecidedBatch) -> CommitOutcome:
    """Make the decision, after which there is no way back."""
    driver = call.driver
    forget = driver.scope.kind is ScopeKind.RUN
    done = Record.done(decided, driver.client.wall_ms())
    if not decided.transactions:
        if not forget:
            _append_decision(driver, owner, done)
        return _outcome(driver, decided, CommitStatus.EMPTY)
    look = _Look(driver, decided.transactions)
    try:
        look()
        record = Record.of(decided, driver.client.wall_ms())
        owner = _append_decision(driver, owner, record, look.again)
        call.may_be_decided = True
    except TransactionError:
        if look.failed:  # otherwise the append did, and the decision may be in the log
            call.abort_ours(Nothing())
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
    `MIN_LEFT_MS`: no pause of the driver can make it decide what has timed out meanwhile.
    """

    driver: Driver
    tasks: Sequence[TaskTransaction]
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


def _append_decision(
    driver: Driver,
    owner: OpenTransaction,
    record: Record,
    before_commit: Callable[[], None] | None = None,
    step: str = "decide",
) -> OpenTransaction:
    try:
        return driver.append(owner, record, step, before_commit=before_commit)
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
        aborted=len(aborted.ended),
        steps=driver.watch.steps,
    )
