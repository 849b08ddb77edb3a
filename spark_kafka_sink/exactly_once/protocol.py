"""The exactly-once protocol as pure functions over the decision log's state.

What the decision log says of one scope: nothing yet, a decided batch, or a done one.

    Nothing --decide--> Decided --finish--> Done --decide--> Decided ...

A query that another one has taken over from (resetTransactionalState=true) is retired: the record
of the new query carries its id on, so that its old checkpoint can't come back and write a batch
again that the log has forgotten.

The driver's and the tasks' decisions as pure functions over the log's state.

Where the log stands, and a caller that comes with (query, batch):

    nothing                             write batch 0, or the batch job
    nothing, batch > 0                  refuse: the log is lost, or the query is older than it,
                                        unless resetTransactionalState names this batch
    the batch before, same query        write
    the same batch, same query          skip: it is there
    the same, with other rows           refuse: the checkpoint was set back, and it was planned anew
    a later batch, same query           refuse: the checkpoint was set back, or another driver lives
    an earlier one, same query          refuse: records of the log are missing, unless
                                        resetTransactionalState names this batch
    another query                       refuse, but for batch 0 with resetTransactionalState=true
    another query that took over        refuse
    the one batch of a batch job        skip, unless it has other rows, or two queries have
                                        foreachBatch write it: refuse
    the same, and this run of the       refuse: it is another write of the same function
    query has written or skipped it
    abort() has given the tasks up      refuse
    tasks that skipped a batch to write refuse

`judge` is this table. Tasks ask it with what planning has read, so that they need not write; the
driver asks it again behind its fence (`next_commit_step`), and that alone decides. A decision that
is not done is finished by whoever finds it, whatever its query, before anything else: committing a
decided transaction again changes nothing.

The driver's loop: InitProducerId on the scope's own transactional id, then read the log to its end,
then do the step and, after RollForward, ask again. All records are appended in the epoch of that
InitProducerId. Where the outcome of an append is unclear, begin again with InitProducerId.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable


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


_FIRST_BATCH = "0"
MAX_GIVEN_UP = 100
"""Nonces that are remembered; more failed runs of one batch do not wake up again."""
MAX_PLANNINGS = 20
"""That are remembered of a batch; more drivers of one query do not run at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks: `query` is None outside of streams.

    `reset`: resetTransactionalState=true, and `reset_batch` the batch that it names instead.
    `single`: the scope has one batch only, as a batch job's has. It has a query where it is written
    by the function of a foreachBatch.
    """

    query: str | None
    batch: str
    """A stream's batch number; otherwise the name of the scope."""
    reset: bool = False
    reset_batch: str | None = None
    single: bool = False
    skipped: bool = False
    """Tasks have not written their rows, as planning had found them there."""
    nonces: frozenset[str] = frozenset()
    """Of the plannings that the tasks are of: one, or none if they have not reported."""
    run: str | None = None
    """Of the query, where foreachBatch writes; None if it is not known."""
    rows: int | None = None
    """What Spark handed the tasks; None before they have run, or where one did not count."""
    topics: tuple[str, ...] | None = None
    """That these rows name, as `Decided` has them."""

    @property
    def planning(self) -> Planning | None:
        """What a decision says of who has made it."""
        if not self.single or self.run is None or not self.nonces:
            return None
        return Planning(self.run, min(self.nonces))


class Refusal(StrEnum):
    """Why a batch may not be written."""

    LOG_IS_EMPTY = "the decision log knows nothing of the batches before"
    BATCH_IS_BEHIND = "a later batch of the query is decided already"
    BATCH_IS_AHEAD = "the decision log lacks the batch before"
    OTHER_ROWS = "the batch was planned anew with other rows"
    OTHER_JOBS_ROWS = "this batchId was written with other rows"
    ANOTHER_WRITE = "another write of the same run of foreachBatch has this batchId and target"
    OTHER_QUERY = "another query writes with this transactionalIdPrefix"
    RETIRED_QUERY = "another query has taken over this transactionalIdPrefix"
    OTHER_QUERYS_BATCH = "the foreachBatch of another query has written this batchId"
    SKIPPED = "its tasks have skipped it as written, and the decision log does not say so any more"
    GIVEN_UP = "abort() was called for it before commit() had decided"


