"""The few tests that failed while others ran beside them run once more, by themselves.

Spark, Kafka and brokers share a small machine with whatever else it does. A test that fails among
others and passes alone is told by name as unsteady, for somebody to repair, and fails nothing.
More than a few are no accident and don't run again, nor does a shard that failed otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tools.checks.outcome import TESTS_FAILED
from tools.checks.shards import Shard
from tools.checks.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.checks.outcome import Outcome

MOST_TESTS = 3


def may_run_again(outcomes: Sequence[Outcome]) -> bool:
    """Whether all that is wrong is a few tests."""
    failed = [outcome for outcome in outcomes if outcome.problem]
    few = 0 < sum(len(outcome.failed_tests) for outcome in failed) <= MOST_TESTS
    return few and all(
        outcome.problem == TESTS_FAILED and len(outcome.failed_tests) == outcome.tally.failed
        for outcome in failed
    )


def shard_again(outcome: Outcome) -> Shard:
    """The tests of a shard that failed."""
    tests = outcome.failed_tests
    return Shard(phase=outcome.phase, number=1, of=1, seconds=0, tests=tests)


def after(first: Outcome, second: Outcome) -> Outcome:
    """How a shard went when its failed tests have run again."""
    if second.problem or second.tally.passed != first.tally.failed:
        return first
    passed = Tally(passed=first.tally.passed + first.tally.failed)
    return replace(first, problem=None, tally=passed, unsteady=first.failed_tests)
