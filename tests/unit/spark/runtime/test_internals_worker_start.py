"""The start time of a Python worker, from a `/proc` and the request loop."""

import os
import subprocess
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_sink.spark.runtime.internals import startup_ms

LOOP = """
def manager(serve, requests):
    for _ in range(requests):
        code = serve()
"""
"""What matters of `pyspark.daemon.manager`."""


def served(proc: Path, requests: int, module: str = "pyspark.daemon") -> list[int]:
    """Return `startup_ms` of successive requests of a worker."""
    times: list[int] = []
    namespace: dict[str, Any] = {"__spec__": ModuleSpec(module, None)}
    exec(LOOP, namespace)
    namespace["manager"](lambda: times.append(startup_ms(proc)), requests)
    return times


def processes(folder: Path, *, worker_s: float, daemon_s: float, busy_s: float) -> Path:
    """Write the start of a worker and of its daemon, and how long the daemon was busy."""
    for name, ago in (("self", worker_s), (str(os.getppid()), daemon_s)):
        (folder / name).mkdir()
        ticks = round((time.clock_gettime(time.CLOCK_BOOTTIME) - ago) * os.sysconf("SC_CLK_TCK"))
        (folder / name / "stat").write_text(f"7 (a ) b) S {'0 ' * 18}{ticks} 0 0")
    nanoseconds = round(busy_s * 1e9 / 2)
    (folder / str(os.getppid()) / "schedstat").write_text(f"{nanoseconds} {nanoseconds} 5\n")
    return folder


@pytest.mark.parametrize(
    ("worker_s", "daemon_s", "busy_s", "expected_s"),
    [(2.0, 4.0, 1.9, 4.0), (2.0, 4.0, 1.0, 2.0), (2.0, 40.0, 2.0, 2.0)],
    ids=["daemon for this worker", "daemon was idle", "old daemon"],
)
def test_daemon_counts_if_it_was_started_for_the_worker(
    worker_s: float, daemon_s: float, busy_s: float, expected_s: float, tmp_path: Path
) -> None:
    proc = processes(tmp_path, worker_s=worker_s, daemon_s=daemon_s, busy_s=busy_s)
    first, second = served(proc, 2)
    assert expected_s * 1000 - 20 <= first <= expected_s * 1000 + 2_000
    assert second == 0, "a worker that has served a request was running"


@pytest.mark.parametrize(("module", "frozen"), [("pyspark.daemon", "True"), ("job", "False")])
def test_only_workers_freeze_loaded_objects(module: str, frozen: str) -> None:
    program = (
        "import gc, sys; from importlib.machinery import ModuleSpec; "
        f"sys.modules['__main__'].__spec__ = ModuleSpec({module!r}, None); "
        "import spark_kafka_sink.spark; print(gc.get_freeze_count() > 0)"
    )
    child = [sys.executable, "-c", program]
    assert subprocess.check_output(child, text=True).strip() == frozen


def test_unknown_elsewhere(tmp_path: Path) -> None:
    proc = processes(tmp_path, worker_s=1, daemon_s=2, busy_s=1)
    assert startup_ms(proc) == 0
    assert served(proc, 1, module="another.daemon") == [0]
    assert served(tmp_path / "missing", 1) == [0]