class Verdict(Enum):
    """Whether a batch may still be written."""

    WRITE = "write"
    SKIP = "skip"


_NOTHING_TO_MARK = {
    Verdict.SKIP,
    Refusal.OTHER_ROWS,
    Refusal.OTHER_JOBS_ROWS,
    Refusal.OTHER_QUERYS_BATCH,
    Refusal.ANOTHER_WRITE,
}
"""With these no commit() of the tasks can decide, as the batch is decided."""


def judge(state: LogState[T_co], caller: Caller) -> Verdict | Refusal:
    """What a task does with its rows, and a driver with the tasks' transactions."""
    if caller.single:
        return _judge_single(state, caller)
    if isinstance(state, Nothing):
        first = caller.query is None or caller.batch == _FIRST_BATCH
        known = first or caller.batch == caller.reset_batch
        return Verdict.WRITE if known else Refusal.LOG_IS_EMPTY
    if caller.query in state.retired:
        return Refusal.RETIRED_QUERY
    if state.query != caller.query:
        return Verdict.WRITE if takes_over(state, caller) else Refusal.OTHER_QUERY
    if state.batch == caller.batch:
        return _judge_same(state, caller)
    return _judge_order(int(caller.batch) - int(state.batch), caller)


def _judge_single(state: LogState[T_co], caller: Caller) -> Verdict | Refusal:
    """A new checkpoint numbers its batches from 0 again: they are others than those of the old."""
    if isinstance(state, Nothing):
        return Verdict.WRITE
    unlike = state.query != caller.query and None not in {state.query, caller.query}
    if unlike:
        return Refusal.OTHER_QUERYS_BATCH
    if _is_another_write(state.plannings, caller):
        return Refusal.ANOTHER_WRITE
    return Refusal.OTHER_JOBS_ROWS if _differ(state, caller) else Verdict.SKIP


def _is_another_write(plannings: tuple[Planning, ...], caller: Caller) -> bool:
    """Whether the caller's run of the query has come with the batch before, in another planning.

    A run has each batch once. As many rows do not tell its writes apart, and to skip one that was
    never written would lose them.
    """
    return any(each.run == caller.run and each.nonce not in caller.nonces for each in plannings)


def _judge_same(state: Decided[T_co] | Done, caller: Caller) -> Verdict | Refusal:
    return Refusal.OTHER_ROWS if _differ(state, caller) else Verdict.SKIP


def _differ(state: Decided[T_co] | Done, caller: Caller) -> bool:
    """To skip a batch would lose the rows that it did not have when it was written."""
    pairs = ((state.rows, caller.rows), (state.topics, caller.topics))
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _judge_order(distance: int, caller: Caller) -> Verdict | Refusal:
    if distance < 0:
        return Refusal.BATCH_IS_BEHIND
    known = distance == 1 or caller.batch == caller.reset_batch
    return Verdict.WRITE if known else Refusal.BATCH_IS_AHEAD


def takes_over(state: Decided[T_co] | Done, caller: Caller) -> bool:
    """Whether the user has said that this query replaces the one in the log.

    It holds for the first batch of a query that was never replaced itself, so that an option that
    was left on does no harm later.
    """
    replaced = caller.query in state.retired
    first = caller.query != state.query and caller.batch == _FIRST_BATCH
    return caller.reset and first and not replaced


@dataclass(frozen=True, slots=True)
class RollForward(Generic[T_co]):
    """Commit every transaction of `decided`, append `finished(decided)`, then ask again."""

    decided: Decided[T_co]


