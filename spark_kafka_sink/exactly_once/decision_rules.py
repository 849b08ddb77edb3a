"""The rules of the exactly-once protocol, as pure functions over the decision log's state.

What happens to a batch, by the state of the log and by the write that a task or driver plans:

    the log has                    the write has                          verdict

    nothing                        batch 0, or a batch job                WRITE
    nothing                        a later batch                          LOG_IS_EMPTY
    nothing                        the batch of resetTransactionalState   WRITE
    the previous batch             the next batch of the query            WRITE
    the same batch                 the same rows                          SKIP
    the same batch                 different rows                         OTHER_ROWS
    a later batch                  an earlier batch of the query          BATCH_IS_BEHIND
    an earlier batch               a batch of the query after the next    BATCH_IS_AHEAD
    an earlier batch               the batch of resetTransactionalState   WRITE
    another query                  any batch                              OTHER_QUERY
    another query                  batch 0, resetTransactionalState=true  WRITE
    a query that has replaced it   any batch of the replaced query        RETIRED_QUERY
    the one batch of a job         the same rows                          SKIP
    the one batch of a job         different rows                         OTHER_JOBS_ROWS
    a batch of foreachBatch        another query                          OTHER_QUERYS_BATCH
    a batch of foreachBatch        a different write in the same run      ANOTHER_WRITE
    a batch of foreachBatch        a later batch, and no query id         EARLIER_BATCH
    plannings given up by abort()  one of these plannings                 GIVEN_UP
    not this batch                 tasks that skipped the batch           SKIPPED

A query repeats only its latest batch. Therefore, with EARLIER_BATCH, another query has written the
batch, or the checkpoint was rolled back.

`batch_verdict` implements this table, except for the last two rows. Tasks evaluate it with the
state that planning has read, to avoid needless writes. The driver evaluates the whole table again
after fencing (`next_commit_step`), and only that evaluation is final. A driver that finds an
unfinished decision finishes it first, even if it belongs to another query: committing a decided
transaction again changes nothing.

The driver calls InitProducerId with the scope's own transactional id, reads the log to its end, and
executes a step. After RollForward or GiveUp, it executes the next step. It appends all records in
the epoch of that InitProducerId. If the outcome of an append is unclear, it starts again with
InitProducerId.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Generic

from spark_kafka_sink.exactly_once.batch_rejection import BatchRejection
from spark_kafka_sink.exactly_once.scope_state import (
    Decided,
    Done,
    NoDecision,
    Planning,
    ScopeStateOf,
    T_co,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_FIRST_BATCH = "0"
MAX_GIVEN_UP = 100
"""Maximum number of nonces in `given_up_nonces`; the oldest are dropped. This assumes that the
commit() of a run that failed earlier is no longer active.
"""
_MAX_PLANNINGS = 20
"""Maximum number of plannings in a batch's record; the oldest are dropped. This assumes that fewer
drivers of one query run at the same time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWrite:
    """One write of a batch, by a task or a driver."""

    query_id: str | None
    """Id of the stream's query, also if it writes a single batch in foreachBatch; otherwise None.
    """
    batch: str
    """Batch number of a stream; otherwise the name of the scope."""
    resets_state: bool = False
    """True if resetTransactionalState=true."""
    reset_batch: str | None = None
    """The batch number if resetTransactionalState is one."""
    is_single_batch: bool = False
    """True if the scope has only one batch, as for a batch job."""
    has_skipped: bool = False
    """True if tasks did not write their rows because planning had found the batch written."""
    nonces: frozenset[str] = frozenset()
    """Nonces of the tasks' plannings, usually one; empty if none is known."""
    run_id: str | None = None
    """Run id of the query for a write in foreachBatch; None if unknown."""
    has_later_batch: bool = False
    """True if foreachBatch has written a batch with a higher number to the same destination.
    Only planning determines this, because only a batch that planning finds written can be skipped.
    """
    rows: int | None = None
    """Number of rows that Spark passed to the tasks; None before the tasks have run, or if a task
    did not count its rows.
    """
    topics: tuple[str, ...] | None = None
    """Topics that these rows specify; see `Decided`."""

    @property
    def planning(self) -> Planning | None:
        """The planning that a decision records, or None outside of foreachBatch."""
        if not self.is_single_batch or self.run_id is None or not self.nonces:
            return None
        return Planning(self.run_id, min(self.nonces))


class BatchVerdict(Enum):
    """The action for a batch that may be written, or is already written."""

    WRITE = "write"
    SKIP = "skip"


_NOTHING_TO_MARK = {
    BatchVerdict.SKIP,
    BatchRejection.OTHER_ROWS,
    BatchRejection.OTHER_JOBS_ROWS,
    BatchRejection.OTHER_QUERYS_BATCH,
    BatchRejection.EARLIER_BATCH,
    BatchRejection.ANOTHER_WRITE,
}
"""With these verdicts, the batch is already decided: no later commit() of these tasks can decide
it.
"""


