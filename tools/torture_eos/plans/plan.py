"""What one run does, drawn from its seed alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from random import Random

from tools.torture_eos.plans.brokers import Brokers, Release
from tools.torture_eos.plans.kinds import SHARED, Deed, Kind, Sink
from tools.torture_eos.plans.recipes import RECIPES, TEARING, Profile, Recipe, ends_of, steps_of
from tools.torture_eos.plans.source import Source
from tools.torture_eos.plans.steps import LOG, TWICE, UNNUMBERED, Step, Stop

ARROW_ROWS = 20
_ACCOMPANIED = frozenset(
    {
        Kind.WORKER_KILLED,
        Kind.COMMIT_KILLED,
        Kind.COMMIT_RAISES,
        Kind.DRIVER_KILLED,
        Kind.QUERY_STOPPED,
        Kind.BROKER_KILLED,
        Kind.NETWORK_CUT,
        Kind.DRIVER_KILLED_DECIDING,
        Kind.DRIVER_KILLED_ENDING,
        Kind.BROKER_KILLED_ENDING,
        Kind.NETWORK_CUT_ENDING,
        Kind.COORDINATOR_MOVED,
    }
)
_ACCOMPANYING = (
    Kind.WORKER_KILLED,
    Kind.COMMIT_KILLED,
    Kind.COMMIT_RAISES,
    Kind.BROKER_KILLED,
    Kind.DRIVER_KILLED,
)
_FURTHER = 0.35
"""How many of the runs have another fault beside that of their kind."""
_NAP_MS = 12
_UNLISTED_TIMEOUT_MS = 60_000
_MANY_ROWS = (45, 80, 110)
_ROWS = (0, 1, 3, 30, 70, 150)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`deed` is done when `stop` is reached; `node`: to which broker, `seconds`: for how long.

    One that is `optional` may find that no process comes to its step.
    """

    stop: Stop
    deed: Deed
    node: int
    seconds: float
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that a run needs beside a cluster."""

    seed: int
    kind: Kind
    sink: Sink
    brokers: Brokers
    profile: Profile
    shuffled: bool
    job: bool
    """A batch job with a batchId, else a stream."""
    source: Source
    faults: tuple[Fault, ...]
    timeout_ms: int | None
    bug: str = ""
    """What is planted into the sink, see `seam.bugs`."""

    @property
    def nodes(self) -> int:
        return self.brokers.nodes

    @property
    def must_tear(self) -> bool:
        """Whether a batch is torn; transactions of two phases have no timeout."""
        return self.kind in TEARING and not (self.kind is Kind.TORN and self.brokers.two_phase)

    @property
    def where(self) -> str:
        """The steps, and of further faults what is done."""
        told = [str(fault.stop) for fault in self.faults[:1]]
        told += [f"{fault.deed} at {fault.stop}" for fault in self.faults[1:]]
        return ", ".join(told) or "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is not drawn; None is."""

    kind: Kind | None = None
    step: Step | None = None
    nodes: int | None = None
    release: Release = Release.V4_3_1
    two_phase: bool = False


def draw(seed: int, sink: Sink, choice: Choice = Choice()) -> Plan:
    """The plan of a seed."""
    random = Random(f"{seed}/{sink}")
    kind = choice.kind or _kind_of(seed, sink)
    recipe = RECIPES[kind]
    nodes = choice.nodes or _nodes_of(seed, sink, kind)
    two_phase = choice.two_phase and sink not in SHARED
    brokers = Brokers(nodes=nodes, release=choice.release, two_phase=two_phase)
    batch = random.randrange(2)
    faults = _faults(random, recipe, sink, (nodes, batch), choice.step)
    if kind in _ACCOMPANIED and not choice.step:
        faults = (*faults, *_further(Random(f"{seed}/further"), sink, (nodes, 1 - batch)))
    return Plan(
        seed=seed,
        kind=kind,
        sink=sink,
        brokers=brokers,
        profile=recipe.profile,
        shuffled=recipe.shuffled,
        job=recipe.job,
        source=_source(random, seed, sink, recipe, batch),
        faults=faults,
        timeout_ms=_timeout_ms(recipe, brokers),
    )


def _timeout_ms(recipe: Recipe, brokers: Brokers) -> int | None:
    if brokers.two_phase:
        return None
    return recipe.timeout_ms or (None if brokers.lists_transactions else _UNLISTED_TIMEOUT_MS)


