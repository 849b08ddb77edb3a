"""What a search starts from: who runs what, and which faults may happen how often."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spark_kafka_sink.exactly_once.protocol import Caller, Nothing
from tools.model.world import Budget, Driver, Pc, World

WRITE = "#"
"""Between a batchId and the write of a function."""


class Version(StrEnum):
    """Of the transaction protocol, by which the coordinator's answers differ."""

    V1 = "transactions V1"
    V2 = "transactions V2"


class Goal(StrEnum):
    """What must stay possible from every state in which nothing is torn."""

    ALL = "every checkpoint has all of its batches"
    ANY = "some checkpoint has all of its batches"
    FIRST = "the first batch is visible"


@dataclass(frozen=True, kw_only=True)
class Runner:
    """What a driver runs: drivers of one `checkpoint` are restarts of one query, or rivals."""

    query: str | None = "q1"
    checkpoint: int = 0
    reset: bool = False
    starts: bool = True
    """Otherwise it is there to be the ghost of another's commit()."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Two tasks a batch; `empty` are (batch, partition) without rows."""

    name: str
    runners: tuple[Runner, ...] = (Runner(), Runner())
    batches: int = 2
    function: bool = False
    """The batches are those that a function of foreachBatch writes with one batchId, one after the
    other: they share a scope, and Spark's commit log has all or none."""
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

    def caller(self, runner: int, batch: int) -> Caller:
        """Who asks when a driver runs a batch."""
        who = self.runners[runner]
        return Caller(
            query=who.query,
            batch=self.batch_name(runner, batch),
            reset=who.reset,
            single=who.query is None or self.function,
        )

    def batch_name(self, runner: int, batch: int) -> str:
        """A stream's batch number, or the batchId."""
        single = self.function or self.runners[runner].query is None
        return "day" if single else str(batch)

    def rows_name(self, runner: int, batch: int) -> str:
        """Of the batch that rows are of, also where batches share a name."""
        name = self.batch_name(runner, batch)
        return f"{name}{WRITE}{batch}" if self.function else name

    def has_rows(self, batch: int, partition: int) -> bool:
        """Whether a task finds any."""
        return (batch, partition) not in self.empty

    def start(self) -> World:
        """Nothing has happened yet."""
        checkpoints = 1 + max(runner.checkpoint for runner in self.runners)
        return World(
            log=Nothing(),
            before=None,
            holder=None,
            transactions=(),
            visible=(),
            spark=(0,) * checkpoints,
            zombies=(),
            drivers=tuple(
                Driver(Pc.DOWN if runner.starts else Pc.FINISHED) for runner in self.runners
            ),
            budget=Budget(
                crashes=(self.crashes,) * len(self.runners),
                lost=self.lost,
                timeouts=self.timeouts,
                unclear=self.unclear,
                stale=self.stale,
                interrupts=self.interrupts,
                failures=self.failures,
            ),
        )


TASKS = 2
