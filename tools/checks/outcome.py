"""How shards went, and the table of the phases that they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tools.checks.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.checks.phases import Phase
    from tools.checks.shards import Shard


TESTS_FAILED = "tests failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a shard went; `problem` is None when all is well, `files` are seconds by test file.

    `failed_tests` are names that pytest takes; those of `unsteady` passed when they ran again.
    """

    phase: Phase
    seconds: float
    tally: Tally
    problem: str | None
    files: Mapping[str, float] = field(default_factory=dict)
    failed_tests: tuple[str, ...] = ()
    unsteady: tuple[str, ...] = ()


def problem_of(shard: Shard, tally: Tally, status: int) -> str | None:
    """What is wrong with a shard that ended with this status; None when nothing is."""
    if shard.command:
        return f"{' '.join(shard.command[:2])[:30]} failed" if status else None
    if tally.failed:
        return TESTS_FAILED
    if not tally.passed:
        return "no test ran"
    if shard.missing:
        return f"no {', '.join(shard.missing)}"
    return f"pytest exit status {status}" if status else None


def total(outcomes: Sequence[Outcome]) -> Tally:
    """All counts together."""
    return sum((outcome.tally for outcome in outcomes), Tally())


def table(phases: Sequence[Phase], outcomes: Sequence[Outcome]) -> str:
    """A line for each phase: the time of its shards together, what is wrong, and its counts."""
    return "\n".join(
        _line(phase, [outcome for outcome in outcomes if outcome.phase is phase])
        for phase in phases
    )


def _line(phase: Phase, outcomes: Sequence[Outcome]) -> str:
    problems = dict.fromkeys(outcome.problem for outcome in outcomes if outcome.problem)
    seconds = sum(outcome.seconds for outcome in outcomes)
    counts = str(total(outcomes)) if phase.tests else ""
    shards = f"{len(outcomes)} shards" if len(outcomes) > 1 else ""
    said = "; ".join(problems) or "ok"
    return f"{phase.name:14}{seconds:8.1f} s  {shards:10}{said:25} {counts}".rstrip()


def unsteady(outcomes: Sequence[Outcome]) -> str:
    """A line for each test that failed among others and passed alone."""
    return "".join(
        f"unsteady, passed when run again: {test}\n"
        for outcome in outcomes
        for test in outcome.unsteady
    )
