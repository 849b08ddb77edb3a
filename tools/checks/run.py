"""Runs the phases of the test run: `python -m tools.checks.run [phase ...]`; all without names.

Phases run side by side, each in one process or several, `--jobs` at a time; what a process prints
comes whole when it has ended. Every phase runs, whatever the others said. A few tests that failed
run once more, by themselves. The last line is `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tools.checks import second_run
from tools.checks.outcome import Outcome, table, total, unsteady
from tools.checks.phases import PHASES
from tools.checks.running import Running, stop_all
from tools.checks.shards import load_durations, shards_of, store_durations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from tools.checks.phases import Phase
    from tools.checks.shards import Shard

_POLL_S = 0.1
_JOBS_PER_CORE = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Run:
    """Shards that wait and shards that run; outcomes of those that have ended."""

    def __init__(self, shards: Sequence[Shard], jobs: int, folder: Path) -> None:
        self.outcomes: list[Outcome] = []
        self._waiting = sorted(shards, key=lambda shard: shard.seconds)
        self._running: list[Running] = []
        self._jobs = jobs
        self._folder = folder

    def run(self) -> None:
        """Start the longest first, and go on until all have ended."""
        while self._waiting or self._running:
            while self._waiting and len(self._running) < self._jobs:
                self._running.append(Running(self._waiting.pop(), self._folder))
            time.sleep(_POLL_S)
            for running in [each for each in self._running if each.ended()]:
                self._running.remove(running)
                self._keep(running)

    def stop(self) -> None:
        """End what runs, with everything that it started, and say how far it came."""
        stop_all(self._running)
        for running in self._running:
            _say(f"\n=== {running.shard}: stopped ===\n{running.printed().rstrip()}")
        waiting = ", ".join(str(shard) for shard in self._waiting)
        _say(f"\nstopped; not begun: {waiting or 'none'}")

    def _keep(self, running: Running) -> None:
        outcome = running.outcome()
        self.outcomes.append(outcome)
        _say(f"\n=== {running.shard} ===\n{running.printed().rstrip()}")
        left = len(self._waiting) + len(self._running)
        problem = outcome.problem or "ok"
        _say(f"--- {running.shard}: {outcome.seconds:.1f} s, {problem}; {left} to go")


def execute(phases: Sequence[Phase], durations: Mapping[str, float], jobs: int) -> list[Outcome]:
    """Run the phases, then print the table and the sum.

    SIGINT, SIGTERM and SIGHUP end the run and this process. Call it from the main thread.
    """
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    started = time.monotonic()
    shards = [shard for phase in phases for shard in shards_of(phase, durations)]
    with tempfile.TemporaryDirectory(prefix="sks-test-") as folder:
        outcomes = _run(shards, jobs, Path(folder))
        if second_run.may_run_again(outcomes):
            outcomes = [_again(outcome, Path(folder)) for outcome in outcomes]
    _say(f"\n{table(phases, outcomes)}")
    _say(f"{'all':14}{time.monotonic() - started:8.1f} s\n{unsteady(outcomes)}".rstrip())
    _say(str(total(outcomes)))
    return outcomes


def _run(shards: Sequence[Shard], jobs: int, folder: Path) -> list[Outcome]:
    run = Run(shards, jobs, folder)
    try:
        run.run()
    except BaseException:
        run.stop()
        raise
    return run.outcomes


def _again(outcome: Outcome, folder: Path) -> Outcome:
    if outcome.problem is None:
        return outcome
    [second] = _run([second_run.shard_again(outcome)], 1, folder)
    return second_run.after(outcome, second)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    for each in _SIGNALS:  # The end must not be interrupted: it stops the shards.
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Run the named phases; exit with 1 when anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.checks.run")
    parser.add_argument("phases", nargs="*", metavar="phase")
    parser.add_argument("--jobs", type=int, default=_JOBS_PER_CORE * (os.cpu_count() or 1))
    parser.add_argument("--durations", action="store_true", help="keep what each file took")
    arguments = parser.parse_args()
    unknown = set(arguments.phases) - {phase.name for phase in PHASES}
    if unknown:
        parser.error(f"no such phase: {', '.join(sorted(unknown))}")
    chosen = [phase for phase in PHASES if phase.name in arguments.phases or not arguments.phases]
    durations = load_durations()
    outcomes = execute(chosen, durations, arguments.jobs)
    if arguments.durations:
        for outcome in outcomes:
            if not outcome.phase.marked:  # those are parts of files that run as a whole elsewhere
                durations |= outcome.files
        store_durations(durations)
    sys.exit(1 if any(outcome.problem for outcome in outcomes) else 0)


if __name__ == "__main__":
    main()
