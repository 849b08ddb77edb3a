"""Finish decided batches, of this driver's scope and of earlier runs."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import FencedError, KafkaProdError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.exactly_once import decision_rules
from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, commit_outcome
from spark_kafka_sink.exactly_once.decision_record import (
    DecidedBatch,
    DecisionRecord,
    Fate,
    ScopeState,
)
from spark_kafka_sink.exactly_once.steps.torn import (
    fates_from_codes,
    resolve_unknown_fates,
    torn_error,
)
from spark_kafka_sink.exactly_once.transactional_id import Scope, ScopeKind
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, error_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_kafka_sink.exactly_once.decision_messages import DecisionRecords
    from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
    from spark_kafka_sink.kafka.admin.transaction_handlers import TransactionDescription
    from spark_kafka_sink.kafka.protocol.transactions import OpenTransaction


_LOG = logging.getLogger(__name__)

REPORT_S: Final = 5.0
"""Seconds between log messages about pending EndTxn requests."""
APPEND_S: Final = 30.0
"""Time limit in seconds for appending the outcome of a decision; max.block.ms may be shorter."""
_MAX_LISTED: Final = 10
"""Maximum number of transactional ids in a message."""
RUN_KEPT_MS: Final = 3_600_000
"""Minimum time in milliseconds for which the log retains the record of a finished run."""


def commit_all(scope_client: ScopeClient, decided: DecidedBatch) -> tuple[Fate, ...]:
    """Commit the decision of the driver's own scope; a repeated call changes nothing.

    Requests are retried until each has a final response, because an unfinished decision blocks
    readers, and its rows are lost when the transactions time out. The only deadline is max.block.ms
    for a login that fails, for example while a token server is down.

    Returns:
        The fate of each transaction if the batch is torn; empty if all are committed.

    Raises:
        KafkaProdError: a coordinator rejects the request, or the login fails; the decision remains
            valid, and the next driver retries.
    """
    with scope_client.stopwatch.measure("commit"):
        return _resolve_fates(scope_client, decided, _end_all(scope_client, decided))


def final_fates(
    scope_client: ScopeClient, decided: DecidedBatch, recorded_fates: tuple[Fate, ...]
) -> tuple[Fate, ...]:
    """Return the fates as `commit_all` does; `recorded_fates` are those in the decision log.

    A transaction whose fate was unknown may have been committed: its topic could not be read then.
    """
    if recorded_fates and Fate.UNKNOWN not in recorded_fates:
        return recorded_fates
    fates = commit_all(scope_client, decided)
    if recorded_fates and fates:
        fates = tuple(
            earlier if fate is Fate.UNKNOWN else fate
            for earlier, fate in zip(recorded_fates, fates, strict=True)
        )
    return fates if any(fate is not Fate.COMMITTED for fate in fates) else ()


def commit_others(
    scope_client: ScopeClient, batches: Mapping[Scope, DecidedBatch], deadline: float
) -> dict[Scope, tuple[Fate, ...] | KafkaProdError]:
    """Commit the decisions of other scopes concurrently, so that no scope waits for another.

    Args:
        scope_client: the operations of any scope.
        batches: the decided batch of each scope.
        deadline: time limit in seconds of the client's clock. EndTxn requests may take half of this
            time; the rest is used to determine the fates of lost transactions.

    Returns:
        The result of `commit_all`, or the error, for each scope.
    """
    transactions = [
        transaction.transaction for batch in batches.values() for transaction in batch.transactions
    ]
    now = scope_client.client.now()
    with scope_client.stopwatch.measure("commit"):
        codes = scope_client.admin.end(
            transactions, commit=True, deadline=now + (deadline - now) / 2
        )
        return {
            scope: _result(scope_client, decided, codes, deadline)
            for scope, decided in batches.items()
        }


def _result(
    scope_client: ScopeClient, decided: DecidedBatch, codes: Mapping[str, int], deadline: float
) -> tuple[Fate, ...] | KafkaProdError:
    """Return one scope's result, given the EndTxn error codes of all scopes."""
    own = {
        transaction.transactional_id: codes[transaction.transactional_id]
        for transaction in decided.transactions
    }
    waiting = {name: code for name, code in own.items() if _is_unsettled(code)}
    if waiting:
        name, code = next(iter(waiting.items()))
        others = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        return scope_client.client.unavailable_error(f"EndTxn of {name}{others}", code)
    try:
        fates = _resolve_fates(scope_client, decided, own, deadline)
    except KafkaProdError as error:
        return error
    if Fate.UNKNOWN in fates and scope_client.client.now() >= deadline:
        return scope_client.client.unavailable_error(
            "reading the outcomes of transactions from the topics"
        )
    return fates


