"""The exactly-once protocol is correct in all runs of the model, and planted bugs are detected."""

import pytest

from tools.model.scenario import SCENARIOS, Scenario
from tools.model.search import PLANTED, Planted, describe, search

MAX_WORLDS = 150_000
"""Searched in about 15 seconds."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_no_batch_is_lost_or_duplicated(scenario: Scenario) -> None:
    result = search(scenario)
    counterexample = result.counterexample
    assert counterexample is None, describe(scenario.start(), counterexample)
    assert result.worlds < MAX_WORLDS
    assert (result.torn > 0) == (scenario.timeouts > 0), "only a timeout commits a batch partially"


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_planted_bug_is_detected(bug: Planted) -> None:
    assert search(bug.scenario).counterexample is None
    counterexample = search(bug.scenario, bug.rules).counterexample
    assert counterexample is not None
    assert counterexample.violation.startswith(bug.sign), counterexample.violation
    lines = describe(bug.scenario.start(), counterexample).splitlines()
    assert lines[-1] == counterexample.violation
    assert len(lines) == len(counterexample.events) + 1
