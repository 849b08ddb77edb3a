"""The scenarios of the searches: start states and faults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from spark_kafka_sink.exactly_once.decision_rules import BatchWrite
from spark_kafka_sink.exactly_once.scope_state import NoDecision
from tools.model.model_state import Budget, Driver, Pc, Version, World

WRITE = "#"
"""Separator between a batchId and the number of a write in a foreachBatch function."""
TASKS = 2


class Goal(StrEnum):
    """A condition that must be reachable from every state that has no torn batch."""

    ALL = "every checkpoint has all of its batches"
    ANY = "some checkpoint has all of its batches"
    FIRST = "the first batch is visible"


@dataclass(frozen=True, kw_only=True)
class Runner:
    """The query or job of a driver. Drivers with the same `checkpoint` run the same query."""

    query: str | None = "q1"
    checkpoint: int = 0
    reset: bool = False
    starts: bool = True
    """False if the driver is only used for the interrupted commit() of another driver."""


ONE = (Runner(),)
_JOB = Runner(query=None, checkpoint=0)
QUERIES = (Runner(), Runner(query="q2", checkpoint=1))
INTERRUPTED = (Runner(), Runner(starts=False))
"""The second driver represents a commit() that continues although it has raised."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A scenario with two tasks per batch; `empty` contains (batch, partition) without rows."""

    name: str
    runners: tuple[Runner, ...] = (Runner(), Runner())
    batches: int = 2
    function: bool = False
    """True if the batches are sequential writes of a foreachBatch function with one batchId.

    They share a scope, and Spark's commit log contains all or none of them.
    """
    empty: frozenset[tuple[int, int]] = frozenset()
    version: Version = Version.V2
    goal: Goal = Goal.ALL
    crashes: int = 0
    lost: tuple[int, int] = (0, 0)
    timeouts: int = 0
    unclear: int = 0
    stale: int = 0
    interrupts: int = 0
    failures: int = 0

    def batch_write(self, runner: int, batch: int) -> BatchWrite:
        """Return the write of a driver that runs a batch."""
        who = self.runners[runner]
        return BatchWrite(
            query_id=who.query,
            batch=self.batch_name(runner, batch),
            resets_state=who.reset,
            is_single_batch=who.query is None or self.function,
        )

    def batch_name(self, runner: int, batch: int) -> str:
        """Return the batch number of a stream, or the batchId of a job."""
        single = self.function or self.runners[runner].query is None
        return "day" if single else str(batch)

    def rows_name(self, runner: int, batch: int) -> str:
        """Return a name for the rows of a batch, which is unique even if batches share a name."""
        name = self.batch_name(runner, batch)
        return f"{name}{WRITE}{batch}" if self.function else name

    def has_rows(self, batch: int, partition: int) -> bool:
        """Return True if the task of a partition has rows in a batch."""
        return (batch, partition) not in self.empty

    def start(self) -> World:
        """Return the start state."""
        checkpoints = 1 + max(runner.checkpoint for runner in self.runners)
        return World(
            log=NoDecision(),
            spark=(0,) * checkpoints,
            drivers=tuple(
                Driver(Pc.DOWN if runner.starts else Pc.FINISHED) for runner in self.runners
            ),
            budget=Budget(
                (self.crashes,) * len(self.runners),
                *(self.lost, self.timeouts, self.unclear),
                *(self.stale, self.interrupts, self.failures),
            ),
        )


RESETTING = Scenario(
    name="two queries that both reset",
    runners=tuple(replace(runner, reset=True) for runner in QUERIES),
    goal=Goal.ANY,
)
SCENARIOS = (
    Scenario(
        name="a driver that restarts, V1",
        runners=ONE,
        version=Version.V1,
        crashes=1,
        lost=(1, 0),
        timeouts=1,
        unclear=1,
        failures=1,
    ),
    Scenario(
        name="a driver that restarts, V2",
        runners=ONE,
        crashes=1,
        lost=(1, 1),
        timeouts=1,
        unclear=1,
        failures=1,
    ),
    Scenario(name="two drivers, each dies once", crashes=1),
    Scenario(name="two drivers and a timeout, V1", version=Version.V1, timeouts=1),
    Scenario(name="two drivers and a timeout, V2", timeouts=1),
    Scenario(name="two drivers and an append without a response", unclear=1),
    Scenario(name="two drivers and lost attempts", batches=1, lost=(1, 0), failures=1),
    Scenario(
        name="two drivers and tasks without rows",
        empty=frozenset({(0, 1), (1, 0), (1, 1)}),
        unclear=1,
    ),
    Scenario(
        name="a batch job that runs twice at once",
        runners=(_JOB, Runner(query=None, checkpoint=1)),
        batches=1,
        crashes=1,
        timeouts=1,
        unclear=1,
    ),
    Scenario(
        name="a function that writes twice, run by two drivers",
        function=True,
        goal=Goal.FIRST,
        crashes=1,
        unclear=1,
    ),
    Scenario(name="two queries on a prefix", runners=QUERIES, goal=Goal.ANY, crashes=1),
    RESETTING,
    Scenario(name="two drivers and a former leader of the log", batches=1, stale=1, unclear=1),
    Scenario(
        name="a former leader of the log, and commit() continues while abort() runs",
        runners=INTERRUPTED,
        batches=1,
        stale=1,
        interrupts=1,
    ),
    Scenario(
        name="commit() continues while abort() runs",
        runners=INTERRUPTED,
        crashes=1,
        timeouts=1,
        interrupts=1,
    ),
)
FULL = Scenario(
    name="two drivers, each dies once, with a timeout and an append without a response",
    crashes=1,
    timeouts=1,
    unclear=1,
)
"""The search of `python -m tools.model --full`, which takes minutes and up to 2 GiB of memory."""
