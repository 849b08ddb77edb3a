"""The invariants, the exhaustive search of a scenario, counterexamples, and planted bugs."""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome, end_txn_outcome
from spark_kafka_sink.exactly_once.decision_rules import (
    AbortTasks,
    AlreadyDone,
    BatchVerdict,
    BatchWrite,
    Decide,
    GiveUp,
    RejectBatch,
    RollForward,
    batch_verdict,
    next_abort_step,
    next_commit_step,
)
from spark_kafka_sink.exactly_once.orphan_rules import OrphanCandidate
from spark_kafka_sink.exactly_once.scope_state import Decided, Done, NoDecision
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from tools.model.model_state import Pc, State, Status, Transaction, Version, World, describe_log
from tools.model.scenario import INTERRUPTED, ONE, QUERIES, RESETTING, TASKS, Goal, Runner, Scenario
from tools.model.steps import successors
from tools.model.turn import Context, Rules

_ALIVE = frozenset({Status.OPEN, Status.COMMITTED, Status.TIMED_OUT})
CommitStep = RollForward[Transaction] | Decide[Transaction] | AlreadyDone | RejectBatch
AbortStep = RollForward[Transaction] | GiveUp | AbortTasks
_State = Callable[[State], State]
_Caller = Callable[[State, BatchWrite], BatchWrite]
_FUNCTION = Scenario(
    name="a function that writes twice", runners=ONE, function=True, goal=Goal.FIRST, crashes=1
)
_DIES = Scenario(name="one driver that crashes", runners=ONE, batches=1, crashes=1)
_TWO = Scenario(name="two drivers", batches=1)


def violation(scenario: Scenario, world: World) -> str | None:
    """Return a description of the violation in a world, or None."""
    for row in world.visible:
        if world.visible.count(row) > 1:
            return f"DOUBLED: the rows of task {row[2]}, batch {row[1]}, are visible twice"
    for query, name, batch in _promised(scenario, world):
        for partition in range(TASKS):
            rows = (query, name, partition)
            if scenario.has_rows(batch, partition) and rows not in world.visible:
                return f"LOST: batch {name} counts as done without the rows of task {partition}"
    if any(driver.pc is Pc.TORN for driver in world.drivers) and not is_torn(world):
        return "FALSE ALARM: a batch is reported as torn, but no transaction has timed out"
    return _harmed(world)


def is_torn(world: World) -> bool:
    """Return True if a decided transaction has timed out (a known limit of the protocol)."""
    return isinstance(world.log, Decided) and any(
        world.status_of(transaction) is Status.TIMED_OUT for transaction in world.log.transactions
    )


def reached(scenario: Scenario, world: World) -> bool:
    """Return True if the scenario's goal is reached, or a torn batch has stopped a query."""
    if is_torn(world):
        return any(driver.pc is Pc.TORN for driver in world.drivers)
    if scenario.goal is Goal.FIRST:
        first = (scenario.runners[0].query, scenario.rows_name(0, 0))
        return all((*first, partition) in world.visible for partition in range(TASKS))
    complete = [count == scenario.batches for count in world.spark]
    return all(complete) if scenario.goal is Goal.ALL else any(complete)


def _promised(scenario: Scenario, world: World) -> Iterator[tuple[str | None, str, int]]:
    """Yield (query, batch name, batch) of each batch that is done.

    A batch is done if it is in Spark's commit log or has a done record in the decision log.
    """
    for index, runner in enumerate(scenario.runners):
        for batch in range(world.spark[runner.checkpoint]):
            yield runner.query, scenario.rows_name(index, batch), batch
    if isinstance(world.log, Done) and not scenario.function:
        number = 0 if world.log.query_id is None else int(world.log.batch)
        yield world.log.query_id, world.log.batch, number


def _harmed(world: World) -> str | None:
    if isinstance(world.log, Decided):
        for transaction in world.log.transactions:
            status = world.status_of(transaction)
            if status not in _ALIVE:
                return f"HARMED: {transaction.name} is decided, but it is {status.value}"
    return None


