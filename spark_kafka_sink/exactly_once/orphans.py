"""Which open transactions of a scope are orphans, whoever asks and however late it acts.

An abort can't be made to depend on the driver's epoch: a driver may be paused between listing and
aborting while another one starts, runs the same batch again and decides. So only that is an orphan
which nobody can ever decide:

- the log has decided its batch or a later one of the same query, and it is not in the decision;
- or it has the nonce of a planning whose commit() can't go on, which its own driver alone knows.

An older nonce of a batch that is not decided is no orphan yet. It becomes one with the decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.log_state import Decided, LogState, Nothing, T_co

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An open transaction of the scope, as its transactional id describes it."""

    transactional_id: str
    query: str | None
    batch: str
    nonce: str


def is_orphan(
    state: LogState[T_co], candidate: Candidate, *, given_up: AbstractSet[str] = frozenset()
) -> bool:
    """Whether the transaction may be aborted.

    Args:
        state: the log's, read before the transactions were listed.
        candidate: one of the list.
        given_up: nonces of which the caller was the only driver and that it has not decided. It
            has read `state` behind its fence since, or knows that commit() was never called.
    """
    if isinstance(state, Decided) and candidate.transactional_id in state.transactional_ids:
        return False
    if candidate.nonce in given_up:
        return True
    if isinstance(state, Nothing) or candidate.query not in {None, state.query}:
        return False
    return candidate.batch == state.batch or _is_older(candidate, state.batch)


def _is_older(candidate: Candidate, batch: str) -> bool:
    return candidate.query is not None and int(candidate.batch) < int(batch)
