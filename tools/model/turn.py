"""A driver's turn in a world, and the rules that it follows.

The rules are the product's decision functions, some of which planted bugs replace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from spark_kafka_sink.exactly_once import commit_outcome, decision_rules, orphan_rules
from spark_kafka_sink.exactly_once.batch_rejection import BatchRejection
from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome
from spark_kafka_sink.exactly_once.decision_rules import (
    AbortTasks,
    AlreadyDone,
    BatchVerdict,
    BatchWrite,
    Decide,
    GiveUp,
    RejectBatch,
    RollForward,
)
from spark_kafka_sink.exactly_once.orphan_rules import OrphanCandidate
from spark_kafka_sink.exactly_once.scope_state import Decided
from tools.model.model_state import UNFINISHED, Driver, Pc, State, Transaction, World, transaction
from tools.model.scenario import WRITE, Scenario


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The decision functions and rules of a protocol; planted bugs replace some of them."""

    batch_verdict: Callable[[State, BatchWrite], BatchVerdict | BatchRejection] = (
        decision_rules.batch_verdict
    )
    commit_step: Callable[
        [State, BatchWrite, tuple[Transaction, ...]],
        RollForward[Transaction] | Decide[Transaction] | AlreadyDone | RejectBatch,
    ] = decision_rules.next_commit_step
    abort_reads: bool = True
    """abort() fences and reads the log if commit() might have run."""
    abort_step: Callable[[State, BatchWrite], RollForward[Transaction] | GiveUp | AbortTasks] = (
        decision_rules.next_abort_step
    )
    end_txn_outcome: Callable[[int], commit_outcome.EndOutcome] = commit_outcome.end_txn_outcome
    is_orphan: Callable[[State, OrphanCandidate, frozenset[str]], bool] = (
        lambda state, candidate, given_up: orphan_rules.is_orphan(
            state, candidate, given_up_nonces=given_up
        )
    )
    attempt_in_id: bool = True
    """Each attempt has its own transactional id."""
    new_epoch: bool = True
    """InitProducerId assigns a new epoch to each commit."""
    fence_first: bool = True
    """commit() fences before it reads the log."""
    commits_empty: bool = False
    """A task without rows also returns a transaction."""
    check: bool = True
    """commit() checks that the transactions are open before the decision and when it is made."""
    rereads_log: bool = True
    """Before the first append with an epoch, the log is read again."""
    keeps_unclear: bool = True
    """A fenced commit() does not abort transactions if one of its appends had no response."""
    deciding: tuple[Pc, ...] = (Pc.APPEND, Pc.END, Pc.DONE)
    """The steps of a commit, in order, after the check of the transactions."""


@dataclass(frozen=True)
class Context:
    """The rules of a protocol, and a scenario."""

    scenario: Scenario
    rules: Rules


