"""Planning, before the first task: finish what is decided, and see where the log stands."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.exactly_once.log.decision import Record
from spark_kafka_sink.exactly_once.log_state import Decided, Nothing
from spark_kafka_sink.exactly_once.protocol import finished, next_planning_step
from spark_kafka_sink.exactly_once.scope import ScopeKind
from spark_kafka_sink.exactly_once.steps.finish import commit_all
from spark_kafka_sink.exactly_once.steps.roll_forward import APPEND_SECONDS
from spark_kafka_sink.exactly_once.steps.torn import torn_error

if TYPE_CHECKING:
    from spark_kafka_sink.exactly_once.log.decision import DecidedBatch, ScopeState
    from spark_kafka_sink.exactly_once.steps.driver import Driver

RUN_KEPT_MS: Final = 3_600_000
"""How long the record of a run that is done stays in the log at least."""
_LOG = logging.getLogger(__name__)


def recover_scope(driver: Driver, *, reset: bool) -> ScopeState:
    """Where the log stands; whatever it has decided is committed when this returns.

    Nothing is fenced: the planning of a batch may run beside the commit of the one before.

    Args:
        driver: of the scope.
        reset: go on behind a torn batch.

    Raises:
        TornTransactionError: rows of a decided batch are lost.
    """
    record = driver.read_unfenced().latest(driver.scope)
    state: ScopeState = Nothing() if record is None else record.state
    step = next_planning_step(state)
    if step is None or record is None:
        return state
    decided = step.decided
    fates = record.fates or commit_all(driver, decided)
    if fates and not reset:
        raise torn_error(driver.scope, decided, fates)
    if fates:
        _LOG.warning("%s", torn_error(driver.scope, decided, fates))
    return finished(decided)


def recover_runs(driver: Driver) -> None:
    """Finish what earlier runs of batch jobs under the prefix have decided, and forget them.

    A run that still lives has decided as well: it loses its epoch when there is nothing left for
    it to append but that it is done. A run in one transaction leaves a record that it is done, by
    which its own abort() can tell: that is kept for a while.
    """
    records = driver.read()
    for scope in list(records.scopes(driver.scope.prefix)):
        if scope.kind is not ScopeKind.RUN or scope == driver.scope:
            continue
        record = records.latest(scope)
        if record is None or record.is_torn:
            continue
        run = driver.of(scope)
        run.note_chunks(records)
        if isinstance(record.state, Decided):
            _recover_run(run, record.state)
        elif driver.client.wall_ms() - record.at_ms > RUN_KEPT_MS:
            _forget_run(run)


def _forget_run(driver: Driver) -> None:
    """Take the record of a run that is over out of the log; it comes to no harm if it stays."""
    try:
        driver.append(driver.fence(), None, "forget", APPEND_SECONDS)
    except KafkaProdError as error:
        _LOG.debug("the record of %s is left in the decision log: %s", driver.scope, error)


def _recover_run(driver: Driver, decided: DecidedBatch) -> None:
    """As far as it goes: another run's trouble is said loudly, and stops nothing."""
    try:
        fates = commit_all(driver, decided)
        torn = Record.of(decided, driver.client.wall_ms(), fates) if fates else None
        driver.append(driver.fence(), torn, "done", APPEND_SECONDS)
    except KafkaProdError as error:
        _LOG.warning("%s was decided and could not be finished: %s", driver.scope, error)
        return
    if fates:
        _LOG.error("%s", torn_error(driver.scope, decided, fates))
