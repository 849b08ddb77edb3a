"""Whether a run came to what its kind is about, beyond the step of its fault."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from tools.torture_eos.plans.kinds import Kind
from tools.torture_eos.plans.steps import LOG, Step

if TYPE_CHECKING:
    from pathlib import Path

    from tools.torture_eos.plans.plan import Plan

_TRACE = "trace.log"
_FETCH_FAILED = "FetchFailed"
_BEGUN = re.compile(rf"{re.escape(Step.TASK_BEGUN)} #\d+ (\{{.*\}})")


def unmet_aim(plan: Plan, folder: Path, logged: str) -> str:
    """What has not happened in a run in `folder` whose drivers have logged this; empty if nothing.

    A retried stage is one whose tasks could not fetch what a lost executor had; of a task that is
    run twice two attempts begin.
    """
    step = plan.faults[0].stop.step if plan.faults else None
    if plan.kind is Kind.STAGE_RETRIED and step not in LOG and _FETCH_FAILED not in logged:
        return "no stage was retried"
    if plan.kind is Kind.SPECULATION and most_attempts((folder / _TRACE).read_text()) < 2:
        return "no task was run twice"
    return ""


def most_attempts(trace: str) -> int:
    """How many attempts the task had that had most, of all tasks in the trace of a run."""
    attempts: defaultdict[tuple[int | None, int], set[int]] = defaultdict(set)
    for found in _BEGUN.finditer(trace):
        where = json.loads(found[1])
        attempts[where["batch"], where["task"]].add(where["attempt"])
    return max(map(len, attempts.values()), default=0)
