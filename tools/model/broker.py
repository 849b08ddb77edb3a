"""Model of the broker's part of the protocol: the state that transaction coordinators keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.protocol import Decided
from spark_kafka_sink.protocol.error_codes import ErrorCode
from tools.model.scenario import Version
from tools.model.world import Status, Transaction, World

if TYPE_CHECKING:
    from collections.abc import Iterable

UNFINISHED = frozenset({Status.OPEN, Status.EMPTY})
_ANSWERS = {
    Status.OPEN: ErrorCode.none,
    Status.EMPTY: ErrorCode.invalid_txn_state,
    Status.COMMITTED: ErrorCode.none,
    Status.ABORTED: ErrorCode.invalid_txn_state,
    Status.FENCED: ErrorCode.producer_fenced,
}
_TIMED_OUT = {Version.V1: ErrorCode.producer_fenced, Version.V2: ErrorCode.invalid_txn_state}


def status_of(world: World, transaction: Transaction) -> Status:
    """Return the status of a transaction."""
    for each, status in world.transactions:
        if each == transaction:
            return status
    raise KeyError(transaction)


def begin(world: World, transaction: Transaction, status: Status) -> World:
    """Handle InitProducerId and set the transaction's status; unless EMPTY, records are written."""
    if any(each == transaction for each, _ in world.transactions):
        return _set(world, transaction, Status.FENCED)
    return world._replace(transactions=tuple(sorted((*world.transactions, (transaction, status)))))


def commit(world: World, transaction: Transaction, version: Version) -> tuple[World, int]:
    """Handle EndTxn(commit); return the new world and the error code of the response."""
    status = status_of(world, transaction)
    if status is Status.TIMED_OUT:
        return world, _TIMED_OUT[version]
    if status is Status.OPEN:
        seen = (transaction.query, transaction.batch, transaction.partition)
        world = _set(world, transaction, Status.COMMITTED)
        world = world._replace(visible=tuple(sorted((*world.visible, seen), key=str)))
    return world, _ANSWERS[status]


def abort(world: World, transactions: Iterable[Transaction]) -> World:
    """Handle EndTxn(abort) for transactions; those that are not open are unchanged."""
    for each in transactions:
        if status_of(world, each) in UNFINISHED:
            world = _set(world, each, Status.ABORTED)
    return world


def time_out(world: World, transaction: Transaction) -> World:
    """Abort a transaction because its timeout has passed."""
    return _set(world, transaction, Status.TIMED_OUT)


def awaited(world: World) -> set[Transaction]:
    """Return the transactions that are or might still become part of a decision."""
    known: set[Transaction] = set()
    seen = [state for driver in world.drivers for state in (driver.seen, driver.first)]
    for state in (world.log, world.before, *seen):
        if isinstance(state, Decided):
            known.update(state.transactions)
    for driver in world.drivers:
        known.update(driver.ours)
        known.update(driver.todo)
        if driver.decided is not None:
            known.update(driver.decided.transactions)
    return known


def _set(world: World, transaction: Transaction, status: Status) -> World:
    changed = tuple(
        [(each, status if each == transaction else old) for each, old in world.transactions]
    )
    return world._replace(transactions=changed)
