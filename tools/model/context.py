"""Inputs of every step besides the world: the protocol's rules and the scenario."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once import commit_outcome, protocol
from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome
from spark_kafka_sink.exactly_once.steps import orphans
from spark_kafka_sink.exactly_once.steps.orphans import Candidate
from tools.model import broker
from tools.model.scenario import WRITE
from tools.model.world import Driver, Pc, State, Transaction, World, transaction, with_driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.exactly_once.protocol import (
        AbortOurs,
        AlreadyDone,
        Caller,
        Decide,
        GiveUp,
        Refusal,
        Refuse,
        RollForward,
        Verdict,
    )
    from tools.model.scenario import Scenario
    from tools.model.world import State, Transaction


def _is_orphan(state: State, candidate: Candidate, given_up: frozenset[str]) -> bool:
    return orphans.is_orphan(state, candidate, given_up=given_up)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The decisions and rules of one protocol."""

    judge: Callable[[State, Caller], Verdict | Refusal] = protocol.judge
    commit_step: Callable[
        [State, Caller, tuple[Transaction, ...]],
        RollForward[Transaction] | Decide[Transaction] | AlreadyDone | Refuse,
    ] = protocol.next_commit_step
    abort_reads: bool = True
    """abort() fences and reads the log if commit() may have run."""
    abort_step: Callable[[State, Caller], RollForward[Transaction] | GiveUp | AbortOurs] = (
        protocol.next_abort_step
    )
    commit_outcome: Callable[[int], commit_outcome.EndOutcome] = commit_outcome.commit_outcome
    is_orphan: Callable[[State, Candidate, frozenset[str]], bool] = _is_orphan
    attempt_in_id: bool = True
    """Every attempt has its own transactional ID."""
    new_epoch: bool = True
    """InitProducerId gives every commit a new epoch."""
    fence_first: bool = True
    """commit() fences before it reads the log."""
    commits_empty: bool = False
    """A task without rows also returns a transaction."""
    check: bool = True
    """commit() checks that the transactions are open, before and when it decides."""
    looks_again: bool = True
    """The first append of an epoch rereads the log before it takes effect."""
    minds_unclear: bool = True
    """A fenced commit() aborts nothing if one of its appends had no response."""
    deciding: tuple[Pc, ...] = (Pc.APPEND, Pc.END, Pc.DONE)
    """The order of a commit's steps once it has checked the transactions."""


Successors = list[tuple[str, World]]
"""(description of the step, next world)."""


@dataclass(frozen=True)
class Context:
    """One protocol in one scenario."""

    scenario: Scenario
    rules: Rules

    def caller(self, world: World, index: int) -> Caller:
        """Return the caller that a driver is in the product's decisions."""
        driver = world.drivers[index]
        caller = self.scenario.caller(index, driver.batch)
        if self.scenario.function:
            return replace(caller, nonces=frozenset({driver.nonce}), run=driver.run)
        return replace(caller, nonces=frozenset({driver.nonce})) if driver.ours else caller

    def attempt(self, world: World, index: int, partition: int, attempt: int) -> Transaction:
        """Return the transaction of a task attempt in a driver's newest planning."""
        who = self.caller(world, index)
        tail = f"/a{attempt}" if self.rules.attempt_in_id else ""
        driver = world.drivers[index]
        batch = self.scenario.rows_name(index, driver.batch)
        return transaction(who.query, batch, driver.nonce, partition, tail)

    def end_next(self, world: World, index: int) -> tuple[World, EndOutcome]:
        """Call EndTxn(commit) for the first transaction that a driver still has to end."""
        driver = world.drivers[index]
        world, code = broker.commit(world, driver.todo[0], self.scenario.version)
        outcome = self.rules.commit_outcome(code)
        return with_driver(world, index, driver._replace(todo=driver.todo[1:])), outcome

    def roll_forward(
        self, world: World, transactions: tuple[Transaction, ...]
    ) -> tuple[World, str | None]:
        """Commit all transactions that an earlier call decided; return what is torn, if anything.

        This is one step: partial progress is modelled only for a driver's own transactions.
        """
        for each in transactions:
            world, code = broker.commit(world, each, self.scenario.version)
            outcome = self.rules.commit_outcome(code)
            if outcome is not EndOutcome.COMMITTED:
                return world, f"EndTxn(commit) of {each.name}: {outcome.name}"
        return world, None

    def orphans(self, world: World, index: int, *, given_up: bool) -> tuple[Transaction, ...]:
        """Return the listed transactions that may be aborted, given the log that was read."""
        driver = world.drivers[index]
        state = driver.seen
        if state is None:
            raise ValueError("the log is read before transactions are listed")
        nonces = frozenset({driver.nonce}) if given_up else frozenset()
        return tuple(
            [
                each
                for each, status in world.transactions
                if status in broker.UNFINISHED
                and self.rules.is_orphan(state, candidate_of(each), nonces)
            ]
        )

    def may_append(self, world: World, index: int) -> bool:
        """Return True if the log accepts a record of the driver: it has the newest epoch."""
        return world.holder == index or not self.rules.new_epoch

    def is_stale(self, world: World, index: int) -> bool:
        """Return True if the log has changed since the driver read it."""
        first = world.drivers[index].first
        return self.rules.looks_again and first is not None and first != world.log


def reads(world: World) -> list[tuple[str, State, World]]:
    """Return the possible results of reading the log: (description, state, next world)."""
    found = [("", world.log, world)]
    if world.budget.stale and world.before not in {None, world.log}:
        assert world.before is not None
        left = world.budget._replace(stale=world.budget.stale - 1)
        found.append((" to an old end", world.before, world._replace(budget=left)))
    return found


def candidate_of(each: Transaction) -> Candidate:
    """Return a transaction as its ID describes it."""
    return Candidate(
        transactional_id=each.name,
        query=each.query,
        batch=each.batch.partition(WRITE)[0],
        nonce=each.nonce,
    )


def stopped(driver: Driver) -> Driver:
    """Return a stopped driver, which can be restarted unless it is a ghost."""
    return Driver(Pc.FINISHED if driver.ghost else Pc.DOWN)
