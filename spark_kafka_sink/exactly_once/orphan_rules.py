"""Decide which open transactions of a scope are orphans: no driver can commit them any more.

An abort cannot be tied to the driver's epoch: a driver may be paused between listing and aborting
while another driver starts, runs the same batch again and decides. Therefore only transactions that
no driver can ever decide are orphans, regardless of who checks and when:

- the log has decided the transaction's batch or a later one of the same query, and the transaction
  is not in the decision;
- or another query has replaced the transaction's query;
- or it has the nonce of a planning whose commit() cannot continue; only its own driver can
  determine that.

A transaction with an older nonce of an undecided batch is not an orphan yet; the decision makes it
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from spark_kafka_sink.exactly_once.scope_state import Decided, NoDecision, ScopeStateOf, T_co
from spark_kafka_sink.exactly_once.transactional_id import parse_task_id

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanCandidate:
    """An open transaction of the scope, with the parts of its transactional id."""

    transactional_id: str
    query_id: str | None
    batch: str
    nonce: str

    @classmethod
    def of(cls, transactional_id: str) -> Self | None:
        """Parse a task's transactional id; return None for any other id."""
        task = parse_task_id(transactional_id)
        if task is None:
            return None
        return cls(
            transactional_id=transactional_id,
            query_id=task.query_id,
            batch=task.batch,
            nonce=task.nonce,
        )


def is_orphan(
    state: ScopeStateOf[T_co],
    candidate: OrphanCandidate,
    *,
    given_up_nonces: AbstractSet[str] = frozenset(),
) -> bool:
    """Return True if the transaction may be aborted.

    Args:
        state: state of the log, read before the transactions were listed.
        candidate: one of the listed transactions.
        given_up_nonces: nonces of plannings that only this driver could have decided, but did not
            decide. It has read `state` after fencing, or knows that commit() was never called.
    """
    if isinstance(state, Decided) and candidate.transactional_id in state.transactional_ids:
        return False
    if candidate.nonce in given_up_nonces:
        return True
    if isinstance(state, NoDecision):
        return False
    if candidate.query_id not in {None, state.query_id}:
        return candidate.query_id in state.retired_query_ids
    return candidate.batch == state.batch or _is_older(candidate, state.batch)


def _is_older(candidate: OrphanCandidate, batch: str) -> bool:
    return candidate.query_id is not None and int(candidate.batch) < int(batch)
