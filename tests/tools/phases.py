"""The phases of `make test`: which commands each runs, and in which virtual environment."""

from __future__ import annotations

from dataclasses import dataclass

NEWEST = ".venv"
OLDEST = ".venv-pyspark41"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A named step: `commands` are arguments of the environment's Python, `tests` pytest paths."""

    name: str
    environment: str = NEWEST
    commands: tuple[tuple[str, ...], ...] = ()
    tests: tuple[str, ...] = ()


PHASES = (
    Phase(
        name="lint",
        commands=(
            ("-m", "ruff", "check", "."),
            ("-m", "ruff", "format", "--check", "."),
            ("-m", "mypy"),
            ("-c", "from importlinter.cli import lint_imports_command as run; run()"),
            ("-m", "tests.tools.sizes"),
        ),
    ),
    Phase(name="unit", tests=("tests/unit", "tests/property", "tests/protocol")),
    Phase(name="golden", tests=("tests/golden",)),
    Phase(name="integration", tests=("tests/integration", "tests/broker")),
    Phase(name="torture", tests=("tests/torture",)),
    Phase(name="spark-newest", tests=("tests/spark",)),
    Phase(name="spark-4.1", environment=OLDEST, tests=("tests/spark",)),
    Phase(name="notebook", tests=("tests/notebooks",)),
    Phase(name="demo", tests=("tests/demo",)),
)
