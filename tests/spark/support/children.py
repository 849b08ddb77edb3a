"""Run a module of the tests in its own process, for a Spark session with other settings."""

from __future__ import annotations

import os

from tests.support.python import run_python
from tools.support.jars import ROOT


def run_child(module: str, *arguments: object, timeout_s: float | None = None) -> None:
    """Run `tests.spark.support.<module>`, and raise an error with its stderr if it fails."""
    command = ("-m", f"tests.spark.support.{module}", *arguments)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = run_python(*command, cwd=ROOT, env=environment, timeout_s=timeout_s)
    assert done.returncode == 0, done.stderr[-3000:]
