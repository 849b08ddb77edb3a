"""End the transactions of decided batches, and record how each of them ended."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.common.text import listed, plural
from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, end_txn_outcome
from spark_kafka_sink.exactly_once.decision_record import DecidedBatch, DecisionRecord, Fate
from spark_kafka_sink.exactly_once.steps.fates import FateReader, fates_from_codes
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, error_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
    from spark_kafka_sink.exactly_once.transactional_id import Scope
    from spark_kafka_sink.kafka.admin.transaction_description import TransactionDescription
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer

_PENDING_LOG_INTERVAL_S = 5.0
"""Seconds between log messages about pending EndTxn requests, and the time limit in seconds for
describing the transactions.
"""
APPEND_TIMEOUT_S = 30.0
"""Time limit in seconds for appending the outcome of a decision; max.block.ms may be shorter."""
_LOG = logging.getLogger(__name__)


def commit_decision(scope_client: ScopeClient, decided: DecidedBatch) -> tuple[Fate, ...]:
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
    return _resolve_fates(scope_client, decided, _commit_all(scope_client, decided))


def final_fates(
    scope_client: ScopeClient, decided: DecidedBatch, recorded_fates: tuple[Fate, ...]
) -> tuple[Fate, ...]:
    """Return the fates as `commit_decision` does; `recorded_fates` are those in the decision log.

    A transaction whose fate was unknown may have been committed: its topic could not be read then.
    """
    if recorded_fates and Fate.UNKNOWN not in recorded_fates:
        return recorded_fates
    fates = commit_decision(scope_client, decided)
    if recorded_fates and fates:
        fates = tuple(
            earlier if fate is Fate.UNKNOWN else fate
            for earlier, fate in zip(recorded_fates, fates, strict=True)
        )
    return fates if any(fate is not Fate.COMMITTED for fate in fates) else ()


def commit_other_scopes(
    scope_client: ScopeClient, batches: Mapping[Scope, DecidedBatch], deadline: float
) -> dict[Scope, tuple[Fate, ...] | KafkaProdError]:
    """Commit the decisions of other scopes concurrently, so that no scope waits for another.

    Args:
        scope_client: the operations of any scope.
        batches: the decided batch of each scope.
        deadline: time limit in seconds of the client's clock. EndTxn requests may take half of this
            time; the rest is used to determine the fates of lost transactions.

    Returns:
        The result of `commit_decision`, or the error, for each scope.
    """
    transactions = [
        transaction.transaction for batch in batches.values() for transaction in batch.transactions
    ]
    now = scope_client.timer.now()
    codes = scope_client.commit(transactions, now + (deadline - now) / 2)
    return {
        scope: _scope_result(scope_client, decided, codes, deadline)
        for scope, decided in batches.items()
    }


def _scope_result(
    scope_client: ScopeClient, decided: DecidedBatch, codes: Mapping[str, int], deadline: float
) -> tuple[Fate, ...] | KafkaProdError:
    """Return one scope's result, given the EndTxn error codes of all scopes."""
    scope_codes = {
        transaction.transactional_id: codes[transaction.transactional_id]
        for transaction in decided.transactions
    }
    waiting = {name: code for name, code in scope_codes.items() if _is_unfinished(code)}
    if waiting:
        return scope_client.client.unavailable_error(
            f"EndTxn of {listed([*waiting], 1)}", next(iter(waiting.values()))
        )
    try:
        fates = _resolve_fates(scope_client, decided, scope_codes, deadline)
    except KafkaProdError as error:
        return error
    if Fate.UNKNOWN in fates and scope_client.timer.now() >= deadline:
        return scope_client.client.unavailable_error(
            "reading the fates of transactions from the topics"
        )
    return fates


