"""One abort of a batch: whatever was decided is rolled forward, and nothing else is left open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.commit_outcome import CommitOutcome, CommitStatus
from spark_kafka_sink.exactly_once.log_state import Decided, Nothing
from spark_kafka_sink.exactly_once.protocol import RollForward, never_decided, next_abort_step
from spark_kafka_sink.exactly_once.steps.orphan_sweep import abort_orphans, abort_ours, nonces_of
from spark_kafka_sink.exactly_once.steps.roll_forward import roll_forward

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.exactly_once.log.decision import ScopeState
    from spark_kafka_sink.exactly_once.steps.driver import Driver
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction


def abort_undecided(
    driver: Driver, batch: str, tasks: Sequence[TaskTransaction], nonces: frozenset[str]
) -> CommitOutcome:
    """Abort a batch whose commit() was never called, so that nobody can have decided it."""
    ours = {each.transactional_id for each in tasks}
    aborted = abort_ours(driver, tasks, ours)
    aborted += abort_orphans(driver, Nothing(), nonces | nonces_of(tasks))
    return _outcome(driver, CommitStatus.ABORTED, batch, aborted)


def abort_batch(
    driver: Driver, batch: str, tasks: Sequence[TaskTransaction], nonces: frozenset[str]
) -> CommitOutcome:
    """Abort a batch whose commit() may have been called, unless it was decided.

    Raises:
        TornTransactionError: it was, and rows of it are lost.
        FencedError: a newer driver has taken over.
    """
    owner = driver.fence()
    record = driver.read().latest(driver.scope)
    state: ScopeState = Nothing() if record is None else record.state
    step = next_abort_step(state)
    if isinstance(step, RollForward):
        known = () if record is None else record.fates
        roll_forward(driver, owner, step.decided, None, known)
    ours = [each.transactional_id for each in tasks]
    decided = state.transactional_ids if isinstance(state, Decided) else frozenset()
    aborted = abort_ours(driver, tasks, never_decided(state, ours))
    given_up = nonces | nonces_of(tasks)
    aborted += abort_orphans(driver, state, given_up)
    rolled = not decided.isdisjoint(ours)
    status = CommitStatus.ROLLED_FORWARD if rolled else CommitStatus.ABORTED
    return _outcome(driver, status, batch, aborted)


def _outcome(driver: Driver, status: CommitStatus, batch: str, aborted: int) -> CommitOutcome:
    return CommitOutcome(status=status, batch=batch, aborted=aborted, steps=driver.watch.steps)
