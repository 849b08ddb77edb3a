"""The phases of the test run."""

from __future__ import annotations

from tools.checks.phases import PHASES
from tools.docs.markdown import table


def render_phases() -> str:
    """What each runs, and in which virtual environment."""
    rows = (
        (
            f"`{phase.name}`",
            ", ".join(f"`{path}`" for path in phase.tests)
            or ", ".join(f"`{_words(command)}`" for command in phase.commands),
            f"`{phase.environment}`",
        )
        for phase in PHASES
    )
    return table(("phase", "runs", "in"), rows)


def _words(command: tuple[str, ...]) -> str:
    """A command in short: a line of Python stands for the tool that it calls."""
    if command[0] == "-c":
        return "import-linter"
    return " ".join(command[1:])
