"""Bugs that the search must find: protocols with one decision or step replaced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, commit_outcome
from spark_kafka_sink.exactly_once.protocol import (
    AbortOurs,
    AlreadyDone,
    Caller,
    Decide,
    Decided,
    Done,
    GiveUp,
    Nothing,
    Refusal,
    Refuse,
    RollForward,
    Verdict,
    judge,
    next_abort_step,
    next_commit_step,
)
from spark_kafka_sink.protocol.error_codes import ErrorCode
from tools.model.context import Rules
from tools.model.scenario import Goal, Runner, Scenario, Version
from tools.model.world import Pc, State, Transaction

if TYPE_CHECKING:
    from spark_kafka_sink.exactly_once.steps.orphans import Candidate

CommitStep = RollForward[Transaction] | Decide[Transaction] | AlreadyDone | Refuse
AbortStep = RollForward[Transaction] | GiveUp | AbortOurs


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A bug, the scenario that reveals it, and the first word of the violation."""

    name: str
    rules: Rules
    scenario: Scenario
    sign: str


def _never_checked(state: State, caller: Caller) -> Verdict | Refusal:
    return Verdict.WRITE


def _decides_always(
    state: State, caller: Caller, transactions: tuple[Transaction, ...]
) -> CommitStep:
    return Decide(Decided(caller.query, caller.batch, transactions))


def _same_query(state: State, caller: Caller) -> Caller:
    return caller if isinstance(state, Nothing) else replace(caller, query=state.query)


def _judges_any_query(state: State, caller: Caller) -> Verdict | Refusal:
    return judge(state, _same_query(state, caller))


def _commits_any_query(
    state: State, caller: Caller, transactions: tuple[Transaction, ...]
) -> CommitStep:
    step = next_commit_step(state, _same_query(state, caller), transactions)
    if isinstance(step, Decide):
        return Decide(replace(step.decided, query=caller.query))
    return step


def _without_retired(state: State) -> State:
    if isinstance(state, Done):
        return Done(state.query, state.batch)
    return replace(state, retired=()) if isinstance(state, Decided) else state


def _judges_replaced(state: State, caller: Caller) -> Verdict | Refusal:
    return judge(_without_retired(state), caller)


def _commits_replaced(
    state: State, caller: Caller, transactions: tuple[Transaction, ...]
) -> CommitStep:
    return next_commit_step(_without_retired(state), caller, transactions)


def _fenced_is_committed(code: int) -> EndOutcome:
    return EndOutcome.COMMITTED if code == ErrorCode.producer_fenced else commit_outcome(code)


def _any_other(state: State, candidate: Candidate, given_up: frozenset[str]) -> bool:
    decided = state.transactional_ids if isinstance(state, Decided) else frozenset()
    return candidate.transactional_id not in decided


def _leaves_no_mark(state: State, caller: Caller) -> AbortStep:
    step = next_abort_step(state, caller)
    return AbortOurs() if isinstance(step, GiveUp) else step


def _judges_any_write(state: State, caller: Caller) -> Verdict | Refusal:
    return judge(state, replace(caller, run=None))


def _commits_any_write(
    state: State, caller: Caller, transactions: tuple[Transaction, ...]
) -> CommitStep:
    return next_commit_step(state, replace(caller, run=None), transactions)


def _notes_nothing(
    state: State, caller: Caller, transactions: tuple[Transaction, ...]
) -> CommitStep:
    step = next_commit_step(state, caller, transactions)
    return AlreadyDone() if isinstance(step, AlreadyDone) else step


def _notes_itself_alone(
    state: State, caller: Caller, transactions: tuple[Transaction, ...]
) -> CommitStep:
    step = next_commit_step(state, caller, transactions)
    if not isinstance(step, AlreadyDone) or step.found is None:
        return step
    return AlreadyDone(replace(step.found, plannings=step.found.plannings[-1:]))