def batch_verdict(state: ScopeStateOf[T_co], write: BatchWrite) -> BatchVerdict | BatchRejection:
    """Return what happens to the batch of a write, or the reason why it is rejected."""
    if write.is_single_batch:
        return _single_batch_verdict(state, write)
    if isinstance(state, NoDecision):
        is_first = write.query_id is None or write.batch == _FIRST_BATCH
        is_expected = is_first or write.batch == write.reset_batch
        return BatchVerdict.WRITE if is_expected else BatchRejection.LOG_IS_EMPTY
    if write.query_id in state.retired_query_ids:
        return BatchRejection.RETIRED_QUERY
    if state.query_id != write.query_id:
        return BatchVerdict.WRITE if replaces_query(state, write) else BatchRejection.OTHER_QUERY
    if state.batch == write.batch:
        return BatchRejection.OTHER_ROWS if _rows_differ(state, write) else BatchVerdict.SKIP
    return _order_verdict(int(write.batch) - int(state.batch), write)


def is_written(state: ScopeStateOf[T_co], write: BatchWrite) -> bool:
    """Return True if the batch of a write is already written, with the same rows."""
    return batch_verdict(state, write) is BatchVerdict.SKIP


def _single_batch_verdict(
    state: ScopeStateOf[T_co], write: BatchWrite
) -> BatchVerdict | BatchRejection:
    """Return the verdict on a batch of a scope with only one batch.

    With a new checkpoint, batch numbers start at 0 again, and the batches differ from those of the
    old checkpoint.
    """
    if isinstance(state, NoDecision):
        return BatchVerdict.WRITE
    is_of_another_query = state.query_id != write.query_id and None not in {
        state.query_id,
        write.query_id,
    }
    if is_of_another_query:
        return BatchRejection.OTHER_QUERYS_BATCH
    if _is_another_write(state.plannings, write):
        return BatchRejection.ANOTHER_WRITE
    if _rows_differ(state, write):
        return BatchRejection.OTHER_JOBS_ROWS
    return BatchRejection.EARLIER_BATCH if _is_earlier(state, write) else BatchVerdict.SKIP


def _is_earlier(state: Decided[T_co] | Done, write: BatchWrite) -> bool:
    """Return True if foreachBatch repeats a batch that is not the latest, and the query is unknown.

    With Spark Connect, a query has no id. A restarted query repeats only its latest batch, so the
    write is probably that of another query with other rows. If the state has no row count, an
    operator has confirmed that the batch is written.
    """
    is_unknown = None in {state.query_id, write.query_id}
    return (
        write.has_later_batch and write.run_id is not None and is_unknown and state.rows is not None
    )


def _is_another_write(plannings: tuple[Planning, ...], write: BatchWrite) -> bool:
    """Return True if a different planning in this run of the query has written or found the batch.

    A run executes each batch once, so the other planning belongs to a different write. The row
    count cannot distinguish the two, and skipping a write that never happened would lose its rows.
    """
    return any(
        planning.run_id == write.run_id and planning.nonce not in write.nonces
        for planning in plannings
    )


def _rows_differ(state: Decided[T_co] | Done, write: BatchWrite) -> bool:
    """Return True if the batch was written with different rows, so skipping it would lose rows."""
    pairs = ((state.rows, write.rows), (state.topics, write.topics))
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _order_verdict(distance: int, write: BatchWrite) -> BatchVerdict | BatchRejection:
    if distance < 0:
        return BatchRejection.BATCH_IS_BEHIND
    is_expected = distance == 1 or write.batch == write.reset_batch
    return BatchVerdict.WRITE if is_expected else BatchRejection.BATCH_IS_AHEAD


def replaces_query(state: Decided[T_co] | Done, write: BatchWrite) -> bool:
    """Return True if the user has requested that this query replaces the query in the log.

    Only the first batch of a query that was never replaced can do so. Therefore, an option that
    remains set has no effect later.
    """
    is_replaced = write.query_id in state.retired_query_ids
    is_first = write.query_id != state.query_id and write.batch == _FIRST_BATCH
    return write.resets_state and is_first and not is_replaced


def is_same_batch(state: Decided[T_co] | Done, write: BatchWrite) -> bool:
    """Return True if the state is that of the batch to write, whichever run has written it."""
    return write.is_single_batch or (state.query_id, state.batch) == (write.query_id, write.batch)


@dataclass(frozen=True, slots=True)
class RollForward(Generic[T_co]):
    """Commit all transactions of `decided`, append `decided.to_done()`, then get the next step."""

    decided: Decided[T_co]


