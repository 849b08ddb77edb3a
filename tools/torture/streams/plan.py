"""The plan of a run, which depends only on the seed."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tools.torture.cluster import Brokers, Release
from tools.torture.streams.scenarios import (
    SCENARIOS,
    SHARED,
    TEARING,
    TWICE,
    UNNUMBERED,
    Action,
    Kind,
    Profile,
    Scenario,
    Sink,
    Step,
    Stop,
    reachable,
)

NO_PARTITION = 999
"""Partition of records that must be written to the dead letter topic."""
_FIRST_MTIME = 1_700_000_000
_KEYS = 17
ARROW_ROWS = 20
_NAP_MS = 12
_UNLISTED_TIMEOUT_MS = 60_000
_MANY_ROWS = (45, 80, 110)
_ROWS = (0, 1, 3, 30, 70, 150)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The files of a run, whose records are numbered from 0 across all files.

    `rows` contains the row count of each file. With `explicit`, records specify their partition;
    otherwise they have keys. `dead` contains the numbers of the records for the dead letter topic.
    Each row of the files in `slow` takes `nap_ms` milliseconds. The last micro-batch starts after
    all other micro-batches are complete.
    """

    seed: int
    rows: tuple[int, ...]
    files_per_batch: int
    partitions: int
    value_size: int
    explicit: bool
    dead: frozenset[int] = frozenset()
    slow: frozenset[int] = frozenset()
    nap_ms: int = 0

    @property
    def total(self) -> int:
        return sum(self.rows)

    @property
    def batches(self) -> int:
        return -(-len(self.rows) // self.files_per_batch)

    @property
    def starts(self) -> tuple[int, ...]:
        """The first record number of each file."""
        return tuple(accumulate(self.rows, initial=0))[:-1]

    def files_of(self, batch: int) -> range:
        """Return the files of a micro-batch."""
        return range(len(self.rows))[batch * self.files_per_batch :][: self.files_per_batch]

    def numbers_of(self, batch: int) -> range:
        """Return the record numbers of a micro-batch."""
        files = self.files_of(batch)
        first = self.starts[files[0]]
        return range(first, first + sum(self.rows[file] for file in files))

    def good_before(self, number: int) -> int:
        """Return how many records with lower numbers must be in the topic."""
        return number - sum(dead < number for dead in self.dead)

    def file_of(self, number: int) -> int:
        """Return the file that contains a record number; one task writes each file in order."""
        return max(file for file, start in enumerate(self.starts) if start <= number)

    def place(self, number: int) -> int:
        """Return the explicit partition of a record, if records specify partitions."""
        return NO_PARTITION if number in self.dead else number // 3 % self.partitions

    def write(self, folder: Path, batches: Iterable[int]) -> None:
        """Write the files of micro-batches; the stream reads them in order of modification time."""
        folder.mkdir(parents=True, exist_ok=True)
        for file in (file for batch in batches for file in self.files_of(batch)):
            # Spark's file source ignores names that start with a dot.
            hidden, path = folder / f".{file:04}", folder / f"{file:04}.parquet"
            pq.write_table(self._table(file), hidden)
            os.utime(hidden, (_FIRST_MTIME + file, _FIRST_MTIME + file))
            hidden.rename(path)

    def _table(self, file: int) -> pa.Table:
        random = Random(f"{self.seed}/{file}")
        start, count = self.starts[file], self.rows[file]
        numbers = range(start, start + count)
        nap = self.nap_ms if file in self.slow else 0
        values = [f"{number}:{'.' * random.randrange(self.value_size)}" for number in numbers]
        return pa.table(
            {
                "value": pa.array(values, pa.string()),
                "key": pa.array([f"key-{number % _KEYS}" for number in numbers], pa.string()),
                "place": pa.array([self.place(number) for number in numbers], pa.int32()),
                "nap": pa.array([nap] * count, pa.int64()),
            }
        )


def number_of(value: bytes | None) -> int:
    """Return the record number in a value."""
    return int((value or b"-1:").split(b":", 1)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An action that runs when a step is reached.

    `node` is the affected broker, if any. `seconds` is the duration of the action. If the fault is
    `optional`, its step need not be reached.
    """

    stop: Stop
    action: Action
    node: int
    seconds: float
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All parameters of a run except the cluster."""

    seed: int
    kind: Kind
    sink: Sink
    brokers: Brokers
    profile: Profile
    shuffled: bool
    job: bool
    """True for a batch job with a batchId, False for a stream."""
    source: Source
    faults: tuple[Fault, ...]
    timeout_ms: int | None
    bug: str = ""
    """The bug that is planted into the sink; see `injection.hooks.Bug`."""

    @property
    def nodes(self) -> int:
        return self.brokers.nodes

    @property
    def labels(self) -> dict[str, Any]:
        """The fields of the run's line in the ledger that do not depend on its result."""
        return {
            "kind": self.kind,
            "step": self.where,
            "sink": self.sink,
            "seed": self.seed,
            "nodes": self.nodes,
            "kafka": self.brokers.release,
            "two_phase": self.brokers.two_phase,
            "records": self.source.total,
        }

    @property
    def must_tear(self) -> bool:
        """True if the batch must be torn. Two-phase transactions have no timeout."""
        return self.kind in TEARING and not (self.kind is Kind.TORN and self.brokers.two_phase)

    @property
    def where(self) -> str:
        """The steps of the faults, and the actions of additional faults."""
        places = [str(fault.stop) for fault in self.faults[:1]]
        places += [f"{fault.action} at {fault.stop}" for fault in self.faults[1:]]
        return ", ".join(places) or "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Properties of a plan that are not drawn from the seed. Properties that are None are drawn."""

    kind: Kind | None = None
    step: Step | None = None
    nodes: int | None = None
    release: Release = Release.V4_3_1
    two_phase: bool = False


def draw(seed: int, sink: Sink, choice: Choice = Choice()) -> Plan:
    """Return the plan for a seed."""
    random = Random(f"{seed}/{sink}")
    turns = kinds_in_turn(sink)
    kind = choice.kind or turns[seed % len(turns)]
    scenario = SCENARIOS[kind]
    nodes = choice.nodes or _nodes_of(seed, sink, kind)
    two_phase = choice.two_phase and sink not in SHARED
    brokers = Brokers(nodes=nodes, release=choice.release, two_phase=two_phase)
    unlisted_ms = None if brokers.lists_transactions else _UNLISTED_TIMEOUT_MS
    timeout_ms = scenario.timeout_ms or unlisted_ms
    batch = random.randrange(2)
    faults = _faults(random, scenario, sink, (nodes, batch), choice.step)
    return Plan(
        seed=seed,
        kind=kind,
        sink=sink,
        brokers=brokers,
        profile=scenario.profile,
        shuffled=scenario.shuffled,
        job=scenario.job,
        source=_source(random, seed, sink, scenario, batch),
        faults=faults,
        timeout_ms=None if brokers.two_phase else timeout_ms,
    )


@cache
def kinds_in_turn(sink: Sink) -> tuple[Kind, ...]:
    """Return the kinds, repeated by weight, so that consecutive seeds cover all kinds."""
    kinds = {kind: scenario for kind, scenario in SCENARIOS.items() if sink in scenario.sinks}
    turns = [kind for kind, scenario in kinds.items() for _ in range(scenario.often)]
    Random(sink).shuffle(turns)
    return tuple(turns)


def _nodes_of(seed: int, sink: Sink, kind: Kind) -> int:
    """Return the number of nodes for a seed, which varies between the runs of a kind."""
    turns = kinds_in_turn(sink)
    rounds, place = divmod(seed, len(turns))
    before = rounds * turns.count(kind) + turns[:place].count(kind)
    nodes = SCENARIOS[kind].nodes
    return nodes[before % len(nodes)]


def _faults(
    random: Random, scenario: Scenario, sink: Sink, where: tuple[int, int], step: Step | None
) -> tuple[Fault, ...]:
    steps = reachable(scenario.steps, sink)
    if not steps:
        return ()
    nodes, batch = where
    chosen = random.choice(sorted(steps))
    step = step or chosen
    hit = random.choice((1, 2))
    tears = scenario.action in {Action.EXCEED_TIMEOUT, Action.FENCE_TASKS} and step is Step.APPENDED
    if step not in TWICE or tears or (sink in SHARED and step is not Step.TASK_APPENDED):
        hit = 1
    seconds = random.uniform(*scenario.seconds)
    if scenario.action is Action.EXCEED_TIMEOUT and scenario.timeout_ms is not None:
        seconds = scenario.timeout_ms / 1000 + 2
    fault = Fault(
        stop=Stop(step=step, batch=None if scenario.job or step in UNNUMBERED else batch, hit=hit),
        action=scenario.action,
        node=random.randrange(1, nodes + 1),
        seconds=round(seconds, 2),
    )
    if not scenario.until:
        return (fault,)
    end = random.choice(reachable(scenario.until, sink))
    hit = 1
    if scenario.action is Action.START_SECOND and end in TWICE and sink not in SHARED:
        hit = random.choice((1, 2))
    action = Action.RELEASE_FIRST if scenario.action is Action.START_SECOND else Action.WAKE
    until = Fault(
        stop=Stop(step=end, batch=None if end in UNNUMBERED else batch, hit=hit, after=0),
        action=action,
        node=fault.node,
        seconds=2.0,
        optional=action is Action.RELEASE_FIRST,
    )
    return (fault, until)


def _source(random: Random, seed: int, sink: Sink, scenario: Scenario, batch: int) -> Source:
    """Return a source whose tasks have several Arrow batches in the batch of the fault."""
    per_batch = random.choice((2, 3))
    batches = random.choice((3, 4))
    explicit = scenario.shuffled or random.random() < 0.6
    rows = [
        random.choice(_MANY_ROWS if number in (batch, batches - 1) else _ROWS)
        for number in range(batches)
        for _ in range(per_batch)
    ]
    if scenario.job:
        rows = [random.choice(_MANY_ROWS) for _ in rows]
        per_batch = len(rows)
    total = sum(rows)
    first = batch * per_batch
    slow = range(first, first + per_batch) if scenario.slow else ()
    can_refuse = explicit and sink is not Sink.SPARK and sink not in SHARED
    dead = random.sample(range(total), min(total, 5)) if can_refuse else []
    return Source(
        seed=seed,
        rows=tuple(rows),
        files_per_batch=per_batch,
        partitions=random.choice((3, 4) if scenario.shuffled else (1, 3, 4)),
        value_size=random.choice((5, 60, 400)),
        explicit=explicit,
        dead=frozenset(dead),
        slow=frozenset(slow),
        nap_ms=_NAP_MS,
    )
