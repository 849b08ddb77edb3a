"""Finish decided batches of earlier drivers, of this scope and of earlier runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.common.text import listed, plural
from spark_kafka_sink.exactly_once import decision_rules
from spark_kafka_sink.exactly_once.decision_record import (
    DecidedBatch,
    DecisionRecord,
    Fate,
    ScopeState,
    state_of,
)
from spark_kafka_sink.exactly_once.scope_state import Decided
from spark_kafka_sink.exactly_once.steps.end_transactions import (
    APPEND_TIMEOUT_S,
    append_torn,
    commit_other_scopes,
    final_fates,
)
from spark_kafka_sink.exactly_once.steps.torn_error import torn_error
from spark_kafka_sink.exactly_once.task_transaction import ids_of
from spark_kafka_sink.exactly_once.transactional_id import Scope, ScopeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.exactly_once.decision_messages import DecisionRecords
    from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer

_MAX_LISTED = 10
"""Maximum number of transactional ids in a message."""
_RUN_RETENTION_MS = 3_600_000
"""Minimum time in milliseconds for which the log retains the record of a finished run."""
_LOG = logging.getLogger(__name__)


def roll_forward(
    scope_client: ScopeClient,
    owner: TransactionalProducer,
    decided: DecidedBatch,
    write: decision_rules.BatchWrite | None,
    recorded_fates: tuple[Fate, ...],
) -> TransactionalProducer:
    """Commit the decision of an earlier driver, and record that the batch is done.

    Args:
        scope_client: the operations of the scope.
        owner: the driver at its epoch.
        decided: the decision, as read from the log in this epoch.
        write: may continue after a torn batch if it sets resetTransactionalState; None to raise an
            error in any case.
        recorded_fates: the fates that the log has recorded for a torn batch.

    Returns:
        The driver at the epoch of its next append.

    Raises:
        TornTransactionError: rows of the batch are lost.
        FencedError: a newer driver has taken over.
    """
    _LOG.warning(
        "batch %s of %s was decided by a driver that did not finish the commit: committing %s",
        decided.batch,
        scope_client.scope,
        plural(len(decided.transactions), "transaction"),
    )
    fates = final_fates(scope_client, decided, recorded_fates)
    scope_client.timer.restart()
    if fates and write is not None and decision_rules.replaces_query(decided, write):
        _LOG.warning("%s", torn_error(scope_client.scope, decided, fates))
        return owner
    if fates:
        append_torn(scope_client, owner, decided, fates, recorded_fates)
        raise torn_error(scope_client.scope, decided, fates)
    done = DecisionRecord.done(decided, scope_client.timer.wall_ms())
    return scope_client.log.append(owner, done, APPEND_TIMEOUT_S)


def recover_scope(
    scope_client: ScopeClient, ignores_loss: Callable[[DecidedBatch], bool], *, create: bool = False
) -> ScopeState:
    """Commit the decision in the log, and return the state of the scope.

    Nothing is fenced: the planning of a batch may run concurrently with the commit of the previous
    batch.

    Args:
        scope_client: the operations of the scope.
        ignores_loss: returns True to log a torn batch as a warning, instead of raising an error.
        create: create a missing decision log; see `ScopeLog.read`.

    Raises:
        TornTransactionError: rows of a decided batch are lost.
    """
    record = scope_client.log.read_and_await_markers(create=create).latest(scope_client.scope)
    state = state_of(record)
    step = decision_rules.next_planning_step(state)
    if step is None or record is None:
        return state
    decided = step.decided
    fates = final_fates(scope_client, decided, record.fates)
    if fates:
        error = torn_error(scope_client.scope, decided, fates)
        if not ignores_loss(decided):
            raise error
        _LOG.warning("%s", error)
    return decided.to_done()


def recover_runs(scope_client: ScopeClient) -> None:
    """Finish the decisions of the prefix's earlier batch-job runs, and remove their records.

    A run with a decision may still be active: it is fenced once all its transactions are committed,
    when it only has to append its done record. A run with atomicBatch leaves a done record, which
    its own abort() needs; that record is retained for `_RUN_RETENTION_MS`.

    The call takes at most max.block.ms; decisions that it cannot finish are logged and do not fail
    the write.
    """
    records = scope_client.log.read(create=True)
    decided, finished = _other_runs(scope_client, records)
    deadline = scope_client.timer.deadline_in(scope_client.timer.max_block_s)
    if decided:
        # The remaining time is for appending to the log.
        commit_deadline = scope_client.timer.deadline_in(0.75 * scope_client.timer.max_block_s)
        for scope, result in commit_other_scopes(scope_client, decided, commit_deadline).items():
            _append_run_outcome(
                scope_client.for_scope(scope, deadline), records, decided[scope], result
            )
    for scope in finished:
        if scope_client.timer.now() < deadline:
            _remove_run(scope_client.for_scope(scope, deadline), records)
    scope_client.timer.restart()


def _other_runs(
    scope_client: ScopeClient, records: DecisionRecords
) -> tuple[dict[Scope, DecidedBatch], list[Scope]]:
    """Return the runs with an unfinished decision, and the runs whose record can be removed."""
    decided: dict[Scope, DecidedBatch] = {}
    finished = []
    for scope in list(records.scopes(scope_client.scope.prefix)):
        record = records.latest(scope)
        if scope.kind is not ScopeKind.RUN or scope == scope_client.scope:
            continue
        if record is None or record.is_torn:
            continue
        if isinstance(record.state, Decided):
            decided[scope] = record.state
        elif scope_client.timer.wall_ms() - record.at_ms > _RUN_RETENTION_MS:
            finished.append(scope)
    return decided, finished


def _remove_run(scope_client: ScopeClient, records: DecisionRecords) -> None:
    """Remove the record of a finished run from the log; failures are only logged."""
    scope_client.log.remember_chunks(records)
    try:
        scope_client.log.append(scope_client.fence(), None)
    except KafkaProdError as error:
        _LOG.debug("the record of %s stays in the decision log: %s", scope_client.scope, error)


def _append_run_outcome(
    scope_client: ScopeClient,
    records: DecisionRecords,
    decided: DecidedBatch,
    result: tuple[Fate, ...] | KafkaProdError,
) -> None:
    """Record the outcome of a run's decision. Errors are logged, not raised."""
    if isinstance(result, KafkaProdError):
        _LOG.warning("%s", _unfinished_message(scope_client, decided, result))
        return
    scope_client.log.remember_chunks(records)
    torn = DecisionRecord.of(decided, scope_client.timer.wall_ms(), result) if result else None
    try:
        scope_client.log.append(scope_client.fence(), torn)
    except KafkaProdError as error:
        _LOG.warning(
            "%s is finished, but this cannot be recorded in the decision log: %s",
            scope_client.scope,
            error.message,
        )
        return
    if result:
        _LOG.error("%s", torn_error(scope_client.scope, decided, result))


def _unfinished_message(
    scope_client: ScopeClient, decided: DecidedBatch, error: KafkaProdError
) -> str:
    """Return a message about another run's unfinished decision, and how to retry it."""
    names = ids_of(decided.transactions)
    servers = ",".join(scope_client.client.config.bootstrap_servers)
    reason = str(error).removesuffix(".")  # Hints end with a full stop.
    return (
        f"{scope_client.scope} was decided but could not be finished: {reason}. Its transactions "
        f"{listed(names, _MAX_LISTED)} block read_committed readers, and their rows are lost if "
        "they time out. To retry, write another batch with this transactionalIdPrefix, or run "
        f"`kafkaprod transactions commit --prefix {scope_client.scope.prefix} --bootstrap-servers "
        f"{servers}`; `kafkaprod transactions list` shows open transactions"
    )