def _resolve_fates(
    scope_client: ScopeClient,
    decided: DecidedBatch,
    codes: Mapping[str, int],
    deadline: float | None = None,
) -> tuple[Fate, ...]:
    """Return the fates as `commit_decision` does; `codes` are final."""
    for name, code in codes.items():
        if end_txn_outcome(code) is EndOutcome.FAILED:
            action = "EndTxn of a decided transaction,"
            raise scope_client.admin.rejection(action, name, code)
    unclear = [name for name, code in codes.items() if code]
    if not unclear:
        return ()
    fates = fates_from_codes(decided, codes, _describe_lost(scope_client, unclear, deadline))
    fates = FateReader(scope_client.client, deadline).resolve_unknown(decided, fates)
    return fates if any(fate is not Fate.COMMITTED for fate in fates) else ()


def _commit_all(scope_client: ScopeClient, decided: DecidedBatch) -> dict[str, int]:
    """Commit all transactions, and return the final error code for each transactional id."""
    waiting = {
        transaction.transactional_id: transaction.transaction
        for transaction in decided.transactions
    }
    codes: dict[str, int] = dict.fromkeys(waiting, int(ClientErrorCode.not_sent))
    is_failing = False
    while waiting:
        deadline = scope_client.timer.now() + _PENDING_LOG_INTERVAL_S
        try:
            responses = scope_client.commit(list(waiting.values()), deadline)
        except KafkaProdError as error:
            is_overdue = is_failing and scope_client.timer.is_overdue
            if is_overdue or scope_client.client.failures.fatal is None:
                raise
            if not is_failing:
                scope_client.timer.restart()
            is_failing = True
            scope_client.client.failures.clear()
            _LOG.warning(
                "batch %s of %s is decided, but the login fails; the login is retried: %s",
                decided.batch,
                scope_client.scope,
                error,
            )
            continue
        codes |= responses
        for name, code in responses.items():
            if not _is_unfinished(code):
                del waiting[name]
                is_failing = False
        if waiting:
            _log_pending(scope_client, decided, {name: codes[name] for name in waiting})
    return codes


def _log_pending(
    scope_client: ScopeClient, decided: DecidedBatch, waiting: Mapping[str, int]
) -> None:
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


def _is_unfinished(code: int) -> bool:
    return end_txn_outcome(code) is EndOutcome.RETRY


def _describe_lost(
    scope_client: ScopeClient, names: list[str], deadline: float | None
) -> Mapping[str, TransactionDescription]:
    """Return the descriptions of transactions that may be lost; empty if unavailable."""
    limit = scope_client.timer.now() + _PENDING_LOG_INTERVAL_S
    try:
        return (
            scope_client.describe(names, limit if deadline is None else min(limit, deadline)) or {}
        )
    except KafkaProdError as error:
        _LOG.warning("the fate of %s is unknown: %s", plural(len(names), "transaction"), error)
        return {}


def append_done(
    scope_client: ScopeClient, owner: TransactionalProducer, record: DecisionRecord | None
) -> None:
    """Record in the log that our own decision is committed.

    The batch is already visible, so it does not matter if this call fails or a newer driver has
    fenced this one. The next driver finds all transactions committed.
    """
    try:
        scope_client.log.append(owner, record, APPEND_TIMEOUT_S)
    except KafkaProdError as error:  # Its hint is to run the write again.
        _LOG.warning(
            "the batch is committed, but this cannot be recorded in the decision log: %s",
            error.message,
        )


def append_torn(
    scope_client: ScopeClient,
    owner: TransactionalProducer,
    decided: DecidedBatch,
    fates: tuple[Fate, ...],
    recorded_fates: tuple[Fate, ...] = (),
) -> None:
    """Record the fate of each transaction in the log while the brokers can still report it."""
    if fates == recorded_fates:
        return
    torn = DecisionRecord.of(decided, scope_client.timer.wall_ms(), fates)
    try:
        scope_client.log.append(owner, torn, APPEND_TIMEOUT_S)
    except KafkaProdError as error:
        _LOG.warning("the torn batch cannot be recorded in the decision log: %s", error)
