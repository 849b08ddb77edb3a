"""The state of the model, which is hashable so that each state is visited only once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from functools import cache
from typing import NamedTuple, TypeVar

from spark_kafka_sink.exactly_once.scope_state import (
    Decided,
    Done,
    NoDecision,
    Planning,
    ScopeStateOf,
)
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

T = TypeVar("T")


class Status(StrEnum):
    """The status of a task's transaction at its coordinator."""

    OPEN = "open"
    EMPTY = "empty"
    """InitProducerId succeeded; no record has been written."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    """Aborted by EndTxn."""
    TIMED_OUT = "timed out"
    FENCED = "fenced"
    """Fenced by a later InitProducerId with the same ID."""


UNFINISHED = frozenset({Status.OPEN, Status.EMPTY})
_RESPONSES = {
    Status.OPEN: ErrorCode.none,
    Status.EMPTY: ErrorCode.invalid_txn_state,
    Status.COMMITTED: ErrorCode.none,
    Status.ABORTED: ErrorCode.invalid_txn_state,
    Status.FENCED: ErrorCode.producer_fenced,
}


class Version(StrEnum):
    """The version of the transaction protocol, which determines the coordinator's responses."""

    V1 = "transactions V1"
    V2 = "transactions V2"


_TIMED_OUT = {Version.V1: ErrorCode.producer_fenced, Version.V2: ErrorCode.invalid_txn_state}


class Transaction(NamedTuple):
    """The transaction of a task attempt; `name` is its transactional id."""

    name: str
    query: str | None
    batch: str
    nonce: str
    partition: int

    @property
    def transactional_id(self) -> str:
        """The transactional id, under the name that the product's decision functions use."""
        return self.name


State = ScopeStateOf[Transaction]


@cache
def transaction(
    query: str | None, batch: str, nonce: str, partition: int, tail: str
) -> Transaction:
    """Return the transaction of an attempt; `tail` distinguishes attempts of a partition."""
    name = f"{query or 'job'}/{batch}/{nonce}/p{partition}{tail}"
    return Transaction(name, query, batch, nonce, partition)


class Pc(StrEnum):
    """The next step of a driver."""

    DOWN = "not running"
    PLAN_READ = "plan: read the log"
    PLAN_END = "plan: roll forward"
    TASKS = "run the tasks"
    COMMIT_FIRST = "commit: first step"
    COMMIT_SECOND = "commit: second step"
    APPEND = "commit: append the decision"
    END = "commit: end decided transactions"
    ROLL = "commit: roll forward"
    DONE = "commit: append done"
    FOUND = "commit: append that the batch was found"
    LIST = "commit: list orphans"
    SWEEP = "commit: abort orphans"
    SPARK_LOG = "write Spark's commit log"
    RAISED = "commit has raised"
    ABORT_LOOK = "abort: read the log, without a fence"
    ABORT_FINISH = "abort: roll forward, without a fence"
    ABORT_READ = "abort: read the log"
    ABORT_END = "abort: roll forward"
    ABORT_DONE = "abort: append done"
    GIVE_UP = "abort: mark what is given up"
    ABORT_TASKS = "abort: abort the tasks"
    FINISHED = "all batches are done"
    TORN = "stopped: torn"


ENDED = frozenset({Pc.FINISHED, Pc.TORN})
_IN_EPOCH = frozenset(
    {
        Pc.COMMIT_FIRST,
        Pc.COMMIT_SECOND,
        Pc.APPEND,
        Pc.ROLL,
        Pc.END,
        Pc.DONE,
        Pc.FOUND,
        Pc.ABORT_READ,
        Pc.ABORT_END,
        Pc.ABORT_DONE,
        Pc.GIVE_UP,
    }
)
"""Steps at which a driver can still append with its epoch."""


