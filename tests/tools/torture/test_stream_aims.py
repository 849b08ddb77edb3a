"""Detection of retried stages and repeated tasks in the trace of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.torture.streams.check import most_attempts, unmet_aim
from tools.torture.streams.plan import Choice, draw
from tools.torture.streams.scenarios import Kind, Sink, Step

if TYPE_CHECKING:
    from pathlib import Path

STARTED_LINE = '1.0 7 task.begun #1 {{"batch": {}, "task": {}, "attempt": {}}} \n'


@pytest.mark.parametrize(
    ("started_tasks", "attempts"),
    [
        ([], 0),
        ([(0, 0, 0), (0, 1, 1), (1, 0, 2)], 1),
        ([(0, 0, 0), (0, 1, 1), (0, 0, 2)], 2),
    ],
)
def test_attempts_of_a_task(started_tasks: list[tuple[int, int, int]], attempts: int) -> None:
    trace = "".join(STARTED_LINE.format(*where) for where in started_tasks)
    assert most_attempts(f"0.5 1 HARNESS start 1\n{trace}") == attempts


def test_stage_was_not_retried(tmp_path: Path) -> None:
    plan = draw(1, Sink.EXACTLY_ONCE, Choice(kind=Kind.STAGE_RETRIED, step=Step.TASK_ENDED))
    assert unmet_aim(plan, tmp_path, "Lost task 1.0: ExecutorLostFailure")
    assert not unmet_aim(plan, tmp_path, "Lost task 1.0: FetchFailed(null, shuffleId=0)")


def test_task_was_not_run_twice(tmp_path: Path) -> None:
    plan = draw(1, Sink.EXACTLY_ONCE, Choice(kind=Kind.SPECULATION))
    (tmp_path / "trace.log").write_text(STARTED_LINE.format(0, 0, 0))
    assert unmet_aim(plan, tmp_path, "")
