"""The rules of the exactly-once protocol, as pure functions over the decision log's state.

What happens to a batch, by the state of the log and by the caller, which is a task or a driver:

    the log has                    the caller has                         verdict

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
    nothing                        tasks that skipped the batch           SKIPPED

A query repeats only its latest batch. Therefore, with EARLIER_BATCH, another query has written the
batch, or the checkpoint was rolled back.

`judge` implements this table, except for the last two rows. Tasks evaluate it with the state that
planning has read, to avoid needless writes. The driver evaluates the whole table again after
fencing (`next_commit_step`), and only that evaluation is final. A caller that finds an unfinished
decision finishes it first, even if it belongs to another query: committing a decided transaction
again changes nothing.

The driver calls InitProducerId with the scope's own transactional id, reads the log to its end, and
executes a step. After RollForward or GiveUp, it executes the next step. It appends all records in
the epoch of that InitProducerId. If the outcome of an append is unclear, it starts again with
InitProducerId.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Generic

from spark_kafka_sink.exactly_once.scope_state import (
    Decided,
    Done,
    LogState,
    Nothing,
    Planning,
    T_co,
)

from spark_kafka_sink.exactly_once.batch_rejection import BatchRejection

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_FIRST_BATCH = "0"
MAX_GIVEN_UP = 100
"""Maximum number of nonces in `given_up`; the oldest nonces are dropped. This assumes that the
commit() of a run that failed earlier is no longer active.
"""
MAX_PLANNINGS = 20
"""Maximum number of plannings in a batch's record; the oldest are dropped. This assumes that fewer
drivers of one query run at the same time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of the protocol: a task or a driver. `query` is None outside of streams.

    `resets_state` is True if resetTransactionalState=true; if the option is a batch number instead,
    `reset_batch` is that number. `is_single_batch` is True if the scope has only one batch, as for
    a batch job; in that case, `query` is set if foreachBatch writes the batch.
    """

    query: str | None
    batch: str
    """Batch number of a stream; otherwise the name of the scope."""
    resets_state: bool = False
    reset_batch: str | None = None
    is_single_batch: bool = False
    has_skipped: bool = False
    """True if tasks did not write their rows because planning had found the batch written."""
    nonces: frozenset[str] = frozenset()
    """Nonces of the tasks' plannings, usually one; empty if none is known."""
    run: str | None = None
    """Run id of the query for a write in foreachBatch; None if unknown."""
    is_followed: bool = False
    """True if foreachBatch has already written a batch with a higher number to the same target.
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
        if not self.is_single_batch or self.run is None or not self.nonces:
            return None
        return Planning(self.run, min(self.nonces))


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


def judge(state: LogState[T_co], caller: Caller) -> BatchVerdict | BatchRejection:
    """Return the action for the caller's batch, or the reason why it is rejected."""
    if caller.is_single_batch:
        return _judge_single(state, caller)
    if isinstance(state, Nothing):
        is_first = caller.query is None or caller.batch == _FIRST_BATCH
        is_expected = is_first or caller.batch == caller.reset_batch
        return BatchVerdict.WRITE if is_expected else BatchRejection.LOG_IS_EMPTY
    if caller.query in state.retired:
        return BatchRejection.RETIRED_QUERY
    if state.query != caller.query:
        return BatchVerdict.WRITE if takes_over(state, caller) else BatchRejection.OTHER_QUERY
    if state.batch == caller.batch:
        return BatchRejection.OTHER_ROWS if _differ(state, caller) else BatchVerdict.SKIP
    return _judge_order(int(caller.batch) - int(state.batch), caller)


def _judge_single(state: LogState[T_co], caller: Caller) -> BatchVerdict | BatchRejection:
    """Judge a batch of a scope with only one batch.

    With a new checkpoint, batch numbers start at 0 again, and the batches differ from those of the
    old checkpoint.
    """
    if isinstance(state, Nothing):
        return BatchVerdict.WRITE
    is_of_another_query = state.query != caller.query and None not in {state.query, caller.query}
    if is_of_another_query:
        return BatchRejection.OTHER_QUERYS_BATCH
    if _is_another_write(state.plannings, caller):
        return BatchRejection.ANOTHER_WRITE
    if _differ(state, caller):
        return BatchRejection.OTHER_JOBS_ROWS
    return BatchRejection.EARLIER_BATCH if _is_earlier(state, caller) else BatchVerdict.SKIP


