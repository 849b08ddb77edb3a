"""Says which step a process has reached, and waits there if the harness wants that.

Through files in the folder of the run: `steps.json` holds the stops, `stop-N.at` says that the
Nth is reached and by whom, `stop-N.go` lets the process go on, `trace.log` has every step.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tools.torture_eos.plans.steps import Step

CONTROL = "TORTURE_EOS_CONTROL"
"""The environment variable with the folder in which `run` leads to the folder of the run."""
BUG = "bug"
"""The file in the folder of the run that names a bug, where the run has one."""
RAISE = "raise"
"""What a `stop-N.go` says that makes the step fail."""
_POLL_S = 0.005


class StepError(RuntimeError):
    """The harness wanted this step to fail."""


class Reporter:
    """Of one process; `control` is the folder that `CONTROL` names."""

    def __init__(self, control: str) -> None:
        self._run = Path(control) / "run"
        self._where: dict[str, Any] = {}
        self._hits: Counter[tuple[Step, str]] = Counter()

    @property
    def bug(self) -> str:
        """The bug of the run; empty when it has none."""
        try:
            return (self._run / BUG).read_text()
        except OSError:
            return ""

    @contextmanager
    def scope(
        self, kind: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Iterator[None]:
        """What is reached in here belongs to the task, or to the micro-batch in the arguments."""
        if kind is None:
            yield
            return
        before = self._where
        if kind == "task":
            self._where = _task()
        elif kind == "job":
            self._where = {}
        else:
            self._where = {"batch": kwargs[kind] if kind in kwargs else args[-1]}
        self._hits.clear()
        try:
            yield
        finally:
            self._where = before

    def reached(self, step: Step, told: str = "") -> None:
        """Note it, with what is told; wait if this is one of the stops.

        Raises:
            StepError: the harness wants it.
        """
        try:
            run = self._run.resolve(strict=True)
        except OSError:
            return
        self._hits[step, str(self._where)] += 1
        hit = self._hits[step, str(self._where)]
        trace(run, f"{step} #{hit} {json.dumps(self._where)} {told}")
        for number, stop in enumerate(_stops(run)):
            if stop["step"] != step or stop["hit"] != hit:
                continue
            if stop["after"] is not None and not at_file(run, stop["after"]).exists():
                continue
            if stop["batch"] in (None, self._where.get("batch")) and _claim(run, number):
                _wait(run, number, step)
                return


def go_file(run: Path, number: int) -> Path:
    """Lets the process that has reached the stop go on."""
    return run / f"stop-{number}.go"


def at_file(run: Path, number: int) -> Path:
    """Holds the id of the process that has reached the stop."""
    return run / f"stop-{number}.at"


def _task() -> dict[str, Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return {}
    batch = context.getLocalProperty("streaming.sql.batchId")
    return {
        "batch": None if batch is None else int(batch),
        "task": context.partitionId(),
        "attempt": context.taskAttemptId(),
    }


def trace(run: Path, text: str) -> None:
    """Add a line to what happened in the run; lines of all processes are in the order of time."""
    line = f"{time.time():.3f} {os.getpid()} {text}\n"
    with suppress(OSError), (run / "trace.log").open("a") as file:
        file.write(line)


def trace_size(run: Path) -> int:
    """Bytes of what is told so far: more of them whenever a step is reached."""
    path = run / "trace.log"
    return path.stat().st_size if path.exists() else 0


def _stops(run: Path) -> list[dict[str, Any]]:
    try:
        stops: list[dict[str, Any]] = json.loads((run / "steps.json").read_text())
    except OSError:
        return []
    return stops


def _claim(run: Path, number: int) -> bool:
    """Whether this process is the first that reaches the stop."""
    part = run / f"stop-{number}.{os.getpid()}"
    part.write_text(str(os.getpid()))
    try:
        os.link(part, at_file(run, number))
    except FileExistsError:
        return False
    finally:
        part.unlink()
    return True


def _wait(run: Path, number: int, step: Step) -> None:
    trace(run, f"stops at {step}")
    go = go_file(run, number)
    while not go.exists():
        if not run.exists():
            return
        time.sleep(_POLL_S)
    said = go.read_text()
    trace(run, f"goes on from {step}{': it fails' if said == RAISE else ''}")
    if said == RAISE:
        raise StepError(f"{step} fails, as the harness wants it")
