"""Planning, before the first task: finish what is decided, and see where the log stands."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.exactly_once.log.decision import Record
from spark_kafka_sink.exactly_once.log_state import Decided, Nothing
from spark_kafka_sink.exactly_once.protocol import finished, next_planning_step
from spark_kafka_sink.exactly_once.scope import ScopeKind
from spark_kafka_sink.exactly_once.steps.finish import commit_all, commit_others
from spark_kafka_sink.exactly_once.steps.torn import torn_error

if TYPE_CHECKING:
    from spark_kafka_sink.exactly_once.log.decision import DecidedBatch, Fate, ScopeState
    from spark_kafka_sink.exactly_once.log.decision_records import DecisionRecords
    from spark_kafka_sink.exactly_once.scope import Scope
    from spark_kafka_sink.exactly_once.steps.driver import Driver

_MOST_NAMED: Final = 10
"""Transactional ids in a sentence."""
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

    All of this takes max.block.ms at most; what it does not finish is logged and stops nothing.
    """
    records = driver.read()
    decided, over = _other_runs(driver, records)
    deadline = driver.client.deadline(driver.max_block_s)
    if decided:
        most = driver.client.deadline(driver.max_block_s * 0.75)  # the rest is for the log
        for scope, result in commit_others(driver, decided, most).items():
            _note_run(driver.of(scope, deadline), records, decided[scope], result)
    for scope in over:
        if driver.client.now() < deadline:
            _forget_run(driver.of(scope, deadline), records)
    driver.restart()


def _other_runs(
    driver: Driver, records: DecisionRecords
) -> tuple[dict[Scope, DecidedBatch], list[Scope]]:
    """The runs whose decision is to be carried out, and those whose record is to be forgotten."""
    decided: dict[Scope, DecidedBatch] = {}
    over = []
    for scope in list(records.scopes(driver.scope.prefix)):
        record = records.latest(scope)
        if scope.kind is not ScopeKind.RUN or scope == driver.scope:
            continue
        if record is None or record.is_torn:
            continue
        if isinstance(record.state, Decided):
            decided[scope] = record.state
        elif driver.client.wall_ms() - record.at_ms > RUN_KEPT_MS:
            over.append(scope)
    return decided, over


def _forget_run(driver: Driver, records: DecisionRecords) -> None:
    """Take the record of a run that is over out of the log; it comes to no harm if it stays."""
    driver.note_chunks(records)
    try:
        driver.append(driver.fence(), None, "forget")
    except KafkaProdError as error:
        _LOG.debug("the record of %s is left in the decision log: %s", driver.scope, error)


def _note_run(
    driver: Driver,
    records: DecisionRecords,
    decided: DecidedBatch,
    result: tuple[Fate, ...] | KafkaProdError,
) -> None:
    """Note what has become of a run's decision; its trouble is logged, and stops nothing."""
    if isinstance(result, KafkaProdError):
        _LOG.warning("%s", _unfinished(driver, decided, result))
        return
    driver.note_chunks(records)
    torn = Record.of(decided, driver.client.wall_ms(), result) if result else None
    try:
        driver.append(driver.fence(), torn, "done")
    except KafkaProdError as error:
        _LOG.warning("%s is finished, and the decision log can't say so: %s", driver.scope, error)
        return
    if result:
        _LOG.error("%s", torn_error(driver.scope, decided, result))


def _unfinished(driver: Driver, decided: DecidedBatch, error: KafkaProdError) -> str:
    """What to do about another run's decision that could not be carried out."""
    names = [each.transactional_id for each in decided.transactions]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    servers = ",".join(driver.client.config.bootstrap_servers)
    return (
        f"{driver.scope} was decided and could not be finished: {error}. Its transactions "
        f"{', '.join(names[:_MOST_NAMED])}{more} hold read_committed readers back, and their rows "
        "are lost if they time out. The next batch write with this transactionalIdPrefix tries "
        f"again, or `kafkaprod transactions commit --prefix {driver.scope.prefix} "
        f"--bootstrap-servers {servers}` does; `kafkaprod transactions list` shows what is open"
    )