@dataclass(frozen=True, slots=True)
class Decide(Generic[T_co]):
    """Check that the transactions are alive, append `decided`, commit them, append `finished`.

    A decision without transactions is appended as `finished(decided)` alone.
    """

    decided: Decided[T_co]


@dataclass(frozen=True, slots=True)
class AlreadyDone:
    """The batch is in the topic: abort what `never_decided` names, and succeed.

    Append `found` first, if any: this run of the query has found the batch, and what else it writes
    under the same batchId and target is another write.
    """

    found: Done | None = None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Append `state`, then ask again; where the append is fenced or unclear, abort nothing.

    A commit() of the same tasks may still run although Spark has been told that it raised, and
    InitProducerId fences whoever came before, not whoever comes later. So what is to be aborted is
    marked first: a commit() with a newer epoch reads the mark and is refused.
    """

    state: Nothing | Done


@dataclass(frozen=True, slots=True)
class AbortOurs:
    """Nobody can decide the batch any more as our tasks wrote it: abort what they left open."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Abort ours, and raise."""

    refusal: Refusal


def next_commit_step(
    state: LogState[T_co], caller: Caller, transactions: tuple[T_co, ...]
) -> RollForward[T_co] | Decide[T_co] | AlreadyDone | Refuse:
    """What commit() does next. `state` was read after the caller's last InitProducerId."""
    if isinstance(state, Decided):
        return RollForward(state)
    verdict = judge(state, caller)
    if isinstance(verdict, Refusal):
        return Refuse(verdict)
    if verdict is Verdict.SKIP:
        return AlreadyDone(_found(state, caller))
    if caller.skipped:
        return Refuse(Refusal.SKIPPED)
    if not caller.nonces.isdisjoint(state.given_up):
        return Refuse(Refusal.GIVEN_UP)
    return Decide(_decided(state, caller, transactions))


def next_abort_step(
    state: LogState[T_co], caller: Caller
) -> RollForward[T_co] | GiveUp | AbortOurs:
    """What abort() does next. `state` was read after the caller's last InitProducerId.

    A decision that is found is rolled forward, as Spark calls abort() after a commit() that raised
    behind it.
    """
    if isinstance(state, Decided):
        return RollForward(state)
    new = sorted(caller.nonces.difference(state.given_up))
    if not new or judge(state, caller) in _NOTHING_TO_MARK:
        return AbortOurs()
    return GiveUp(replace(state, given_up=(*state.given_up, *new)[-MAX_GIVEN_UP:]))


def abort_needs_fence(*, complete: bool) -> bool:
    """Whether abort() must fence and read the log before it may abort the tasks' transactions.

    Spark calls commit() with the messages of all tasks alone. Where one is missing (not
    `complete`), it was never called, no decision can be under way, and a fence would only stop
    another driver.
    """
    return complete


def next_planning_step(state: LogState[T_co]) -> RollForward[T_co] | None:
    """What planning does with what it read, without a fence: it finishes, and never decides.

    It does not append `finished`, as it has no epoch; the next commit does.
    """
    return RollForward(state) if isinstance(state, Decided) else None


def finished(decided: Decided[T_co]) -> Done:
    """The state once every transaction of a decision is committed."""
    return Done(
        decided.query,
        decided.batch,
        decided.retired,
        rows=decided.rows,
        plannings=decided.plannings,
        topics=decided.topics,
    )


def _found(state: Nothing | Done, caller: Caller) -> Done | None:
    """The state with the caller's planning, unless it says nothing new."""
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
        caller.query,
        caller.batch,
        transactions,
        retired,
        caller.rows,
        plannings,
        caller.topics,
    )


def never_decided(state: LogState[T_co], ours: Iterable[str]) -> frozenset[str]:
    """Those of a caller's own transactional ids that it may abort, once it does not go on.

    `state` was read behind the fence. Ids of the decision are another call's of the same tasks,
    which raised after it had decided.
    """
    kept = state.transactional_ids if isinstance(state, Decided) else frozenset()
    return frozenset(ours) - kept