def _resolve_fates(
    scope_client: ScopeClient,
    decided: DecidedBatch,
    codes: Mapping[str, int],
    deadline: float | None = None,
) -> tuple[Fate, ...]:
    """Return the fates as `commit_all` does; `codes` are final."""
    rejected = {name: code for name, code in codes.items() if _is_rejection(code)}
    if rejected:
        name, code = next(iter(rejected.items()))
        raise scope_client.admin.rejection("EndTxn of a decided transaction,", name, code)
    unclear = [name for name, code in codes.items() if code]
    if not unclear:
        return ()
    fates = fates_from_codes(decided, codes, _descriptions(scope_client, unclear, deadline))
    fates = resolve_unknown_fates(scope_client.client, decided, fates, deadline)
    return fates if any(fate is not Fate.COMMITTED for fate in fates) else ()


def _end_all(scope_client: ScopeClient, decided: DecidedBatch) -> dict[str, int]:
    """Commit all transactions, and return the final error code for each transactional id."""
    waiting = {
        transaction.transactional_id: transaction.transaction
        for transaction in decided.transactions
    }
    codes: dict[str, int] = dict.fromkeys(waiting, int(ClientErrorCode.not_sent))
    is_failing = False
    while waiting:
        deadline = scope_client.client.deadline(REPORT_S)
        try:
            answers = scope_client.admin.end(list(waiting.values()), commit=True, deadline=deadline)
        except KafkaProdError as error:
            if scope_client.client.failures.fatal is None or (
                is_failing and scope_client.is_overdue
            ):
                raise
            if not is_failing:
                scope_client.restart()
            is_failing = True
            scope_client.client.failures.clear()
            _LOG.warning(
                "batch %s of %s is decided, but the login fails. It is tried again: %s",
                decided.batch,
                scope_client.scope,
                error,
            )
            continue
        codes |= answers
        for name, code in answers.items():
            if not _is_unsettled(code):
                del waiting[name]
                is_failing = False
        if waiting:
            _report(scope_client, decided, {name: codes[name] for name in waiting})
    return codes


def _report(scope_client: ScopeClient, decided: DecidedBatch, waiting: Mapping[str, int]) -> None:
    errors = Counter(error_name(code) for code in waiting.values())
    _LOG.warning(
        "batch %s of %s is decided, but EndTxn has not succeeded for %d of %d transactions "
        "(errors: %s; for example, transaction %s). It is retried until it succeeds",
        decided.batch,
        scope_client.scope,
        len(waiting),
        len(decided.transactions),
        ", ".join(f"{name} ({count})" for name, count in errors.most_common()),
        next(iter(waiting)),
    )


def _is_unsettled(code: int) -> bool:
    return commit_outcome(code) is EndOutcome.RETRY


def _is_rejection(code: int) -> bool:
    return commit_outcome(code) is EndOutcome.FAILED


def _descriptions(
    scope_client: ScopeClient, names: list[str], deadline: float | None
) -> Mapping[str, TransactionDescription]:
    """Return the descriptions of transactions that may be lost; empty if unavailable."""
    limit = scope_client.client.deadline(REPORT_S)
    try:
        return (
            scope_client.describe(names, limit if deadline is None else min(limit, deadline)) or {}
        )
    except KafkaProdError as error:
        _LOG.warning("the outcome of %s is unknown: %s", plural(len(names), "transaction"), error)
        return {}


