"""The state of a scope, which is its latest record in the decision log.

    NoDecision --decide--> Decided --finish--> Done --decide--> Decided ...

A query that was replaced by another query (resetTransactionalState=true) is retired: the records of
the new query contain its id, so that a query with its old checkpoint cannot rewrite a batch that
the log no longer contains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Transaction(Protocol):
    """The part of a task's transaction that the protocol needs."""

    @property
    def transactional_id(self) -> str:
        """The id of one task attempt; it is never reused."""


T_co = TypeVar("T_co", bound=Transaction, covariant=True)


@dataclass(frozen=True, slots=True)
class Planning:
    """The planning of a write in foreachBatch.

    Two plannings in one run of a query belong to two different writes of its foreachBatch function.
    Plannings in different runs can belong to the same write, which is repeated in each run.
    """

    run_id: str
    """Run id of the query; every start of the query gets a new run id."""
    nonce: str


@dataclass(frozen=True, slots=True)
class NoDecision:
    """No batch has been decided yet."""

    given_up_nonces: tuple[str, ...] = ()
    """Nonces of plannings that abort() has given up since the last decision; these
    plannings are never decided.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """The batch that was decided last."""

    query_id: str | None
    """None for a batch job, whose scope has only one batch."""
    batch: str
    retired_query_ids: tuple[str | None, ...] = ()
    rows: int | None = None
    """Number of rows that Spark passed to the tasks, including dead letters and dropped rows; None
    if they were not counted.
    """
    plannings: tuple[Planning, ...] = ()
    """For a batch written by foreachBatch: the planning that wrote it, and all plannings
    that found it written.
    """
    topics: tuple[str, ...] | None = None
    """Topics that the rows specify, sorted; None if the rows do not specify topics, or specify too
    many.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(_Batch, Generic[T_co]):
    """The batch consists of these transactions, all of which must be committed."""

    transactions: tuple[T_co, ...]

    @property
    def transactional_ids(self) -> frozenset[str]:
        """The ids of the batch's transactions."""
        return frozenset(transaction.transactional_id for transaction in self.transactions)

    def to_done(self) -> Done:
        """Return the state after every transaction of the decision is committed."""
        return Done(
            query_id=self.query_id,
            batch=self.batch,
            retired_query_ids=self.retired_query_ids,
            rows=self.rows,
            plannings=self.plannings,
            topics=self.topics,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(_Batch):
    """All rows of the batch are visible to read_committed consumers."""

    given_up_nonces: tuple[str, ...] = ()
    """See `NoDecision`."""


ScopeStateOf = NoDecision | Decided[T_co] | Done