class Driver(NamedTuple):
    """A driver process, which runs one batch after the other."""

    pc: Pc = Pc.DOWN
    batch: int = 0
    nonce: str = ""
    """The nonce of the latest planning, such as d1.0 for the first planning of driver 1."""
    run: str = ""
    """The run ID of a query with a foreachBatch function, which is new at each start."""
    seen: State | None = None
    """The state of the log at the last read."""
    first: State | None = None
    """The state of the log if the read after InitProducerId was stale, until the next append."""
    unclear: bool = False
    """True if an append of this commit() had no response."""
    messages: tuple[Transaction | None, ...] = ()
    """The messages of the completed tasks, in order; None if a task has no transaction."""
    decided: Decided[Transaction] | None = None
    """The decision in progress."""
    rolling: bool = False
    """True if `decided` was found in the log, False if this commit() made the decision."""
    todo: tuple[Transaction, ...] = ()
    """The transactions that are still to be ended."""
    complete: bool = False
    """True if all tasks had returned before abort()."""
    interrupted: bool = False
    """True for a commit() that continues although it has raised in its driver."""

    @property
    def ours(self) -> tuple[Transaction, ...]:
        """The transactions in the tasks' messages."""
        return tuple([message for message in self.messages if message is not None])

    def reset(self, pc: Pc) -> Driver:
        """Return the driver at a step, without the progress of commit()."""
        return self._replace(
            pc=pc, seen=None, first=None, unclear=False, decided=None, rolling=False, todo=()
        )


class Budget(NamedTuple):
    """The remaining number of faults of each type."""

    crashes: tuple[int, ...]
    """Crashes of each driver, or of its commit process."""
    lost: tuple[int, ...]
    """Lost attempts of each partition's task while another attempt runs."""
    timeouts: int
    """Task transactions that exceed transaction.timeout.ms."""
    unclear: int
    """Appends to the decision log without a response."""
    stale: int
    """Reads of the decision log from a former leader that lacks the last record."""
    interrupts: int
    """Calls of commit() that continue while the driver calls abort()."""
    failures: int
    """Permanent task failures."""


class World(NamedTuple):
    """The complete state of the model."""

    log: State
    """The last record for the scope in the decision log."""
    drivers: tuple[Driver, ...]
    budget: Budget
    spark: tuple[int, ...]
    """Number of batches in the commit log of each checkpoint."""
    before: State | None = None
    """The record before the last record, if stale reads are possible."""
    holder: int | None = None
    """The driver with the newest epoch of the scope's transactional id, while it can append."""
    transactions: tuple[tuple[Transaction, Status], ...] = ()
    visible: tuple[tuple[str | None, str, int], ...] = ()
    """(query, batch, partition) of each committed transaction, whose rows are visible."""
    lost_attempts: tuple[Transaction, ...] = ()
    """Attempts that are paused before InitProducerId."""

    # The requests to transaction coordinators.

    def status_of(self, transaction: Transaction) -> Status:
        """Return the status of a transaction."""
        return dict(self.transactions)[transaction]

    def begin(self, transaction: Transaction, status: Status) -> World:
        """Handle InitProducerId and set the status; unless EMPTY, records are written."""
        if any(existing == transaction for existing, _ in self.transactions):
            return self._set(transaction, Status.FENCED)
        return self._replace(
            transactions=tuple(sorted((*self.transactions, (transaction, status))))
        )

    def commit(self, transaction: Transaction, version: Version) -> tuple[World, int]:
        """Handle EndTxn(commit); return the new world and the error code of the response."""
        status = self.status_of(transaction)
        if status is Status.TIMED_OUT:
            return self, _TIMED_OUT[version]
        if status is not Status.OPEN:
            return self, _RESPONSES[status]
        seen = (transaction.query, transaction.batch, transaction.partition)
        world = self._set(transaction, Status.COMMITTED)
        visible = tuple(sorted((*world.visible, seen), key=str))
        return world._replace(visible=visible), _RESPONSES[status]

    def abort(self, transactions: Iterable[Transaction]) -> World:
        """Handle EndTxn(abort) for transactions; those that are not open are unchanged."""
        world = self
        for transaction in transactions:
            if world.status_of(transaction) in UNFINISHED:
                world = world._set(transaction, Status.ABORTED)
        return world

    def time_out(self, transaction: Transaction) -> World:
        """Abort a transaction because its timeout has passed."""
        return self._set(transaction, Status.TIMED_OUT)

    def _set(self, transaction: Transaction, status: Status) -> World:
        changed = [
            (existing, status if existing == transaction else old)
            for existing, old in self.transactions
        ]
        return self._replace(transactions=tuple(changed))

    # The parts that can affect later steps.

    @property
    def known(self) -> list[State | None]:
        """The states of the log that a driver can still use."""
        seen = [state for driver in self.drivers for state in (driver.seen, driver.first)]
        return [self.log, self.before, *seen]

    @property
    def awaited(self) -> set[Transaction]:
        """The transactions that are or might still become part of a decision."""
        states = [*self.known, *(driver.decided for driver in self.drivers)]
        decided = {
            transaction
            for state in states
            if isinstance(state, Decided)
            for transaction in state.transactions
        }
        return decided.union(*((*driver.ours, *driver.todo) for driver in self.drivers))

    @property
    def plannings(self) -> set[Planning]:
        """The plannings that are contained in records."""
        states = [*self.known, *(driver.decided for driver in self.drivers)]
        return {
            planning
            for state in states
            if isinstance(state, Decided | Done)
            for planning in state.plannings
        }