def roll_forward(
    scope_client: ScopeClient,
    owner: OpenTransaction,
    decided: DecidedBatch,
    caller: decision_rules.Caller | None,
    recorded_fates: tuple[Fate, ...],
) -> OpenTransaction:
    """Commit the decision of an earlier driver, and record that the batch is done.

    Args:
        scope_client: the operations of the scope.
        owner: the driver at its epoch.
        decided: the decision, as read from the log in this epoch.
        caller: may continue after a torn batch if it sets resetTransactionalState; None to raise an
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
    scope_client.restart()
    if fates and caller is not None and decision_rules.takes_over(decided, caller):
        _LOG.warning("%s", torn_error(scope_client.scope, decided, fates))
        return owner
    if fates:
        append_torn(scope_client, owner, decided, fates, recorded_fates)
        raise torn_error(scope_client.scope, decided, fates)
    done = DecisionRecord.done(decided, scope_client.client.wall_ms())
    return scope_client.append(owner, done, "done", APPEND_S)


def append_done(
    scope_client: ScopeClient, owner: OpenTransaction, record: DecisionRecord | None
) -> None:
    """Record in the log that our own decision is committed.

    The batch is already visible, so it does not matter if this call fails or a newer driver has
    fenced this one. The next driver finds all transactions committed.
    """
    try:
        scope_client.append(owner, record, "done", APPEND_S)
    except FencedError as error:
        _LOG.warning("the batch is committed, but a newer driver has fenced this one: %s", error)
    except KafkaProdError as error:
        _LOG.warning(
            "the batch is committed, but this cannot be recorded in the decision log: %s", error
        )


def append_torn(
    scope_client: ScopeClient,
    owner: OpenTransaction,
    decided: DecidedBatch,
    fates: tuple[Fate, ...],
    recorded_fates: tuple[Fate, ...] = (),
) -> None:
    """Record the fate of each transaction in the log while the brokers can still report it."""
    if fates == recorded_fates:
        return
    torn = DecisionRecord.of(decided, scope_client.client.wall_ms(), fates)
    try:
        scope_client.append(owner, torn, "torn", APPEND_S)
    except KafkaProdError as error:
        _LOG.warning("the torn batch cannot be recorded in the decision log: %s", error)


def recover_scope(
    scope_client: ScopeClient, ignores_loss: Callable[[DecidedBatch], bool], *, create: bool = False
) -> ScopeState:
    """Commit the decision in the log, and return the state of the scope.

    Nothing is fenced: the planning of a batch may run concurrently with the commit of the previous
    batch.

    Args:
        scope_client: the operations of the scope.
        ignores_loss: returns True to log a torn batch as a warning, instead of raising an error.
        create: create a missing decision log; see `ScopeClient.read`.

    Raises:
        TornTransactionError: rows of a decided batch are lost.
    """
    record = scope_client.read_unfenced(create=create).latest(scope_client.scope)
    state: ScopeState = decision_rules.Nothing() if record is None else record.state
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
    return decision_rules.finished(decided)


def recover_runs(scope_client: ScopeClient) -> None:
    """Finish the decisions of the prefix's earlier batch-job runs, and remove their records.

    A run with a decision may still be active: it is fenced once all its transactions are committed,
    when it only has to append its done record. A run with atomicBatch leaves a done record, which
    its own abort() needs; that record is retained for `RUN_KEPT_MS`.

    The call takes at most max.block.ms; decisions that it cannot finish are logged and do not fail
    the caller.
    """
    records = scope_client.read(create=True)
    decided, finished = _other_runs(scope_client, records)
    deadline = scope_client.client.deadline(scope_client.max_block_s)
    if decided:
        # The remaining time is for appending to the log.
        commit_deadline = scope_client.client.deadline(scope_client.max_block_s * 0.75)
        for scope, result in commit_others(scope_client, decided, commit_deadline).items():
            _append_run_outcome(
                scope_client.for_scope(scope, deadline), records, decided[scope], result
            )
    for scope in finished:
        if scope_client.client.now() < deadline:
            _remove_run(scope_client.for_scope(scope, deadline), records)
    scope_client.restart()


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
        if isinstance(record.state, decision_rules.Decided):
            decided[scope] = record.state
        elif scope_client.client.wall_ms() - record.at_ms > RUN_KEPT_MS:
            finished.append(scope)
    return decided, finished


def _remove_run(scope_client: ScopeClient, records: DecisionRecords) -> None:
    """Remove the record of a finished run from the log; failures are only logged."""
    scope_client.remember_chunks(records)
    try:
        scope_client.append(scope_client.fence(), None, "forget")
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
        _LOG.warning("%s", _unfinished(scope_client, decided, result))
        return
    scope_client.remember_chunks(records)
    torn = DecisionRecord.of(decided, scope_client.client.wall_ms(), result) if result else None
    try:
        scope_client.append(scope_client.fence(), torn, "done")
    except KafkaProdError as error:
        _LOG.warning(
            "%s is finished, but this cannot be recorded in the decision log: %s",
            scope_client.scope,
            error,
        )
        return
    if result:
        _LOG.error("%s", torn_error(scope_client.scope, decided, result))


def _unfinished(scope_client: ScopeClient, decided: DecidedBatch, error: KafkaProdError) -> str:
    """Return a message about another run's unfinished decision, and how to retry it."""
    names = [transaction.transactional_id for transaction in decided.transactions]
    others = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    servers = ",".join(scope_client.client.config.bootstrap_servers)
    return (
        f"{scope_client.scope} was decided but could not be finished: {error}. Its transactions "
        f"{', '.join(names[:_MAX_LISTED])}{others} block read_committed readers, and their "
        "rows are lost if they time out. To retry, write another batch with this "
        "transactionalIdPrefix, or run `kafkaprod transactions commit --prefix "
        f"{scope_client.scope.prefix} --bootstrap-servers {servers}`; `kafkaprod transactions "
        "list` shows open transactions"
    )