@dataclass(frozen=True, slots=True)
class Decide(Generic[T_co]):
    """Check the transactions, append `decided`, commit them, append `decided.to_done()`.

    If there are no transactions, only `decided.to_done()` is appended.
    """

    decided: Decided[T_co]


@dataclass(frozen=True, slots=True)
class AlreadyDone:
    """The batch is already written: abort the transactions in `never_decided`, and return.

    If `done` is set, append it first: this state records that this run of the query has found the
    batch. Any further write of the run with the same batchId and destination counts as a different
    write.
    """

    done: Done | None = None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Append `state`, then get the next step. Abort nothing unless the append succeeds.

    A commit() of the same tasks may still be running even though it raised an error in Spark, and
    InitProducerId fences only earlier drivers, not later ones. Therefore the plannings to abort are
    recorded first: a commit() with a newer epoch reads the record and is rejected.
    """

    state: NoDecision | Done


@dataclass(frozen=True, slots=True)
class AbortTasks:
    """The tasks' batch can no longer be decided: abort the tasks' open transactions."""


@dataclass(frozen=True, slots=True)
class RejectBatch:
    """Abort the tasks' transactions, and raise an error."""

    rejection: BatchRejection


def next_commit_step(
    state: ScopeStateOf[T_co], write: BatchWrite, transactions: tuple[T_co, ...]
) -> RollForward[T_co] | Decide[T_co] | AlreadyDone | RejectBatch:
    """Return the next step of commit(). `state` was read after the last InitProducerId."""
    if isinstance(state, Decided):
        return RollForward(state)
    verdict = batch_verdict(state, write)
    if isinstance(verdict, BatchRejection):
        return RejectBatch(verdict)
    if verdict is BatchVerdict.SKIP:
        return AlreadyDone(_with_planning(state, write))
    if write.has_skipped:
        return RejectBatch(BatchRejection.SKIPPED)
    if not write.nonces.isdisjoint(state.given_up_nonces):
        return RejectBatch(BatchRejection.GIVEN_UP)
    return Decide(_to_decided(state, write, transactions))


def next_abort_step(
    state: ScopeStateOf[T_co], write: BatchWrite
) -> RollForward[T_co] | GiveUp | AbortTasks:
    """Return the next step of abort(). `state` was read after the last InitProducerId.

    An existing decision is rolled forward, because Spark calls abort() even if commit() raised an
    error after its decision.
    """
    if isinstance(state, Decided):
        return RollForward(state)
    new = sorted(write.nonces.difference(state.given_up_nonces))
    if not new or batch_verdict(state, write) in _NOTHING_TO_MARK:
        return AbortTasks()
    return GiveUp(replace(state, given_up_nonces=(*state.given_up_nonces, *new)[-MAX_GIVEN_UP:]))


def next_planning_step(state: ScopeStateOf[T_co]) -> RollForward[T_co] | None:
    """Return the next step of planning, or None if there is no decision to finish.

    Planning never fences or decides. It does not append `decided.to_done()`, because it has no
    epoch; the next commit appends it.
    """
    return RollForward(state) if isinstance(state, Decided) else None


def _with_planning(state: NoDecision | Done, write: BatchWrite) -> Done | None:
    """Return the state with the planning of a write, or None if it does not have to be added."""
    planning = write.planning
    if isinstance(state, NoDecision) or planning is None or planning in state.plannings:
        return None
    return replace(state, plannings=(*state.plannings, planning)[-_MAX_PLANNINGS:])


def _to_decided(
    state: NoDecision | Done, write: BatchWrite, transactions: tuple[T_co, ...]
) -> Decided[T_co]:
    retired_query_ids = () if isinstance(state, NoDecision) else state.retired_query_ids
    if isinstance(state, Done) and state.query_id != write.query_id:
        retired_query_ids = (*retired_query_ids, state.query_id)
    plannings = () if write.planning is None else (write.planning,)
    return Decided(
        query_id=write.query_id,
        batch=write.batch,
        transactions=transactions,
        retired_query_ids=retired_query_ids,
        rows=write.rows,
        plannings=plannings,
        topics=write.topics,
    )


def is_superseded(state: ScopeStateOf[T_co], own_ids: Collection[str]) -> bool:
    """Return True if there are own transactions, and the log does not list any of them as decided.

    For the arguments, see `never_decided`. The record of a done batch lists no transactions, so the
    result is True even if the batch consists of the own transactions.
    """
    return bool(own_ids) and len(never_decided(state, own_ids)) == len(own_ids)


def never_decided(state: ScopeStateOf[T_co], own_ids: Iterable[str]) -> frozenset[str]:
    """Return the own transactional ids that are not decided and may be aborted.

    `state` was read after fencing. If it contains some of the ids, an earlier call for the same
    tasks has decided them and then failed.
    """
    kept = state.transactional_ids if isinstance(state, Decided) else frozenset()
    return frozenset(own_ids) - kept