def describe_log(state: State) -> str:
    """Return a text that describes the state of the log, for traces."""
    if isinstance(state, NoDecision):
        return f"nothing{_marks(state)}"
    if isinstance(state, Done):
        return f"done {state.query_id or 'job'}/{state.batch}{_marks(state)}"
    return f"decided {' + '.join(sorted(state.transactional_ids)) or state.batch}"


def _marks(state: NoDecision | Done) -> str:
    return f", given up {' '.join(state.given_up_nonces)}" if state.given_up_nonces else ""


def normalised(world: World) -> World:
    """Return an equivalent world without unused epochs and marks and unreferenced transactions.

    A transaction that is not part of a message or a decision can no longer be committed. It only
    blocks readers until it is aborted.
    """
    if world.holder is not None and world.drivers[world.holder].pc not in _IN_EPOCH:
        world = world._replace(holder=None)
    if world.before is not None and not world.budget.stale:
        world = world._replace(before=None)
    world = _without_dead_plannings(_without_dead_marks(world))
    known = world.awaited
    if len(known) >= len(world.transactions):
        return world
    kept = tuple(
        [
            (transaction, status)
            for transaction, status in world.transactions
            if transaction in known
        ]
    )
    return world._replace(transactions=kept)


def _without_dead_marks(world: World) -> World:
    """Drop the marks with nonces that no driver has."""
    if not any(
        isinstance(state, NoDecision | Done) and state.given_up_nonces for state in world.known
    ):
        return world
    nonces = {driver.nonce for driver in world.drivers}
    drivers = tuple(
        [
            driver._replace(seen=_marked(driver.seen, nonces), first=_marked(driver.first, nonces))
            for driver in world.drivers
        ]
    )
    log = world.log if isinstance(world.log, Decided) else _unmarked(world.log, nonces)
    return world._replace(log=log, before=_marked(world.before, nonces), drivers=drivers)


def _without_dead_plannings(world: World) -> World:
    """Drop the plannings of runs that have no driver."""
    runs = {driver.run for driver in world.drivers}
    if all(planning.run_id in runs for planning in world.plannings):
        return world
    drivers = tuple(
        [
            driver._replace(
                seen=_of_runs(driver.seen, runs),
                first=_of_runs(driver.first, runs),
                decided=_of_runs(driver.decided, runs),
            )
            for driver in world.drivers
        ]
    )
    log, before = _of_runs(world.log, runs), _of_runs(world.before, runs)
    return world._replace(log=log, before=before, drivers=drivers)


def _of_runs(state: T, runs: set[str]) -> T:
    if not isinstance(state, Decided | Done):
        return state
    return replace(state, plannings=tuple(e for e in state.plannings if e.run_id in runs))


def _marked(state: State | None, nonces: set[str]) -> State | None:
    return state if state is None or isinstance(state, Decided) else _unmarked(state, nonces)


def _unmarked(state: NoDecision | Done, nonces: set[str]) -> NoDecision | Done:
    return replace(state, given_up_nonces=tuple(sorted(nonces.intersection(state.given_up_nonces))))
