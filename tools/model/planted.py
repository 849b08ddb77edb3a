"""Bugs that the search must find: protocols in which one decision or step is replaced."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

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
    Refuse,
    RollForward,
    Verdict,
    judge,
    next_abort_step,
    next_commit_step,
)
from spark_kafka_sink.exactly_once.steps.orphans import Candidate
from spark_kafka_sink.protocol.error_codes import ErrorCode
from tools.model.context import Rules
from tools.model.scenario import GHOST, ONE, QUERIES, RESETTING, Goal, Runner, Scenario
from tools.model.world import Pc, State, Transaction, Version

CommitStep = RollForward[Transaction] | Decide[Transaction] | AlreadyDone | Refuse
AbortStep = RollForward[Transaction] | GiveUp | AbortOurs


_State = Callable[[State], State]
_Caller = Callable[[State, Caller], Caller]


@dataclass(frozen=True)
class Planted:
    """A bug, the scenario that reveals it, and the expected first word of the violation."""

    name: str
    rules: Rules
    scenario: Scenario
    sign: str


def _deciding(state: _State = lambda log: log, caller: _Caller = lambda _, caller: caller) -> Rules:
    """Return rules in which all functions up to the decision to commit get other arguments."""
    return Rules(
        judge=lambda log, who: judge(state(log), caller(log, who)),
        commit_step=lambda log, who, ours: next_commit_step(state(log), caller(log, who), ours),
    )


def _same_query(state: State, caller: Caller) -> Caller:
    return caller if isinstance(state, Nothing) else replace(caller, query=state.query)


def _commits_any_query(state: State, caller: Caller, ours: tuple[Transaction, ...]) -> CommitStep:
    step = next_commit_step(state, _same_query(state, caller), ours)
    return Decide(replace(step.decided, query=caller.query)) if isinstance(step, Decide) else step


def _without_retired(state: State) -> State:
    if isinstance(state, Done):
        return Done(state.query, state.batch)
    return replace(state, retired=()) if isinstance(state, Decided) else state


def _fenced_is_committed(code: int) -> EndOutcome:
    return EndOutcome.COMMITTED if code == ErrorCode.producer_fenced else commit_outcome(code)


def _any_other(state: State, candidate: Candidate, given_up: frozenset[str]) -> bool:
    decided = state.transactional_ids if isinstance(state, Decided) else frozenset()
    return candidate.transactional_id not in decided


def _leaves_no_mark(state: State, caller: Caller) -> AbortStep:
    step = next_abort_step(state, caller)
    return AbortOurs() if isinstance(step, GiveUp) else step


def _notes_nothing(state: State, caller: Caller, ours: tuple[Transaction, ...]) -> CommitStep:
    step = next_commit_step(state, caller, ours)
    return AlreadyDone() if isinstance(step, AlreadyDone) else step


def _notes_itself_alone(state: State, caller: Caller, ours: tuple[Transaction, ...]) -> CommitStep:
    step = next_commit_step(state, caller, ours)
    if not isinstance(step, AlreadyDone) or step.found is None:
        return step
    return AlreadyDone(replace(step.found, plannings=step.found.plannings[-1:]))


_FUNCTION = Scenario(
    name="a function that writes twice", runners=ONE, function=True, goal=Goal.FIRST, crashes=1
)
_DIES = Scenario(name="one driver that crashes", runners=ONE, batches=1, crashes=1)
_TWO = Scenario(name="two drivers", batches=1)


def _one(name: str, **faults: Any) -> Scenario:
    return Scenario(name=name, runners=ONE, batches=1, **faults)


PLANTED = (
    Planted(
        "marker not checked",
        Rules(
            judge=lambda _, __: Verdict.WRITE,
            commit_step=lambda _, caller, ours: Decide(Decided(caller.query, caller.batch, ours)),
        ),
        _DIES,
        "DOUBLED",
    ),
    Planted(
        "queryId not compared",
        replace(_deciding(caller=_same_query), commit_step=_commits_any_query),
        Scenario(name="two queries", runners=QUERIES, batches=1, goal=Goal.ANY),
        "LOST",
    ),
    Planted("read before fence", Rules(fence_first=False), _TWO, "DOUBLED"),
    Planted("abort() does not read the log", Rules(abort_reads=False), _DIES, "HARMED"),
    Planted(
        "decision appended after EndTxn",
        Rules(deciding=(Pc.END, Pc.APPEND, Pc.DONE)),
        _DIES,
        "DOUBLED",
    ),
    Planted("epoch reused", Rules(new_epoch=False), _TWO, "DOUBLED"),
    Planted(
        "transactional ID without the attempt number",
        Rules(attempt_in_id=False),
        _one("a lost attempt", lost=(1, 0)),
        "HARMED",
    ),
    Planted(
        "PRODUCER_FENCED (90) treated as success",
        Rules(commit_outcome=_fenced_is_committed),
        _one("a timeout", version=Version.V1, timeouts=1),
        "LOST",
    ),
    Planted(
        "empty transactions committed",
        Rules(commits_empty=True),
        _one("a task without rows", empty=frozenset({(0, 1)})),
        "HARMED",
    ),
    Planted(
        "every open transaction treated as an orphan",
        Rules(is_orphan=_any_other),
        replace(_TWO, batches=2),
        "HARMED",
    ),
    Planted(
        "abort() does not block a running commit()",
        Rules(abort_step=_leaves_no_mark),
        Scenario(name="an interrupted commit()", runners=GHOST, batches=1, interrupts=1),
        "HARMED",
    ),
    Planted(
        "log not reread at the first append",
        Rules(looks_again=False),
        replace(_TWO, stale=1),
        "DOUBLED",
    ),
    Planted(
        "fenced commit() aborts a batch it may have decided",
        Rules(minds_unclear=False),
        replace(_TWO, unclear=1, stale=1),
        "HARMED",
    ),
    Planted(
        "writes of a function not distinguished",
        _deciding(caller=lambda _, caller: replace(caller, run=None)),
        _FUNCTION,
        "LOST",
    ),
    Planted(
        "completed write not assigned to the run that finds it",
        Rules(commit_step=_notes_nothing),
        _FUNCTION,
        "LOST",
    ),
    Planted(
        "completed write assigned to the last run only",
        Rules(commit_step=_notes_itself_alone),
        replace(_FUNCTION, name="two drivers of a function", runners=(Runner(), Runner())),
        "LOST",
    ),
    Planted(
        "replaced query is accepted again",
        _deciding(state=_without_retired),
        replace(RESETTING, batches=1, crashes=1),
        "DOUBLED",
    ),
)
