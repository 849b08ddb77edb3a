"""Tables of the model's searches and of the bugs that they find."""

from collections.abc import Iterator

from tools.docs.pages import table
from tools.model.scenario import FULL, SCENARIOS, Scenario
from tools.model.search import PLANTED

_SIGNS = {
    "DOUBLED": "a batch is visible twice",
    "LOST": "a batch counts as committed, but some of its rows are missing",
    "HARMED": "a decided transaction cannot be committed, although it has not timed out",
}


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