@dataclass(frozen=True, slots=True)
class Event:
    """A step of an actor, or a fault."""

    who: str
    what: str
    world: World
    """The world after the step."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """The shortest run that violates an invariant or from whose end no goal is reachable."""

    violation: str
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """Statistics of a search, and its counterexample, if any."""

    worlds: int
    transitions: int
    torn: int
    """The number of worlds in which a decided transaction has timed out."""
    counterexample: Counterexample | None


class _Graph:
    """The graph of worlds, which are numbered in order of discovery."""

    def __init__(self, start: World) -> None:
        self.worlds = [start]
        self._numbers = {start: 0}
        self._reached_by: list[tuple[int, str, str]] = [(-1, "", "")]
        self.sources = array("l")
        self.targets = array("l")

    def add(self, source: int, who: str, what: str, world: World) -> bool:
        """Add a transition; return True if the world is new."""
        number = self._numbers.setdefault(world, len(self.worlds))
        self.sources.append(source)
        self.targets.append(number)
        if number < len(self.worlds):
            return False
        self.worlds.append(world)
        self._reached_by.append((source, who, what))
        return True

    def run_to(self, number: int) -> tuple[Event, ...]:
        """Return a shortest run from the initial state to the given world."""
        events = []
        while number > 0:
            source, who, what = self._reached_by[number]
            events.append(Event(who, what, self.worlds[number]))
            number = source
        return tuple(reversed(events))

    def without_a_way_to(self, goals: set[int]) -> int | None:
        """Return the first world from which no goal is reachable."""
        before: list[list[int]] = [[] for _ in self.worlds]
        for source, target in zip(self.sources, self.targets, strict=True):
            before[target].append(source)
        seen = set(goals)
        front = list(goals)
        while front:
            for source in before[front.pop()]:
                if source not in seen:
                    seen.add(source)
                    front.append(source)
        return next((number for number in range(len(self.worlds)) if number not in seen), None)


def search(scenario: Scenario, rules: Rules | None = None) -> Result:
    """Search all interleavings of steps and faults in a scenario, until the first violation."""
    context = Context(scenario, Rules() if rules is None else rules)
    graph = _Graph(scenario.start())
    problem = None
    source = 0
    while source < len(graph.worlds) and problem is None:
        for who, what, world in successors(context, graph.worlds[source]):
            if graph.add(source, who, what, world):
                problem = violation(scenario, world)
                if problem is not None:
                    break
        source += 1
    counterexample = _stuck(scenario, graph) if problem is None else None
    if problem is not None:
        counterexample = Counterexample(problem, graph.run_to(len(graph.worlds) - 1))
    torn = sum(1 for world in graph.worlds if is_torn(world))
    return Result(len(graph.worlds), len(graph.sources), torn, counterexample)


def _stuck(scenario: Scenario, graph: _Graph) -> Counterexample | None:
    goals = {number for number, world in enumerate(graph.worlds) if reached(scenario, world)}
    stuck = graph.without_a_way_to(goals)
    if stuck is None:
        return None
    return Counterexample("STUCK: the goal is unreachable from here", graph.run_to(stuck))


def describe(start: World, counterexample: Counterexample) -> str:
    """Return a text with one line per step, followed by the violation."""
    lines = []
    before = start
    for number, event in enumerate(counterexample.events, start=1):
        changes = "; ".join(_changes(before, event.world))
        lines.append(f"{number:3} {event.who}: {event.what}{f'  [{changes}]' if changes else ''}")
        before = event.world
    return "\n".join([*lines, counterexample.violation])


def _changes(before: World, after: World) -> Iterator[str]:
    if before.log != after.log:
        yield f"log: {describe_log(after.log)}"
    old = dict(before.transactions)
    for transaction, status in after.transactions:
        if old.get(transaction) is not status:
            yield f"{transaction.name} is {status.value}"
    for rows in after.visible:
        if after.visible.count(rows) != before.visible.count(rows):
            yield f"rows of {rows[0] or 'job'}/{rows[1]}/p{rows[2]} are visible"
            break


@dataclass(frozen=True)
class Planted:
    """A bug, the scenario that reveals it, and the expected first word of the violation."""

    name: str
    rules: Rules
    scenario: Scenario
    sign: str


def _deciding(
    state: _State = lambda log: log, batch_write: _Caller = lambda _, batch_write: batch_write
) -> Rules:
    """Return rules in which all functions up to the decision to commit get other arguments."""
    return Rules(
        batch_verdict=lambda log, who: batch_verdict(state(log), batch_write(log, who)),
        commit_step=lambda log, who, ours: next_commit_step(
            state(log), batch_write(log, who), ours
        ),
    )


def _same_query(state: State, batch_write: BatchWrite) -> BatchWrite:
    return (
        batch_write
        if isinstance(state, NoDecision)
        else replace(batch_write, query_id=state.query_id)
    )


def _commits_any_query(
    state: State, batch_write: BatchWrite, ours: tuple[Transaction, ...]
) -> CommitStep:
    step = next_commit_step(state, _same_query(state, batch_write), ours)
    return (
        Decide(replace(step.decided, query_id=batch_write.query_id))
        if isinstance(step, Decide)
        else step
    )


def _without_retired(state: State) -> State:
    if isinstance(state, Done):
        return Done(query_id=state.query_id, batch=state.batch)
    return replace(state, retired_query_ids=()) if isinstance(state, Decided) else state


def _fenced_is_committed(code: int) -> EndOutcome:
    return EndOutcome.COMMITTED if code == ErrorCode.producer_fenced else end_txn_outcome(code)


def _any_other(state: State, candidate: OrphanCandidate, given_up: frozenset[str]) -> bool:
    decided = state.transactional_ids if isinstance(state, Decided) else frozenset()
    return candidate.transactional_id not in decided


def _leaves_no_mark(state: State, batch_write: BatchWrite) -> AbortStep:
    step = next_abort_step(state, batch_write)
    return AbortTasks() if isinstance(step, GiveUp) else step


def _notes_nothing(
    state: State, batch_write: BatchWrite, ours: tuple[Transaction, ...]
) -> CommitStep:
    step = next_commit_step(state, batch_write, ours)
    return AlreadyDone() if isinstance(step, AlreadyDone) else step


def _notes_itself_alone(
    state: State, batch_write: BatchWrite, ours: tuple[Transaction, ...]
) -> CommitStep:
    step = next_commit_step(state, batch_write, ours)
    if not isinstance(step, AlreadyDone) or step.done is None:
        return step
    return AlreadyDone(replace(step.done, plannings=step.done.plannings[-1:]))


def _single_batch(name: str, **faults: Any) -> Scenario:
    return Scenario(name=name, runners=ONE, batches=1, **faults)


PLANTED = (
    Planted(
        "marker not checked",
        Rules(
            batch_verdict=lambda _, __: BatchVerdict.WRITE,
            commit_step=lambda _, batch_write, ours: Decide(
                Decided(query_id=batch_write.query_id, batch=batch_write.batch, transactions=ours)
            ),
        ),
        _DIES,
        "DOUBLED",
    ),
    Planted(
        "queryId not compared",
        replace(_deciding(batch_write=_same_query), commit_step=_commits_any_query),
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
        "transactional id without the attempt number",
        Rules(attempt_in_id=False),
        _single_batch("a lost attempt", lost=(1, 0)),
        "HARMED",
    ),
    Planted(
        "PRODUCER_FENCED (90) treated as success",
        Rules(end_txn_outcome=_fenced_is_committed),
        _single_batch("a timeout", version=Version.V1, timeouts=1),
        "LOST",
    ),
    Planted(
        "empty transactions committed",
        Rules(commits_empty=True),
        _single_batch("a task without rows", empty=frozenset({(0, 1)})),
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
        Scenario(name="an interrupted commit()", runners=INTERRUPTED, batches=1, interrupts=1),
        "HARMED",
    ),
    Planted(
        "log not reread at the first append",
        Rules(rereads_log=False),
        replace(_TWO, stale=1),
        "DOUBLED",
    ),
    Planted(
        "fenced commit() aborts a batch it may have decided",
        Rules(keeps_unclear=False),
        replace(_TWO, unclear=1, stale=1),
        "HARMED",
    ),
    Planted(
        "writes of a function not distinguished",
        _deciding(batch_write=lambda _, batch_write: replace(batch_write, run_id=None)),
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