_ONE = (Runner(),)
_FUNCTION = Scenario(
    name="a function that writes twice",
    runners=_ONE,
    function=True,
    goal=Goal.FIRST,
    crashes=1,
)
_DIES = Scenario(name="one driver that crashes", runners=_ONE, batches=1, crashes=1)
_TWO = Scenario(name="two drivers", batches=1)
_QUERIES = (Runner(), Runner(query="q2", checkpoint=1))

PLANTED = (
    Planted(
        name="marker not checked",
        rules=Rules(judge=_never_checked, commit_step=_decides_always),
        scenario=_DIES,
        sign="DOUBLED",
    ),
    Planted(
        name="queryId not compared",
        rules=Rules(judge=_judges_any_query, commit_step=_commits_any_query),
        scenario=Scenario(name="two queries", runners=_QUERIES, batches=1, goal=Goal.ANY),
        sign="LOST",
    ),
    Planted(
        name="read before fence", rules=Rules(fence_first=False), scenario=_TWO, sign="DOUBLED"
    ),
    Planted(
        name="abort() does not read the log",
        rules=Rules(abort_reads=False),
        scenario=_DIES,
        sign="HARMED",
    ),
    Planted(
        name="decision appended after EndTxn",
        rules=Rules(deciding=(Pc.END, Pc.APPEND, Pc.DONE)),
        scenario=_DIES,
        sign="DOUBLED",
    ),
    Planted(name="epoch reused", rules=Rules(new_epoch=False), scenario=_TWO, sign="DOUBLED"),
    Planted(
        name="transactional ID without the attempt number",
        rules=Rules(attempt_in_id=False),
        scenario=Scenario(name="a lost attempt", runners=_ONE, batches=1, lost=(1, 0)),
        sign="HARMED",
    ),
    Planted(
        name="PRODUCER_FENCED (90) treated as success",
        rules=Rules(commit_outcome=_fenced_is_committed),
        scenario=Scenario(
            name="a timeout", runners=_ONE, batches=1, version=Version.V1, timeouts=1
        ),
        sign="LOST",
    ),
    Planted(
        name="empty transactions committed",
        rules=Rules(commits_empty=True),
        scenario=Scenario(
            name="a task without rows", runners=_ONE, batches=1, empty=frozenset({(0, 1)})
        ),
        sign="HARMED",
    ),
    Planted(
        name="every open transaction treated as an orphan",
        rules=Rules(is_orphan=_any_other),
        scenario=replace(_TWO, batches=2),
        sign="HARMED",
    ),
    Planted(
        name="abort() does not block a running commit()",
        rules=Rules(abort_step=_leaves_no_mark),
        scenario=Scenario(
            name="an interrupted commit()",
            runners=(Runner(), Runner(starts=False)),
            batches=1,
            interrupts=1,
        ),
        sign="HARMED",
    ),
    Planted(
        name="log not reread at the first append",
        rules=Rules(looks_again=False),
        scenario=replace(_TWO, stale=1),
        sign="DOUBLED",
    ),
    Planted(
        name="fenced commit() aborts a batch it may have decided",
        rules=Rules(minds_unclear=False),
        scenario=replace(_TWO, unclear=1, stale=1),
        sign="HARMED",
    ),
    Planted(
        name="writes of a function not distinguished",
        rules=Rules(judge=_judges_any_write, commit_step=_commits_any_write),
        scenario=_FUNCTION,
        sign="LOST",
    ),
    Planted(
        name="completed write not assigned to the run that finds it",
        rules=Rules(commit_step=_notes_nothing),
        scenario=_FUNCTION,
        sign="LOST",
    ),
    Planted(
        name="completed write assigned to the last run only",
        rules=Rules(commit_step=_notes_itself_alone),
        scenario=replace(_FUNCTION, name="two drivers of a function", runners=(Runner(), Runner())),
        sign="LOST",
    ),
    Planted(
        name="replaced query is accepted again",
        rules=Rules(judge=_judges_replaced, commit_step=_commits_replaced),
        scenario=Scenario(
            name="two queries that both reset",
            runners=tuple(replace(runner, reset=True) for runner in _QUERIES),
            batches=1,
            goal=Goal.ANY,
            crashes=1,
        ),
        sign="DOUBLED",
    ),
)