def _is_earlier(state: Decided[T_co] | Done, caller: Caller) -> bool:
    """Return True if foreachBatch repeats a batch that is not the latest, and the query is unknown.

    With Spark Connect, a query has no id. A restarted query repeats only its latest batch, so the
    caller is probably another query with other rows. If the state has no row count, an operator has
    confirmed that the batch is written.
    """
    is_unknown = None in {state.query, caller.query}
    return caller.is_followed and caller.run is not None and is_unknown and state.rows is not None


def _is_another_write(plannings: tuple[Planning, ...], caller: Caller) -> bool:
    """Return True if a different planning in this run of the query has written or found the batch.

    A run executes each batch once, so the other planning belongs to a different write. The row
    count cannot distinguish the two, and skipping a write that never happened would lose its rows.
    """
    return any(
        planning.run == caller.run and planning.nonce not in caller.nonces for planning in plannings
    )


def _differ(state: Decided[T_co] | Done, caller: Caller) -> bool:
    """Return True if the batch was written with different rows, so skipping it would lose rows."""
    pairs = ((state.rows, caller.rows), (state.topics, caller.topics))
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _judge_order(distance: int, caller: Caller) -> BatchVerdict | BatchRejection:
    if distance < 0:
        return BatchRejection.BATCH_IS_BEHIND
    is_expected = distance == 1 or caller.batch == caller.reset_batch
    return BatchVerdict.WRITE if is_expected else BatchRejection.BATCH_IS_AHEAD


def takes_over(state: Decided[T_co] | Done, caller: Caller) -> bool:
    """Return True if the user has requested that this query replaces the query in the log.

    Only the first batch of a query that was never replaced can do so. Therefore, an option that
    remains set has no effect later.
    """
    is_replaced = caller.query in state.retired
    is_first = caller.query != state.query and caller.batch == _FIRST_BATCH
    return caller.resets_state and is_first and not is_replaced


def is_same_batch(state: Decided[T_co] | Done, caller: Caller) -> bool:
    """Return True if the state is that of the caller's batch, whichever run has written it."""
    return caller.is_single_batch or (state.query, state.batch) == (caller.query, caller.batch)


@dataclass(frozen=True, slots=True)
class RollForward(Generic[T_co]):
    """Commit all transactions of `decided`, append `finished(decided)`, then get the next step."""

    decided: Decided[T_co]


@dataclass(frozen=True, slots=True)
class Decide(Generic[T_co]):
    """Check the transactions, append `decided`, commit the transactions, append `finished`.

    If there are no transactions, only `finished(decided)` is appended.
    """

    decided: Decided[T_co]


@dataclass(frozen=True, slots=True)
class AlreadyDone:
    """The batch is already written: abort the transactions in `never_decided`, and return.

    If `done` is set, append it first: this state records that this run of the query has found the
    batch. Any further write of the run with the same batchId and target counts as a different
    write.
    """

    done: Done | None = None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Append `state`, then get the next step. Abort nothing unless the append succeeds.

    A commit() of the same tasks may still be running even though it raised an error in Spark, and
    InitProducerId fences only earlier callers, not later ones. Therefore the plannings to abort are
    recorded first: a commit() with a newer epoch reads the record and is rejected.
    """

    state: Nothing | Done


@dataclass(frozen=True, slots=True)
class AbortOurs:
    """The tasks' batch can no longer be decided: abort the tasks' open transactions."""


@dataclass(frozen=True, slots=True)
class RejectBatch:
    """Abort the tasks' transactions, and raise an error."""

    rejection: BatchRejection


