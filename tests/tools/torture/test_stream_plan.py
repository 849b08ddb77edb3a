"""Plans depend only on the seed and cover all kinds and steps."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tools.docs.runs import render_runs
from tools.torture.harness import Ledger
from tools.torture.streams.injection.hooks import POINTS
from tools.torture.streams.plan import Choice, Plan, draw, kinds_in_turn, number_of
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


def test_last_batch_has_no_fault(plans: list[Plan]) -> None:
    for plan in (plan for plan in plans if not plan.job):
        assert all((fault.stop.batch or 0) < plan.source.batches - 1 for fault in plan.faults)


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


def test_files_contain_every_number_once(tmp_path: Path, plans: list[Plan]) -> None:
    source = plans[0].source
    source.write(tmp_path, range(source.batches))
    tables = [pq.read_table(path) for path in sorted(tmp_path.iterdir())]
    values = [value for table in tables for value in table["value"].to_pylist()]
    assert [number_of(str(value).encode()) for value in values] == list(range(source.total))


def test_ledger_continues_and_sums_up(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    assert ledger.new_seeds(3, sink=Sink.SPARK) == [1, 2, 3]
    line = {"kind": "driver killed", "sink": "kafka", "seed": 3, "lost": 0, "doubled": 70}
    ledger.append({**line, "result": "LOST 1", "lost": 1})
    ledger.append({**line, "result": "ok"})
    assert ledger.new_seeds(4, sink=Sink.SPARK) == [1, 2, 4, 5]
    assert ledger.new_seeds(1, sink=Sink.AT_LEAST_ONCE) == [1]
    row = render_runs(ledger).splitlines()[2]
    assert [cell.strip() for cell in row.split("|")][-4:-1] == ["1", "0", "70"]
