"""Run a module of the tests in its own process, for a Spark session with other settings."""

from __future__ import annotations

import os
import subprocess
import sys

from tools.support.jars import ROOT


def run_child(module: str, *arguments: object, timeout_s: float | None = None) -> None:
    """Run `tests.spark.support.<module>`, and raise an error with its stderr if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.spark.support.{module}", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stderr[-3000:]
