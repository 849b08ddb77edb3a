"""Find and abort orphans, so that they do not block readers until they time out.

If an abort fails, transactions stay open, but no batch is lost or duplicated.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.common.logs import warn_once
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.exactly_once.orphan_rules import OrphanCandidate, is_orphan
from spark_kafka_sink.exactly_once.scope_state import NoDecision
from spark_kafka_sink.exactly_once.steps.scope_client import ABORT_TIMEOUT_S
from spark_kafka_sink.exactly_once.transactional_id import tasks_pattern
from spark_kafka_sink.kafka.protocol.error_codes import TRANSACTION_ENDED, error_name
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from spark_kafka_sink.kafka.protocol.versions import UnsupportedApiError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from spark_kafka_sink.exactly_once.decision_record import ScopeState
    from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortResult:
    """The result of an attempt to abort transactions."""

    ended: frozenset[str] = frozenset()
    """Transactional ids whose transaction has ended."""
    left_open: frozenset[str] = frozenset()
    """Transactional ids whose transaction might still be open."""
    problem: str = ""
    """Why other transactions, with unknown ids, might be open; empty if no others can be open."""

    def __add__(self, later: AbortResult) -> AbortResult:
        """Combine the results of two attempts."""
        ended = self.ended | later.ended
        return AbortResult(
            ended=ended,
            left_open=(self.left_open | later.left_open) - ended,
            problem=later.problem or self.problem,
        )


def abort_own(
    scope_client: ScopeClient, tasks: Iterable[TaskTransaction], allowed: Collection[str]
) -> AbortResult:
    """Abort the tasks' transactions whose ids are in `allowed`."""
    transactions = [task.transaction for task in tasks if task.transactional_id in allowed]
    if not transactions:
        return AbortResult()
    try:
        deadline = scope_client.timer.deadline_in(ABORT_TIMEOUT_S)
        return _abort_result(scope_client.admin.end(transactions, commit=False, deadline=deadline))
    except KafkaProdError as error:
        _LOG.warning(
            "%s could not be aborted and may block readers: %s",
            plural(len(transactions), "transaction"),
            error,
        )
        return AbortResult(
            left_open=frozenset(transaction.transactional_id for transaction in transactions)
        )


def abort_orphans(
    scope_client: ScopeClient, state: ScopeState, given_up_nonces: frozenset[str] = frozenset()
) -> AbortResult:
    """Abort the scope's open transactions that are orphans.

    Args:
        scope_client: the operations of the scope.
        state: state of the log, already read.
        given_up_nonces: nonces of plannings that will not be decided.
    """
    try:
        scope_client.create_abort_flags(given_up_nonces)
    except KafkaProdError as error:
        _LOG.warning("delayed tasks may still begin transactions: %s", error)
        return abort_listed_orphans(scope_client, state, given_up_nonces) + AbortResult(
            problem=error.message
        )
    return abort_listed_orphans(scope_client, state, given_up_nonces)


def abort_listed_orphans(
    scope_client: ScopeClient, state: ScopeState, given_up_nonces: frozenset[str]
) -> AbortResult:
    """Abort orphans until no more are listed.

    One listing is not enough, because coordinators may move while the transactions are listed.
    """
    aborted = AbortResult()
    try:
        while (
            orphans := _orphan_ids(scope_client, state, given_up_nonces)
            - aborted.ended
            - aborted.left_open
        ):
            deadline = scope_client.timer.deadline_in(ABORT_TIMEOUT_S)
            aborted += _abort_result(scope_client.admin.fence(orphans, deadline))
    except UnsupportedApiError as error:
        _LOG.debug("transactions of lost attempts cannot be listed: %s", error)
        return aborted + AbortResult(problem="brokers before Kafka 3.0 do not list transactions")
    except KafkaProdError as error:
        _LOG.warning(
            "transactions of lost attempts could not be aborted and may block readers: %s", error
        )
        return aborted + AbortResult(problem=error.message)
    return aborted


def _orphan_ids(
    scope_client: ScopeClient, state: ScopeState, given_up_nonces: frozenset[str]
) -> frozenset[str]:
    """Return the ids of the scope's transactions that must be aborted.

    A producer id without a transaction (EMPTY) is included if its planning is given up, because its
    task could still begin a transaction.
    """
    states = (TransactionState.ONGOING, *((TransactionState.EMPTY,) if given_up_nonces else ()))
    pattern = tasks_pattern(scope_client.scope)
    deadline = scope_client.timer.deadline_in(ABORT_TIMEOUT_S)
    tasks = [
        task
        for listing in scope_client.admin.list(pattern, deadline, states)
        if (task := OrphanCandidate.of(listing.transactional_id)) is not None
        # The brokers have applied the states, but Redpanda lists its own names for them.
        and (listing.state is not TransactionState.EMPTY or task.nonce in given_up_nonces)
    ]
    orphans = {task for task in tasks if is_orphan(state, task, given_up_nonces=given_up_nonces)}
    _warn_of_others(scope_client, state, set(tasks) - orphans)
    return frozenset(task.transactional_id for task in orphans)


def _warn_of_others(
    scope_client: ScopeClient, state: ScopeState, tasks: Iterable[OrphanCandidate]
) -> None:
    """Warn of open transactions of other queries, which this driver must not abort."""
    if isinstance(state, NoDecision):
        return
    transactional_ids = [
        task.transactional_id for task in tasks if task.query_id not in {None, state.query_id}
    ]
    if transactional_ids:
        warn_once(
            _LOG,
            "transactions of another query of %s are open and may block readers, for example %s. "
            "If no other query with the prefix is running, stop this query and end them with "
            "`kafkaprod transactions abort --undecided`",
            str(scope_client.scope),
            min(transactional_ids),
        )


def _abort_result(codes: Mapping[str, int]) -> AbortResult:
    still_open = {
        name: error_name(code) for name, code in codes.items() if code not in TRANSACTION_ENDED
    }
    if still_open:
        name, error = next(iter(still_open.items()))
        _LOG.warning(
            "%s could not be aborted and may block readers, for example %s: %s",
            plural(len(still_open), "transaction"),
            name,
            error,
        )
    return AbortResult(ended=frozenset(codes.keys() - still_open), left_open=frozenset(still_open))
