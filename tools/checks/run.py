"""Runs the phases of the test run: `python -m tools.checks.run [phase ...]`; all without names.

Every phase runs, whatever the one before it said. The last line is `N passed, N failed`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tools.checks.phases import PHASES, Phase
from tools.checks.tally import Tally

ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_S = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a phase went; `problem` is None when all is well."""

    phase: Phase
    seconds: float
    tally: Tally
    problem: str | None

    def __str__(self) -> str:
        counts = str(self.tally) if self.phase.tests else ""
        return f"{self.phase.name:14}{self.seconds:8.1f} s  {self.problem or 'ok':26}{counts}"


def run_phase(phase: Phase) -> Outcome:
    """Run a phase's commands, then its tests."""
    started = time.monotonic()
    _say(f"\n=== {phase.name} ===")
    python = str(ROOT / phase.environment / "bin" / "python")
    wrong = [command for command in phase.commands if _run([python, *command])]
    tally, problem = _run_tests(python, phase) if phase.tests else (Tally(), None)
    if wrong:
        problem = f"{len(wrong)} of {len(phase.commands)} checks failed"
    if problem and not tally.failed:
        tally += Tally(failed=1)
    seconds = time.monotonic() - started
    _say(f"--- {phase.name}: {seconds:.1f} s")
    return Outcome(phase=phase, seconds=seconds, tally=tally, problem=problem)


def _run_tests(python: str, phase: Phase) -> tuple[Tally, str | None]:
    present = [path for path in phase.tests if (ROOT / path).exists()]
    missing = [path for path in phase.tests if path not in present]
    if not present:
        return Tally(), "no test ran"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        status = _run([python, "-m", "pytest", f"--junitxml={report}", "-rfEs", *present])
        tally = Tally.read(report)
    return tally, _problem(tally, status, missing)


def _problem(tally: Tally, status: int, missing: list[str]) -> str | None:
    if tally.failed:
        return "tests failed"
    if not tally.passed:
        return "no test ran"
    if missing:
        return f"no {', '.join(missing)}"
    return f"pytest exit status {status}" if status else None


def _run(command: list[str]) -> int:
    """Exit status of a command; 124 when it takes over half an hour."""
    _say(f"$ {' '.join([Path(command[0]).name, *command[1:]])}")
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return 124
    return done.returncode


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Run, print the table, and exit with 1 when anything failed."""
    names = sys.argv[1:] or [phase.name for phase in PHASES]
    unknown = set(names) - {phase.name for phase in PHASES}
    if unknown:
        sys.exit(f"no such phase: {', '.join(sorted(unknown))}")
    outcomes = [run_phase(phase) for phase in PHASES if phase.name in names]
    _say("\n" + "\n".join(map(str, outcomes)))
    _say(f"{'all':14}{sum(outcome.seconds for outcome in outcomes):8.1f} s")
    _say(str(sum((outcome.tally for outcome in outcomes), Tally())))
    sys.exit(1 if any(outcome.problem for outcome in outcomes) else 0)


if __name__ == "__main__":
    main()
