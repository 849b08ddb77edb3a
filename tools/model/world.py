"""The state of the model, which is hashable so that each state is visited only once."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import NamedTuple

from spark_kafka_sink.exactly_once.protocol import Decided, Done, LogState, Nothing


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


class Transaction(NamedTuple):
    """The transaction of a task attempt; `name` is its transactional ID."""

    name: str
    query: str | None
    batch: str
    nonce: str
    partition: int

    @property
    def transactional_id(self) -> str:
        """The transactional ID, under the name that the product's decision functions use."""
        return self.name


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
    ABORT_OURS = "abort: abort ours"
    FINISHED = "all batches are done"
    TORN = "stopped: torn"


ENDED = frozenset({Pc.FINISHED, Pc.TORN})

State = LogState[Transaction]


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
    ghost: bool = False
    """True for a commit() that continues although it has raised in its driver."""

    @property
    def ours(self) -> tuple[Transaction, ...]:
        """The transactions in the tasks' messages."""
        return tuple([each for each in self.messages if each is not None])

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
    """The driver with the newest epoch of the scope's transactional ID, while it can append."""
    transactions: tuple[tuple[Transaction, Status], ...] = ()
    visible: tuple[tuple[str | None, str, int], ...] = ()
    """(query, batch, partition) of each committed transaction, whose rows are visible."""
    zombies: tuple[Transaction, ...] = ()
    """Attempts that are paused before InitProducerId."""


def describe_log(state: State) -> str:
    """Return a text that describes the state of the log, for traces."""
    if isinstance(state, Nothing):
        return f"nothing{_marks(state)}"
    if isinstance(state, Done):
        return f"done {state.query or 'job'}/{state.batch}{_marks(state)}"
    return f"decided {' + '.join(sorted(state.transactional_ids)) or state.batch}"


def _marks(state: Nothing | Done) -> str:
    return f", given up {' '.join(state.given_up)}" if state.given_up else ""
