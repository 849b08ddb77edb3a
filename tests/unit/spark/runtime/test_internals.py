"""Log levels, when log lines are visible, and the start time of a Python worker."""

import os
import subprocess
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext

from spark_kafka_sink.spark.runtime.internals import is_watched, only_errors_are_logged, startup_ms

pytestmark = pytest.mark.usefixtures("no_session")

LOOP = """
def manager(serve, requests):
    for _ in range(requests):
        code = serve()
"""
"""What matters of `pyspark.daemon.manager`."""


def add_process(proc: Path, name: str, parent: int, *words: str) -> None:
    (proc / name).mkdir(parents=True)
    (proc / name / "cmdline").write_text("\0".join(words))
    (proc / name / "stat").write_text(f"7 (a (strange) name) S {parent} 7 7")


@pytest.mark.parametrize(
    ("words", "quiet"),
    [
        (("java", "--conf", "spark.log.level=ERROR", "pyspark-shell"), True),
        (("java", "--conf", "spark.log.level=off", "pyspark-shell"), True),
        (("java", "--conf", "spark.log.level=WARN", "pyspark-shell"), False),
        (("java", "pyspark-shell"), False),
    ],
)
def test_log_level_of_the_parent_jvm(words: tuple[str, ...], quiet: bool, tmp_path: Path) -> None:
    add_process(tmp_path, "self", 20, "python", "-m", "pyspark.daemon")
    add_process(tmp_path, "20", 10, *words)
    add_process(tmp_path, "10", 1, "python", "job.py")
    assert only_errors_are_logged(tmp_path) is quiet


@pytest.mark.parametrize(
    ("level", "quiet"), [("ERROR", True), ("fatal", True), ("INFO", False), (None, False)]
)
def test_log_level_of_the_session_in_this_process(
    level: str | None, quiet: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM that this process has started is not its ancestor."""
    add_process(tmp_path, "self", 1, "python", "job.py")
    conf = SparkConf(loadDefaults=False)
    if level is not None:
        conf.set("spark.log.level", level)
    context = SimpleNamespace(_conf=conf)
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    assert only_errors_are_logged(tmp_path) is quiet


def test_nothing_is_detected_without_proc(tmp_path: Path) -> None:
    assert not only_errors_are_logged(tmp_path)


@pytest.mark.parametrize(
    ("program", "stderr", "watched"),
    [
        ("job.py", "/dev/pts/3", True),
        ("job.py", "/dev/tty1", True),
        ("job.py", "/var/log/driver.log", False),
        ("job.py", "pipe:[4711]", False),
        ("job.py", "/dev/null", False),
        ("ipykernel_launcher", "pipe:[4711]", True),
    ],
)
def test_terminal_of_the_driver_is_detected(
    program: str, stderr: str, watched: bool, tmp_path: Path
) -> None:
    add_process(tmp_path, "self", 20, "python", "-m", "pyspark.daemon")
    add_process(tmp_path, "20", 10, "/usr/lib/jvm/bin/java", "pyspark-shell")
    add_process(tmp_path, "10", 5, "python", "-m", program)
    add_process(tmp_path, "5", 1, "bash")
    for process, target in (
        ("self", "pipe:[1]"),
        ("20", stderr),
        ("10", stderr),
        ("5", "/dev/pts/3"),
    ):
        (tmp_path / process / "fd").mkdir()
        (tmp_path / process / "fd" / "2").symlink_to(target)
    assert is_watched(tmp_path) is watched


@pytest.mark.parametrize("stderr", ["/dev/pts/3", "/var/log/driver.log", "pipe:[4711]"])
def test_terminal_of_the_process_that_calls_write(stderr: str, tmp_path: Path) -> None:
    add_process(tmp_path, "self", 5, "python", "job.py")
    add_process(tmp_path, "5", 1, "bash")
    for process, target in (("self", stderr), ("5", "/dev/pts/3")):
        (tmp_path / process / "fd").mkdir()
        (tmp_path / process / "fd" / "2").symlink_to(target)
    assert is_watched(tmp_path) is (stderr == "/dev/pts/3")


def test_terminal_is_unknown_without_proc(tmp_path: Path) -> None:
    assert not is_watched(tmp_path)


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


def test_start_is_unknown_in_other_processes(tmp_path: Path) -> None:
    proc = processes(tmp_path, worker_s=1, daemon_s=2, busy_s=1)
    assert startup_ms(proc) == 0
    assert served(proc, 1, module="another.daemon") == [0]
    assert served(tmp_path / "missing", 1) == [0]
