"""Seeded failures of tasks and drivers: another client reads each row exactly once."""

import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.integration.exactly_once.seeded.bugs import BUGS, plant
from tests.integration.exactly_once.seeded.plan import DRIVER_APIS, TASK_APIS, FollowUp, draw
from tests.integration.exactly_once.seeded.run import run
from tests.integration.exactly_once.stepped_client import STEPS
from tools.torture.streams.injection.hooks import Bug

SEEDS = range(24)
DETECTION_SEEDS = 12
"""Number of seeds that detect each planted bug at least once."""


def test_seeds_cover_all_steps_and_requests() -> None:
    attempts = [
        attempt for seed in range(200) for batch in draw(seed).batches for attempt in batch[:-1]
    ]
    assert {attempt.step for attempt in attempts} == {None, *STEPS}
    pairs = {(attempt.step, attempt.then) for attempt in attempts if attempt.step is not None}
    assert len(pairs) == len(STEPS) * len(FollowUp)
    faults = {attempt.commit_fault.split(":")[0] for attempt in attempts if attempt.commit_fault}
    assert faults == set(DRIVER_APIS)
    faults = {attempt.task_fault.split(":")[0] for attempt in attempts if attempt.task_fault}
    assert faults == set(TASK_APIS)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_loss_or_duplicates(broker: EmbeddedBroker, seed: int) -> None:
    assert run(broker, seed).problem is None


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_detected(
    broker: EmbeddedBroker, bug: Bug, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(bug, monkeypatch)
    assert any(run(broker, seed).problem for seed in range(DETECTION_SEEDS))
