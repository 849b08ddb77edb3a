"""Tables of the torture runs in the ledger, and of the model's searches."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tools.docs.pages import table
from tools.model.scenario import FULL, SCENARIOS, Scenario
from tools.model.search import PLANTED
from tools.torture.harness import OK, STREAMS, TORN, Ledger
from tools.torture.streams.scenarios import ONCE, SHARED, Kind, Sink

_SUMS = ("lost", "duplicated", "torn")
_SINKS = {
    Sink.EXACTLY_ONCE: "`exactly-once`",
    Sink.ATOMIC: "`atomicBatch`",
    Sink.AT_LEAST_ONCE: "at least once",
    Sink.SPARK: "Spark's `kafka`",
}
_SIGNS = {
    "DOUBLED": "a batch is visible twice",
    "LOST": "a batch counts as committed, but some of its rows are missing",
    "HARMED": "a decided transaction cannot be committed, although it has not timed out",
}


def render_runs(ledger: Ledger = STREAMS) -> str:
    """Return a table with a row for each kind of fault, columns for each sink, and a total."""
    lines = ledger.latest_streams()
    kinds = [kind for kind in Kind if any(line["kind"] == kind for line in lines)]
    rows = [_row(kind, [line for line in lines if line["kind"] == kind]) for kind in kinds]
    heading = ["kind of fault"]
    for sink, name in _SINKS.items():
        heading += [f"{name}: runs", *_sums_of(sink)]
    return table(heading, [*rows, _row("**all**", lines)])


def render_brokers() -> str:
    """Return a table of exactly-once runs and failures by broker release and settings."""
    lines = [line for line in STREAMS.latest_streams() if line["sink"] in ONCE]
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in sorted(lines, key=_brokers):
        groups.setdefault(_describe(line), []).append(line)
    rows = (
        (brokers, f"{len(group)}", *map(str, _sums(group)), f"{_failed(group)}")
        for brokers, group in groups.items()
    )
    return table(("brokers", "runs", *_SUMS, "other failures"), rows)


def _row(name: str, lines: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    cells = [name]
    for sink in _SINKS:
        runs = [line for line in lines if line["sink"] == sink]
        sums = _sums(runs)[: len(_sums_of(sink))]
        cells += [f"{number:,}" if runs else "" for number in (len(runs), *sums)]
    return tuple(cells)


def _sums_of(sink: Sink) -> tuple[str, ...]:
    """Return the violations to count for a sink; batches can be torn only with transactions."""
    return _SUMS if sink in ONCE else _SUMS[:2]


def _sums(lines: Iterable[dict[str, Any]]) -> tuple[int, int, int]:
    """Return the numbers of lost records, duplicated records, and runs with a torn batch."""
    sums = Counter[str]()
    for line in lines:
        sums["lost"] += line["lost"]
        sums["duplicated"] += line["doubled"]
        sums["torn"] += line["result"] == TORN
    return sums["lost"], sums["duplicated"], sums["torn"]


def _failed(lines: Iterable[dict[str, Any]]) -> int:
    return sum(
        line["result"] not in {OK, TORN} and not line["lost"] and not line["doubled"]
        for line in lines
    )


def _brokers(line: dict[str, Any]) -> tuple[bool, bool, list[int], int]:
    release = [-int(part) for part in line["kafka"].split(".")]
    return (line["sink"] in SHARED, line["two_phase"], release, line["nodes"])


def _describe(line: dict[str, Any]) -> str:
    nodes = "one node" if line["nodes"] == 1 else f"{line['nodes']} nodes"
    two_phase = ", `twoPhaseCommit=true`" if line["two_phase"] else ""
    shared = ", `atomicBatch=true`" if line["sink"] in SHARED else ""
    return f"Kafka {line['kafka']}, {nodes}{two_phase}{shared}"


def render_searches() -> str:
    """Return a table of the searches with their faults."""
    rows = (
        (scenario.name, str(scenario.batches), "; ".join(_faults(scenario)) or "none")
        for scenario in (*SCENARIOS, FULL)
    )
    return table(("search", "batches", "faults in a run (each at most once, at any step)"), rows)


def render_planted_bugs() -> str:
    """Return a table of the planted bugs, the searches that find them, and the violations."""
    rows = ((bug.name, bug.scenario.name, _SIGNS[bug.sign]) for bug in PLANTED)
    return table(("bug", "search", "violation"), rows)


def _faults(scenario: Scenario) -> Iterator[str]:
    if scenario.crashes:
        yield "each driver, or its commit(), crashes"
    if any(scenario.lost):
        tasks = "one task" if sum(scenario.lost) == 1 else "each task"
        yield f"an attempt of {tasks} is lost, and resumes late"
    if scenario.timeouts:
        yield "a transaction times out"
    if scenario.unclear:
        yield "a decision, appended or not, gets no response"
    if scenario.stale:
        yield "the log is read from a former leader, without its last record"
    if scenario.interrupts:
        yield "a commit() is interrupted, and resumes late"
    if scenario.failures:
        yield "a task fails permanently"
