"""The phases of `make test`: which commands each runs, and in which virtual environment."""

from __future__ import annotations

from dataclasses import dataclass

NEWEST = ".venv"
OLDEST = ".venv-pyspark41"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A named step: `commands` are arguments of the environment's Python, `tests` pytest paths.

    The tests' files but for those in `without`, files and folders, are dealt out to `shards`
    processes; those of a group of `together` go to the same one. `marked` is pytest's `-m`.
    """

    name: str
    environment: str = NEWEST
    commands: tuple[tuple[str, ...], ...] = ()
    tests: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    marked: str = ""
    shards: int = 1


SECURITY, SPARK_SECURITY = "tests/integration/security", "tests/spark/security"
"""A secured Kafka is started for each process, and takes long: few processes share it."""
OLD_KAFKAS = (
    "tests/broker/admin/test_releases.py",
    "tests/integration/admin",
    "tests/integration/exactly_once/test_end_answers.py",
    "tests/integration/exactly_once/test_old_kafka.py",
    "tests/integration/exactly_once/test_spark_writers.py",
    "tests/integration/faults/test_old_kafka.py",
    "tests/integration/transactions/test_restarts.py",
    "tests/integration/transactions/test_transactions.py",
)
"""They share six brokers of older releases, and their ZooKeepers."""
THREE_NODES = (
    "tests/broker/cluster/test_reassignments.py",
    "tests/integration/faults/test_faults.py",
    "tests/integration/faults/test_pressure.py",
)
"""They share a real Kafka of three nodes."""
EVERY_RELEASE = "every_release"
"""Pytest's mark of tests that depend on the release of pyspark: how it plans writes, hands rows
over, and takes messages back. All else is tried with the newest release alone."""

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
        together=(OLD_KAFKAS, THREE_NODES),
        shards=5,
    ),
    Phase(name="security", tests=(SECURITY,)),
    Phase(name="torture", tests=("tests/torture",), shards=2),
    Phase(name="spark-newest", tests=("tests/spark",), without=(SPARK_SECURITY,), shards=3),
    Phase(name="spark-security", tests=(SPARK_SECURITY,)),
    Phase(
        name="spark-4.1",
        environment=OLDEST,
        tests=("tests/spark",),
        without=(SPARK_SECURITY,),
        marked=EVERY_RELEASE,
    ),
    Phase(name="packaging", tests=("tests/packaging",)),
    Phase(name="notebook", tests=("tests/e2e/test_notebooks.py",)),
    Phase(
        name="demo",
        tests=(
            "tests/e2e/test_demo.py",
            "tests/e2e/test_demo_check.py",
            "tests/e2e/test_readme_code.py",
        ),
    ),
)
