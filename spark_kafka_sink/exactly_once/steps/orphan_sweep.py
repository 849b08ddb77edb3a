"""Aborting what nobody can ever decide, so that it does not hold back readers until it times out.

All of this is best effort: a batch is neither lost nor doubled by what is left open.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import KafkaProdError, ProtocolError
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.exactly_once.end_outcome import is_ended
from spark_kafka_sink.exactly_once.orphans import Candidate, is_orphan
from spark_kafka_sink.exactly_once.transactional_id import parse_task_id, tasks_pattern
from spark_kafka_sink.protocol.error_codes import error_name
from spark_kafka_sink.protocol.transaction_state import TransactionState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from spark_kafka_sink.exactly_once.log.decision import ScopeState
    from spark_kafka_sink.exactly_once.steps.driver import Driver
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction

SECONDS: Final = 15.0
"""How long each of the requests may take."""
_LOG = logging.getLogger(__name__)


def abort_ours(driver: Driver, tasks: Iterable[TaskTransaction], allowed: Collection[str]) -> int:
    """Abort those of our tasks' transactions that are allowed; how many are no longer open."""
    transactions = [each.transaction for each in tasks if each.transactional_id in allowed]
    if not transactions:
        return 0
    with driver.watch.step("abort"):
        deadline = driver.client.deadline(SECONDS)
        try:
            return _ended(driver.admin.end(transactions, commit=False, deadline=deadline))
        except KafkaProdError as error:
            _LOG.warning(
                "left to time out: %s: %s", plural(len(transactions), "transaction"), error
            )
            return 0


def abort_orphans(driver: Driver, state: ScopeState, given_up: frozenset[str] = frozenset()) -> int:
    """Abort the scope's open transactions that are orphans; how many that were.

    Args:
        driver: of the scope.
        state: the log's, read before.
        given_up: nonces of plannings that won't be decided.
    """
    with driver.watch.step("orphans"):
        try:
            orphans = [name for name in _open(driver) if _is_orphan(state, name, given_up)]
            if not orphans:
                return 0
            return _ended(driver.admin.fence(orphans, driver.client.deadline(SECONDS)))
        except ProtocolError as error:
            _LOG.debug("transactions of lost attempts can't be listed: %s", error)
        except KafkaProdError as error:
            _LOG.warning("transactions of lost attempts are left to time out: %s", error)
        return 0


def nonces_of(tasks: Iterable[TaskTransaction]) -> frozenset[str]:
    """The nonces of the plannings that these transactions are of."""
    parsed = (parse_task_id(each.transactional_id) for each in tasks)
    return frozenset(each.nonce for each in parsed if each is not None)


def _open(driver: Driver) -> list[str]:
    """The ids of the scope's transactions that somebody has to end."""
    pattern = tasks_pattern(driver.scope)
    listed = driver.admin.list(
        pattern, driver.client.deadline(SECONDS), (TransactionState.ONGOING,)
    )
    return [each.transactional_id for each in listed]


def _is_orphan(state: ScopeState, name: str, given_up: frozenset[str]) -> bool:
    parsed = parse_task_id(name)
    if parsed is None:
        return False
    candidate = Candidate(
        transactional_id=name, query=parsed.query_id, batch=parsed.batch, nonce=parsed.nonce
    )
    return is_orphan(state, candidate, given_up=given_up)


def _ended(codes: Mapping[str, int]) -> int:
    open_still = {name: error_name(code) for name, code in codes.items() if not is_ended(code)}
    if open_still:
        name, error = next(iter(open_still.items()))
        _LOG.warning(
            "%s could not be aborted, and will time out, such as %s: %s",
            plural(len(open_still), "transaction"),
            name,
            error,
        )
    return len(codes) - len(open_still)
