"""The phases of `make test`: which commands each runs, and in which virtual environment."""

from __future__ import annotations

from dataclasses import dataclass

NEWEST = ".venv"
OLDEST = ".venv-pyspark41"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A named step: `commands` are arguments of the environment's Python, `tests` pytest paths.

    The tests' files but for those in `without`, files and folders, are dealt out to `shards`
    processes.
    """

    name: str
    environment: str = NEWEST
    commands: tuple[tuple[str, ...], ...] = ()
    tests: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    shards: int = 1


SECURITY, SPARK_SECURITY = "tests/integration/security", "tests/spark/security"
"""A secured Kafka is started for each process, and takes long: few processes share it."""
NEWEST_ONLY = (
    "tests/spark/test_old_kafka.py",
    "tests/spark/test_redis_streams.py",
    SPARK_SECURITY,
)
"""What is about the broker and not about pyspark: releases of Kafka, Redis behind the embedded
broker, who may enter a real one. All else is tried with both releases."""

PHASES = (
    Phase(
        name="lint",
        commands=(
            ("-m", "ruff", "check", "."),
            ("-m", "ruff", "format", "--check", "."),
            ("-m", "mypy"),
            ("-c", "from importlinter.cli import lint_imports_command as run; run()"),
            ("-m", "tools.checks.sizes"),
        ),
    ),
    Phase(name="unit", tests=("tests/unit", "tests/property", "tests/tools"), shards=2),
    Phase(name="golden", tests=("tests/golden",)),
    Phase(
        name="integration",
        tests=("tests/integration", "tests/broker"),
        without=(SECURITY,),
        shards=6,
    ),
    Phase(name="security", tests=(SECURITY,), shards=2),
    Phase(name="torture", tests=("tests/torture",), shards=2),
    Phase(name="spark-newest", tests=("tests/spark",), without=(SPARK_SECURITY,), shards=4),
    Phase(name="spark-security", tests=(SPARK_SECURITY,)),
    Phase(
        name="spark-4.1", environment=OLDEST, tests=("tests/spark",), without=NEWEST_ONLY, shards=4
    ),
    Phase(name="notebook", tests=("tests/e2e/test_notebook.py",)),
    Phase(
        name="demo",
        tests=(
            "tests/e2e/test_demo.py",
            "tests/e2e/test_demo_check.py",
            "tests/e2e/test_readme_code.py",
        ),
    ),
)
