"""The exactly-once protocol as pure functions over the decision log's state.

The log has one state per scope: nothing yet, a decided batch, or a done batch.

    Nothing --decide--> Decided --finish--> Done --decide--> Decided ...

A query that was replaced by another query (resetTransactionalState=true) is retired: the records of
the new query contain its id, so that a query with its old checkpoint cannot rewrite a batch that
the log no longer contains.

The action for a caller with (query, batch), by the state of the log:

    nothing                             write batch 0, or the batch job
    nothing, batch > 0                  reject: the log is lost, or newer than the query, unless
                                        resetTransactionalState specifies this batch
    the previous batch, same query      write
    the same batch, same query          skip: it is already written
    the same, with other rows           reject: the checkpoint was rolled back, and the batch was
                                        planned again
    a later batch, same query           reject: the checkpoint was rolled back, or another driver
                                        is running
    an earlier batch, same query        reject: records of the log are missing, unless
                                        resetTransactionalState specifies this batch
    another query                       reject, except batch 0 with resetTransactionalState=true
    another query, which has replaced   reject
    the caller's
    the one batch of a batch job        skip, unless it has other rows, or the foreachBatch of
                                        another query has written it: reject
    the same, and this run of the       reject: it is a different write of the same function
    query has written or skipped it
    the same, of an unknown query, and  reject: a query repeats only its latest batch, so another
    a later batch is in the log         query has written it, or the checkpoint was rolled back
    abort() has given up the tasks      reject
    tasks skipped a batch that has      reject
    to be written

`judge` implements this table. Tasks evaluate it with the state that planning has read, to avoid
needless writes. The driver evaluates it again after fencing (`next_commit_step`), and only that
evaluation is final. A caller that finds an unfinished decision finishes it first, even if it
belongs to another query: committing a decided transaction again changes nothing.

The driver calls InitProducerId with the scope's own transactional id, reads the log to its end, and
executes a step. After RollForward or GiveUp, it executes the next step. It appends all records in
the epoch of that InitProducerId. If the outcome of an append is unclear, it starts again with
InitProducerId.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

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

    run: str
    """Run id of the query; every start of the query gets a new run id."""
    nonce: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """No batch has been decided yet."""

    given_up: tuple[str, ...] = ()
    """Nonces of plannings that abort() has given up since the last decision; these
    plannings are never decided.
    """


@dataclass(frozen=True, slots=True)
class Decided(Generic[T_co]):
    """The batch consists of these transactions, all of which must be committed.

    `query` is None for a batch job, whose scope has only one batch.
    """

    query: str | None
    batch: str
    transactions: tuple[T_co, ...]
    retired: tuple[str | None, ...] = ()
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

    @property
    def transactional_ids(self) -> frozenset[str]:
        """The ids of the batch's transactions."""
        return frozenset(transaction.transactional_id for transaction in self.transactions)


@dataclass(frozen=True, slots=True)
class Done:
    """All rows of the batch are visible to read_committed consumers."""

    query: str | None
    batch: str
    retired: tuple[str | None, ...] = ()
    given_up: tuple[str, ...] = ()
    """See `Nothing`."""
    rows: int | None = None
    """See `Decided`."""
    plannings: tuple[Planning, ...] = ()
    """See `Decided`."""
    topics: tuple[str, ...] | None = None
    """See `Decided`."""


LogState = Nothing | Decided[T_co] | Done


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
        is_known = is_first or caller.batch == caller.reset_batch
        return BatchVerdict.WRITE if is_known else BatchRejection.LOG_IS_EMPTY
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
    is_known = distance == 1 or caller.batch == caller.reset_batch
    return BatchVerdict.WRITE if is_known else BatchRejection.BATCH_IS_AHEAD


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


def is_superseded(state: LogState[T_co], ours: Collection[str]) -> bool:
    """Return True if the caller has transactions, and the log does not list any of them as decided.

    For `state` and `ours`, see `never_decided`. The record of a done batch lists no transactions,
    so the result is True even if the batch consists of the caller's transactions.
    """
    return bool(ours) and len(never_decided(state, ours)) == len(ours)


def never_decided(state: LogState[T_co], ours: Iterable[str]) -> frozenset[str]:
    """Return the caller's transactional ids that are not decided and may be aborted.

    `state` was read after fencing. If it contains some of the ids, an earlier call for the same
    tasks has decided them and then failed.
    """
    kept = state.transactional_ids if isinstance(state, Decided) else frozenset()
    return frozenset(ours) - kept
