"""What the model of exactly once searches, and the bugs that it must find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.docs.markdown import table
from tools.model.planted import PLANTED
from tools.model.scenarios import FULL, SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.model.scenario import Scenario

_SIGNS = {
    "DOUBLED": "a batch is visible twice",
    "LOST": "a batch counts as done, and rows of it are missing",
    "HARMED": "a decided transaction can't be committed, and no timeout has ended it",
}


def render_searches() -> str:
    """Each search with its faults."""
    rows = (
        (scenario.name, str(scenario.batches), "; ".join(_faults(scenario)) or "none")
        for scenario in (*SCENARIOS, FULL)
    )
    return table(("search", "batches", "faults in a run, each once at most, at any step"), rows)


def render_planted_bugs() -> str:
    """Each planted bug, and what the search finds."""
    rows = ((bug.name, bug.scenario.name, _SIGNS[bug.sign]) for bug in PLANTED)
    return table(("bug", "found with", "as"), rows)


def _faults(scenario: Scenario) -> Iterator[str]:
    if scenario.crashes:
        yield "each driver dies, or its commit()"
    if any(scenario.lost):
        tasks = "one task" if sum(scenario.lost) == 1 else "each task"
        yield f"an attempt of {tasks} is lost, and wakes up late"
    if scenario.timeouts:
        yield "a transaction times out"
    if scenario.unclear:
        yield "a decision is appended or not, without an answer"
    if scenario.stale:
        yield "the log is read from a leader that was deposed, and lacks its last record"
    if scenario.interrupts:
        yield "a commit() is interrupted, and goes on"
    if scenario.failures:
        yield "a task fails for good"
