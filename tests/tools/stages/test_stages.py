"""Times of stages add up, and each stage is a function of the package."""

from time import thread_time

import pytest

from tools.stages.clock import STAGES, Stage, StageClock, place


def _work(seconds: float) -> None:
    until = thread_time() + seconds
    while thread_time() < until:
        pass


def test_time_of_a_stage_excludes_nested_stages() -> None:
    clock = StageClock()
    inner = clock.timed("inner", lambda: _work(0.02))

    def outer() -> None:
        _work(0.01)
        inner()

    started = thread_time()
    clock.timed("outer", outer)()
    complete = thread_time() - started
    assert clock.seconds["inner"] >= 0.02
    assert 0.01 <= clock.seconds["outer"] <= complete - clock.seconds["inner"]


@pytest.mark.parametrize(
    "stage", [stage for stage in STAGES if stage.function], ids=lambda stage: stage.name
)
def test_each_stage_function_exists(stage: Stage) -> None:
    owner, name = place(stage)
    assert callable(getattr(owner, name))