def next_commit_step(
    state: LogState[T_co], caller: Caller, transactions: tuple[T_co, ...]
) -> RollForward[T_co] | Decide[T_co] | AlreadyDone | RejectBatch:
    """Return the next step of commit(). `state` was read after the caller's last InitProducerId."""
    if isinstance(state, Decided):
        return RollForward(state)
    verdict = judge(state, caller)
    if isinstance(verdict, BatchRejection):
        return RejectBatch(verdict)
    if verdict is BatchVerdict.SKIP:
        return AlreadyDone(_with_planning(state, caller))
    if caller.has_skipped:
        return RejectBatch(BatchRejection.SKIPPED)
    if not caller.nonces.isdisjoint(state.given_up):
        return RejectBatch(BatchRejection.GIVEN_UP)
    return Decide(_decided(state, caller, transactions))


def next_abort_step(
    state: LogState[T_co], caller: Caller
) -> RollForward[T_co] | GiveUp | AbortOurs:
    """Return the next step of abort(). `state` was read after the caller's last InitProducerId.

    An existing decision is rolled forward, because Spark calls abort() even if commit() raised an
    error after its decision.
    """
    if isinstance(state, Decided):
        return RollForward(state)
    new = sorted(caller.nonces.difference(state.given_up))
    if not new or judge(state, caller) in _NOTHING_TO_MARK:
        return AbortOurs()
    return GiveUp(replace(state, given_up=(*state.given_up, *new)[-MAX_GIVEN_UP:]))


def abort_needs_fence(*, complete: bool) -> bool:
    """Return True if abort() must fence and read the log before it aborts the tasks' transactions.

    Spark calls commit() only with the commit messages of all tasks. If a message is missing (not
    `complete`), commit() was not called, no decision can be in progress, and fencing would only
    stop another driver.
    """
    return complete


def next_planning_step(state: LogState[T_co]) -> RollForward[T_co] | None:
    """Return the next step of planning, or None if there is no decision to finish.

    Planning never fences or decides. It does not append `finished`, because it has no epoch; the
    next commit appends it.
    """
    return RollForward(state) if isinstance(state, Decided) else None


def finished(decided: Decided[T_co]) -> Done:
    """Return the state of the log once every transaction of a decision is committed."""
    return Done(
        decided.query,
        decided.batch,
        decided.retired,
        rows=decided.rows,
        plannings=decided.plannings,
        topics=decided.topics,
    )


def _with_planning(state: Nothing | Done, caller: Caller) -> Done | None:
    """Return the state with the caller's planning, or None if it does not have to be added."""
    planning = caller.planning
    if isinstance(state, Nothing) or planning is None or planning in state.plannings:
        return None
    return replace(state, plannings=(*state.plannings, planning)[-MAX_PLANNINGS:])


def _decided(
    state: Nothing | Done, caller: Caller, transactions: tuple[T_co, ...]
) -> Decided[T_co]:
    retired = () if isinstance(state, Nothing) else state.retired
    if isinstance(state, Done) and state.query != caller.query:
        retired = (*retired, state.query)
    plannings = () if caller.planning is None else (caller.planning,)
    return Decided(
        caller.query, caller.batch, transactions, retired, caller.rows, plannings, caller.topics
    )


def is_superseded(state: LogState[T_co], own_ids: Collection[str]) -> bool:
    """Return True if the caller has transactions, and the log does not list any of them as decided.

    For the arguments, see `never_decided`. The record of a done batch lists no transactions, so the
    result is True even if the batch consists of the caller's transactions.
    """
    return bool(own_ids) and len(never_decided(state, own_ids)) == len(own_ids)


def never_decided(state: LogState[T_co], own_ids: Iterable[str]) -> frozenset[str]:
    """Return the caller's transactional ids that are not decided and may be aborted.

    `state` was read after fencing. If it contains some of the ids, an earlier call for the same
    tasks has decided them and then failed.
    """
    kept = state.transactional_ids if isinstance(state, Decided) else frozenset()
    return frozenset(own_ids) - kept
