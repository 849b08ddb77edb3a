"""Some exactly-once runs with faults; `make torture-eos` continues with other seeds."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from tools.torture.cluster import Brokers
from tools.torture.harness import OK, TORN, Result
from tools.torture.streams.plan import Choice, Plan, draw
from tools.torture.streams.run import StreamScenarios
from tools.torture.streams.scenarios import Kind, Sink, Step

Runner: TypeAlias = "Callable[[int, Sink, Kind, Step | None], Result[Plan]]"
SHORT = (
    (Kind.WORKER_KILLED, Step.TASK_ENDED),
    (Kind.COMMIT_KILLED, Step.APPENDED),
    (Kind.COMMIT_RAISES, Step.APPENDED),
    (Kind.JOB_COMMIT_RAISES, Step.COMMIT_ENDED),
    (Kind.OTHER_CHECKPOINT, None),
    (Kind.TORN_BY_OTHERS, Step.APPENDED),
)
"""Kinds that do not stop the broker, which is shared."""
QUICK = SHORT[1]
"""The run in `make test`: the driver is killed after the decision, and commits after a restart."""


@pytest.fixture(scope="module")
def torture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """Yield a function that runs a plan, on a shared Kafka."""
    scenarios = StreamScenarios(tmp_path_factory.mktemp("torture-eos"))
    with scenarios.new_cluster(Brokers()) as cluster:

        def run_plan(seed: int, sink: Sink, kind: Kind, step: Step | None) -> Result[Plan]:
            plan = draw(seed, sink, Choice(kind=kind, step=step, nodes=1))
            return scenarios.run(cluster, plan)

        yield run_plan


def test_at_least_once_has_duplicates_but_no_loss(torture: Runner) -> None:
    """The harness detects that the batch is written twice."""
    result = torture(900_001, Sink.AT_LEAST_ONCE, Kind.COMMIT_KILLED, Step.COMMIT_ENDED)
    assert result.outcome == OK
    assert result.facts["lost"] == 0
    assert result.facts["doubled"] > 0


@pytest.mark.parametrize(
    ("kind", "step"),
    [pytest.param(*run, marks=[pytest.mark.quick] * (run == QUICK)) for run in SHORT],
)
def test_exactly_once(torture: Runner, kind: Kind, step: Step | None) -> None:
    """Each number exists once, in order per partition, or a partial commit is reported."""
    result = torture(900_003, Sink.EXACTLY_ONCE, kind, step)
    assert result.outcome == (TORN if kind is Kind.TORN_BY_OTHERS else OK)
