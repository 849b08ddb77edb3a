"""Plans depend only on the seed and cover all kinds and steps."""

import pytest

from tools.torture.streams.injection.hooks import POINTS
from tools.torture.streams.plan import Choice, Plan, draw, kinds_in_turn
from tools.torture.streams.scenarios import (
    LOG,
    SCENARIOS,
    SEVERAL_ONLY,
    UNNUMBERED,
    Kind,
    Sink,
    Step,
    reachable,
)

SEEDS = range(1, 800)


@pytest.fixture(scope="module", params=list(Sink))
def plans(request: pytest.FixtureRequest) -> list[Plan]:
    return [draw(seed, request.param) for seed in SEEDS]


def test_plan_depends_only_on_the_seed(plans: list[Plan]) -> None:
    assert plans == [draw(plan.seed, plan.sink) for plan in plans]


def test_all_kinds_and_steps_are_drawn(plans: list[Plan]) -> None:
    sink = plans[0].sink
    kinds = {kind for kind, scenario in SCENARIOS.items() if sink in scenario.sinks}
    steps = {str(step) for kind in kinds for step in reachable(SCENARIOS[kind].steps, sink)}
    assert {plan.kind for plan in plans} == kinds
    assert {str(plan.faults[0].stop.step) for plan in plans if plan.faults} == steps


def test_two_rounds_cover_all_kinds_and_node_counts(plans: list[Plan]) -> None:
    sink = plans[0].sink
    met = {(plan.kind, plan.nodes) for plan in plans[: 2 * len(kinds_in_turn(sink))]}
    assert met == {
        (kind, nodes)
        for kind, scenario in SCENARIOS.items()
        for nodes in scenario.nodes
        if sink in scenario.sinks
    }


def test_steps_of_shared_transactions() -> None:
    for plan in (draw(seed, Sink.ATOMIC, Choice(two_phase=True)) for seed in SEEDS):
        assert not plan.source.dead
        assert not plan.brokers.two_phase
        assert not plan.must_tear
        assert plan.kind is not Kind.SPECULATION
        for stop in (fault.stop for fault in plan.faults):
            assert stop.step not in SEVERAL_ONLY
            assert stop.hit == 1 or stop.step is Step.TASK_APPENDED
            assert stop.batch is None or stop.step not in UNNUMBERED


def test_every_step_is_observable() -> None:
    named = {step for point in POINTS for step in (point.before, point.after)}
    assert set(Step) <= named | LOG | {Step.END_TXN}