class Turn(NamedTuple):
    """A world in which driver `number` takes a step. Methods return a turn with a new world."""

    context: Context
    world: World
    number: int

    @property
    def name(self) -> str:
        return f"driver {self.number + 1}"

    @property
    def driver(self) -> Driver:
        return self.world.drivers[self.number]

    @property
    def decided(self) -> Decided[Transaction]:
        """The decision in progress."""
        decided = self.driver.decided
        assert decided is not None
        return decided

    @property
    def seen(self) -> State:
        """The state of the log at the driver's last read."""
        seen = self.driver.seen
        assert seen is not None
        return seen

    @property
    def batch_write(self) -> BatchWrite:
        """The driver's write, for the product's decision functions."""
        driver, scenario = self.driver, self.context.scenario
        batch_write = scenario.batch_write(self.number, driver.batch)
        if scenario.function:
            return replace(batch_write, nonces=frozenset({driver.nonce}), run_id=driver.run)
        return (
            replace(batch_write, nonces=frozenset({driver.nonce})) if driver.ours else batch_write
        )

    @property
    def may_append(self) -> bool:
        """True if the log accepts a record of the driver because its epoch is the newest."""
        return self.world.holder == self.number or not self.context.rules.new_epoch

    @property
    def is_stale(self) -> bool:
        """True if the driver's read after InitProducerId returned a stale state of the log."""
        first = self.driver.first
        return self.context.rules.rereads_log and first is not None and first != self.world.log

    def has_rows(self, partition: int) -> bool:
        """Return True if the task of a partition has rows in the driver's batch."""
        return self.context.scenario.has_rows(self.driver.batch, partition)

    def attempt(self, partition: int, attempt: int) -> Transaction:
        """Return the transaction of a task attempt, for the driver's latest planning."""
        tail = f"/a{attempt}" if self.context.rules.attempt_in_id else ""
        driver = self.driver
        batch = self.context.scenario.rows_name(self.number, driver.batch)
        return transaction(self.batch_write.query_id, batch, driver.nonce, partition, tail)

    def orphans(self) -> tuple[Transaction, ...]:
        """Return the unfinished transactions that may be aborted, given the log that was read."""
        nonces = frozenset({self.driver.nonce})
        return tuple(
            [
                transaction
                for transaction, status in self.world.transactions
                if status in UNFINISHED
                and self.context.rules.is_orphan(self.seen, candidate_of(transaction), nonces)
            ]
        )

    def reads(self) -> list[tuple[str, State, Turn]]:
        """Return the possible results of reading the log: (description, state, next turn)."""
        world = self.world
        logs = [("", world.log, self)]
        if world.budget.stale and world.before not in {None, world.log}:
            assert world.before is not None
            logs.append((" to an outdated end", world.before, self.spend(stale=1)))
        return logs

    def on(self, world: World) -> Turn:
        return self._replace(world=world)

    def put(self, driver: Driver) -> Turn:
        """Replace the driver."""
        drivers = self.world.drivers
        drivers = (*drivers[: self.number], driver, *drivers[self.number + 1 :])
        return self.on(self.world._replace(drivers=drivers))

    def now(self, **changes: Any) -> Turn:
        """Replace fields of the driver."""
        return self.put(self.driver._replace(**changes))

    def stop(self) -> Turn:
        """Stop the driver. It can be restarted unless it is an interrupted commit()."""
        return self.put(Driver(Pc.FINISHED if self.driver.interrupted else Pc.DOWN))

    def spend(self, **faults: int) -> Turn:
        """Subtract the given numbers of faults from the budget."""
        budget = self.world.budget
        left = {name: getattr(budget, name) - number for name, number in faults.items()}
        return self.on(self.world._replace(budget=budget._replace(**left)))

    def append(self, record: State) -> Turn:
        """Append a record to the log."""
        world = self.world
        before = world.log if world.budget.stale else None
        return self.on(world._replace(log=record, before=before))

    def commit(self, transaction: Transaction) -> tuple[Turn, EndOutcome]:
        """Call EndTxn(commit)."""
        world, code = self.world.commit(transaction, self.context.scenario.version)
        return self.on(world), self.context.rules.end_txn_outcome(code)

    def abort(self, transactions: Iterable[Transaction]) -> Turn:
        """Call EndTxn(abort)."""
        return self.on(self.world.abort(transactions))

    def roll_forward(self) -> tuple[Turn, str | None]:
        """Commit all transactions of the decision; return a description of a torn batch, or None.

        All commits are a single step. Partial progress is modeled only for the driver's own
        transactions.
        """
        turn = self
        for decided in self.decided.transactions:
            turn, outcome = turn.commit(decided)
            if outcome is not EndOutcome.COMMITTED:
                return turn, f"EndTxn(commit) of {decided.name}: {outcome.name}"
        return turn, None


def candidate_of(transaction: Transaction) -> OrphanCandidate:
    """Return the candidate for a transaction, with the properties contained in its ID."""
    return OrphanCandidate(
        transactional_id=transaction.name,
        query_id=transaction.query,
        batch=transaction.batch.partition(WRITE)[0],
        nonce=transaction.nonce,
    )
