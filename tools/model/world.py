"""State of the model: immutable and hashable, so that each state is visited once."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import NamedTuple

from spark_kafka_sink.exactly_once.protocol import Decided, Done, LogState, Nothing


class Status(StrEnum):
    """Status of a task's transaction at its coordinator."""

    OPEN = "open"
    EMPTY = "empty"
    """InitProducerId, and no record."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    """By EndTxn."""
    TIMED_OUT = "timed out"
    FENCED = "fenced"
    """By another InitProducerId with the same id."""


class Transaction(NamedTuple):
    """Transaction of a task; `name` is its transactional ID."""

    name: str
    query: str | None
    batch: str
    nonce: str
    partition: int

    @property
    def transactional_id(self) -> str:
        """The transactional ID, under the name that the product's decisions use."""
        return self.name


@cache
def transaction(
    query: str | None, batch: str, nonce: str, partition: int, tail: str
) -> Transaction:
    """Return the transaction of an attempt; `tail` distinguishes it within its partition."""
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
    ABORT_OURS = "abort: abort ours"
    FINISHED = "all batches are done"
    TORN = "stopped: torn"


ENDED = frozenset({Pc.FINISHED, Pc.TORN})

State = LogState[Transaction]


class Driver(NamedTuple):
    """A driver process, which runs one batch after another."""

    pc: Pc = Pc.DOWN
    batch: int = 0
    nonce: str = ""
    """Of its newest planning: d1.0 is the first driver's."""
    run: str = ""
    """Of the query, where it has a function for foreachBatch; each start has another."""
    seen: State | None = None
    """The log as it was read last."""
    first: State | None = None
    """The log as it was read behind the fence, where that was old, until the next append."""
    unclear: bool = False
    """An append of this commit() got no answer."""
    messages: tuple[Transaction | None, ...] = ()
    """Of the tasks that have returned, in order; None: no transaction."""
    decided: Decided[Transaction] | None = None
    """What is being carried out."""
    rolling: bool = False
    """`decided` was found in the log, and not made by this call."""
    todo: tuple[Transaction, ...] = ()
    """To be ended next."""
    complete: bool = False
    """For abort(): every task had returned."""
    ghost: bool = False
    """A commit() that goes on alone: its driver has been told that it has raised."""

    @property
    def ours(self) -> tuple[Transaction, ...]:
        """The transactions in the tasks' messages."""
        return tuple([each for each in self.messages if each is not None])


class Budget(NamedTuple):
    """Remaining number of each fault."""

    crashes: tuple[int, ...]
    """Of each driver, or of its commit process."""
    lost: tuple[int, ...]
    """Attempts of each partition's task, while another attempt runs."""
    timeouts: int
    """transaction.timeout.ms of a task's transaction."""
    unclear: int
    """Appends to the decision log that get no answer."""
    stale: int
    """Reads of the decision log from a leader that was deposed, and lacks the last record."""
    interrupts: int
    """A commit() that goes on while its driver calls abort() already."""
    failures: int
    """Tasks that fail for good."""


class World(NamedTuple):
    """The complete state."""

    log: State
    """The decision log's last record of the scope."""
    before: State | None
    """The record before it, as long as somebody may read no further."""
    holder: int | None
    """The driver in the newest epoch of the scope's transactional id, while that matters to it."""
    transactions: tuple[tuple[Transaction, Status], ...]
    visible: tuple[tuple[str | None, str, int], ...]
    """(query, batch, partition) of each committed transaction: what a reader sees."""
    spark: tuple[int, ...]
    """How many batches are in the commit log of each checkpoint."""
    zombies: tuple[Transaction, ...]
    """Attempts that are paused before InitProducerId."""
    drivers: tuple[Driver, ...]
    budget: Budget


def with_driver(world: World, index: int, driver: Driver) -> World:
    """Return the world with one driver replaced."""
    drivers = world.drivers
    return world._replace(drivers=(*drivers[:index], driver, *drivers[index + 1 :]))


def with_log(world: World, log: State) -> World:
    """Return the world with a record appended to the log."""
    return world._replace(log=log, before=world.log if world.budget.stale else None)


def describe_log(state: State) -> str:
    """Return the state of the log as text, for traces."""
    if isinstance(state, Nothing):
        return f"nothing{_marks(state)}"
    if isinstance(state, Done):
        return f"done {state.query or 'job'}/{state.batch}{_marks(state)}"
    return f"decided {' + '.join(sorted(state.transactional_ids)) or state.batch}"


def _marks(state: Nothing | Done) -> str:
    return f", given up {' '.join(state.given_up)}" if state.given_up else ""
