"""The product's decisions, and the order of the driver's steps: what a planted bug replaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once import commit_outcome, protocol
from spark_kafka_sink.exactly_once.steps import orphans
from tools.model.world import Pc

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
    from spark_kafka_sink.exactly_once.steps.orphans import Candidate
    from tools.model.world import State, Transaction


def _is_orphan(state: State, candidate: Candidate, given_up: frozenset[str]) -> bool:
    return orphans.is_orphan(state, candidate, given_up=given_up)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """One protocol."""

    judge: Callable[[State, Caller], Verdict | Refusal] = protocol.judge
    commit_step: Callable[
        [State, Caller, tuple[Transaction, ...]],
        RollForward[Transaction] | Decide[Transaction] | AlreadyDone | Refuse,
    ] = protocol.next_commit_step
    abort_reads: bool = True
    """abort() fences and reads the log where commit() may have run."""
    abort_step: Callable[[State, Caller], RollForward[Transaction] | GiveUp | AbortOurs] = (
        protocol.next_abort_step
    )
    commit_outcome: Callable[[int], commit_outcome.EndOutcome] = commit_outcome.commit_outcome
    is_orphan: Callable[[State, Candidate, frozenset[str]], bool] = _is_orphan
    attempt_in_id: bool = True
    """Every attempt has a transactional id of its own."""
    new_epoch: bool = True
    """InitProducerId gives every commit an epoch of its own."""
    fence_first: bool = True
    """commit() fences before it reads."""
    commits_empty: bool = False
    """A task without rows hands over a transaction all the same."""
    check: bool = True
    """commit() looks whether the transactions are open before it decides, and again then."""
    looks_again: bool = True
    """The first append of an epoch reads the log again before it counts."""
    minds_unclear: bool = True
    """A commit() that is fenced aborts nothing where an append of it got no answer."""
    deciding: tuple[Pc, ...] = (Pc.APPEND, Pc.END, Pc.DONE)
    """The order of a commit's steps once it has checked the transactions."""
