"""What the decision log says of one scope: nothing yet, a decided batch, or a done one.

    Nothing --decide--> Decided --finish--> Done --decide--> Decided ...

A query that another one has taken over from (resetTransactionalState=true) is retired: the record
of the new query carries its id on, so that its old checkpoint can't come back and write a batch
again that the log has forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Transaction(Protocol):
    """What the protocol must know of a task's transaction."""

    @property
    def transactional_id(self) -> str:
        """The id of one attempt of one task, never used twice."""


T_co = TypeVar("T_co", bound=Transaction, covariant=True)


@dataclass(frozen=True, slots=True)
class Planning:
    """The planning of a write in foreachBatch.

    A function of foreachBatch that writes twice in one run of its query has two writes. In another
    run the same write comes again.
    """

    run: str
    """Of the query: each start has another one."""
    nonce: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing is decided yet."""

    given_up: tuple[str, ...] = ()
    """Nonces of plannings that abort() has given up since the last decision: never decided."""


@dataclass(frozen=True, slots=True)
class Decided(Generic[T_co]):
    """The batch consists of these transactions, and every one of them is to be committed.

    `query` is None for a batch job, whose scope has one batch only.
    """

    query: str | None
    batch: str
    transactions: tuple[T_co, ...]
    retired: tuple[str | None, ...] = ()
    rows: int | None = None
    """What Spark handed its tasks, dead letters and dropped rows included; None if not counted."""
    plannings: tuple[Planning, ...] = ()
    """Of a batch that foreachBatch writes: that which wrote it, and those that found it written."""
    topics: tuple[str, ...] | None = None
    """That its rows name, sorted; None where they name none, or too many."""

    @property
    def transactional_ids(self) -> frozenset[str]:
        """The ids of the batch's transactions."""
        return frozenset(each.transactional_id for each in self.transactions)


@dataclass(frozen=True, slots=True)
class Done:
    """The batch is visible to read_committed readers as a whole."""

    query: str | None
    batch: str
    retired: tuple[str | None, ...] = ()
    given_up: tuple[str, ...] = ()
    """As `Nothing` has it."""
    rows: int | None = None
    """As `Decided` has it."""
    plannings: tuple[Planning, ...] = ()
    """As `Decided` has it."""
    topics: tuple[str, ...] | None = None
    """As `Decided` has it."""


LogState = Nothing | Decided[T_co] | Done
