"""Tasks and drivers that fail anywhere: a reader of others finds each row once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.integration.exactly_once.crashing import STEPS
from tests.integration.exactly_once.seeded.bugs import BUGS, plant
from tests.integration.exactly_once.seeded.plan import DRIVER_APIS, TASK_APIS, Then, draw
from tests.integration.exactly_once.seeded.run import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.torture.streams.injection.hooks import Bug

SEEDS = range(24)
ENOUGH = 12
"""Seeds in which each planted bug shows at least once."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """Two nodes that can be told to fail."""
    with EmbeddedBroker(nodes=2) as broker:
        yield broker


def test_the_seeds_have_every_step_and_every_request() -> None:
    attempts = [each for seed in range(200) for batch in draw(seed).batches for each in batch[:-1]]
    assert {each.step for each in attempts} == {None, *STEPS}
    pairs = {(each.step, each.then) for each in attempts if each.step is not None}
    assert len(pairs) == len(STEPS) * len(Then)
    faults = {each.commit_fault.split(":")[0] for each in attempts if each.commit_fault}
    assert faults == set(DRIVER_APIS)
    faults = {each.task_fault.split(":")[0] for each in attempts if each.task_fault}
    assert faults == set(TASK_APIS)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_is_there_once(broker: EmbeddedBroker, seed: int) -> None:
    assert run(broker, seed).problem is None


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(
    broker: EmbeddedBroker, bug: Bug, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(bug, monkeypatch)
    assert any(run(broker, seed).problem for seed in range(ENOUGH))