@cache
def kinds_in_turn(sink: Sink) -> tuple[Kind, ...]:
    """Each kind as often as its recipe says; so many seeds in a row meet them all."""
    kinds = {kind: recipe for kind, recipe in RECIPES.items() if sink in recipe.sinks}
    turns = [kind for kind, recipe in kinds.items() for _ in range(recipe.often)]
    Random(sink).shuffle(turns)
    return tuple(turns)


def _kind_of(seed: int, sink: Sink) -> Kind:
    turns = kinds_in_turn(sink)
    return turns[seed % len(turns)]


def _nodes_of(seed: int, sink: Sink, kind: Kind) -> int:
    """The runs of a kind take the numbers of nodes in turn."""
    turns = kinds_in_turn(sink)
    rounds, place = divmod(seed, len(turns))
    before = rounds * turns.count(kind) + turns[:place].count(kind)
    nodes = RECIPES[kind].nodes
    return nodes[before % len(nodes)]


def _faults(
    random: Random, recipe: Recipe, sink: Sink, where: tuple[int, int], step: Step | None
) -> tuple[Fault, ...]:
    steps = steps_of(recipe, sink)
    if not steps:
        return ()
    nodes, batch = where
    chosen = random.choice(sorted(steps))
    step = step or chosen
    hit = random.choice((1, 2))
    tears = recipe.deed in {Deed.OUTLAST, Deed.FENCE_TASKS} and step is Step.APPENDED
    if step not in TWICE or tears or (sink in SHARED and step is not Step.TASK_APPENDED):
        hit = 1
    seconds = random.uniform(*recipe.seconds)
    if recipe.deed is Deed.OUTLAST and recipe.timeout_ms is not None:
        seconds = recipe.timeout_ms / 1000 + 2
    fault = Fault(
        stop=Stop(step=step, batch=None if recipe.job or step in UNNUMBERED else batch, hit=hit),
        deed=recipe.deed,
        node=random.randrange(1, nodes + 1),
        seconds=round(seconds, 2),
    )
    if not recipe.until:
        return (fault,)
    end = random.choice(ends_of(recipe, sink))
    hit = 1
    if recipe.deed is Deed.START_SECOND and end in TWICE and sink not in SHARED:
        hit = random.choice((1, 2))
    deed = Deed.LET_FIRST_GO if recipe.deed is Deed.START_SECOND else Deed.WAKE
    until = Fault(
        stop=Stop(step=end, batch=None if end in UNNUMBERED else batch, hit=hit, after=0),
        deed=deed,
        node=fault.node,
        seconds=2.0,
        optional=deed is Deed.LET_FIRST_GO,
    )
    return (fault, until)


def _further(random: Random, sink: Sink, where: tuple[int, int]) -> tuple[Fault, ...]:
    """Sometimes another fault in another batch."""
    if random.random() >= _FURTHER:
        return ()
    recipe = RECIPES[random.choice(_ACCOMPANYING)]
    if sink not in recipe.sinks:
        return ()
    return tuple(replace(one, optional=True) for one in _faults(random, recipe, sink, where, None))


def _source(random: Random, seed: int, sink: Sink, recipe: Recipe, batch: int) -> Source:
    """The batch of the fault has rows for several Arrow batches in each task, the last one some."""
    per_batch = random.choice((2, 3))
    batches = random.choice((3, 4))
    explicit = recipe.shuffled or random.random() < 0.6
    rows = [
        random.choice(_MANY_ROWS if number in (batch, batches - 1) else _ROWS)
        for number in range(batches)
        for _ in range(per_batch)
    ]
    if recipe.job:
        rows = [random.choice(_MANY_ROWS) for _ in rows]
        per_batch = len(rows)
    total = sum(rows)
    first = batch * per_batch
    slow = range(first, first + per_batch) if recipe.slow else ()
    can_refuse = explicit and sink is not Sink.SPARK and sink not in SHARED
    dead = random.sample(range(total), min(total, 5)) if can_refuse else []
    return Source(
        seed=seed,
        rows=tuple(rows),
        files_per_batch=per_batch,
        partitions=random.choice((3, 4) if recipe.shuffled else (1, 3, 4)),
        value_size=random.choice((5, 60, 400)),
        explicit=explicit,
        dead=frozenset(dead),
        slow=frozenset(slow),
        nap_ms=_NAP_MS,
    )


def is_watched(stop: Stop) -> bool:
    """Whether the harness itself sees the step, in the topic."""
    return stop.step in LOG
