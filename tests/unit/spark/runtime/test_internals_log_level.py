"""Log levels, and when log lines are visible."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkConf, SparkContext

from spark_kafka_sink.spark.runtime.internals import is_watched, only_errors_are_logged

pytestmark = pytest.mark.usefixtures("no_session")


def _process(proc: Path, name: str, parent: int, *words: str) -> None:
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
    _process(tmp_path, "self", 20, "python", "-m", "pyspark.daemon")
    _process(tmp_path, "20", 10, *words)
    _process(tmp_path, "10", 1, "python", "job.py")
    assert only_errors_are_logged(tmp_path) is quiet


@pytest.mark.parametrize(
    ("level", "quiet"), [("ERROR", True), ("fatal", True), ("INFO", False), (None, False)]
)
def test_log_level_of_the_session_in_this_process(
    level: str | None, quiet: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM that this process has started is not its ancestor."""
    _process(tmp_path, "self", 1, "python", "job.py")
    conf = SparkConf(loadDefaults=False)
    if level is not None:
        conf.set("spark.log.level", level)
    context = SimpleNamespace(_conf=conf)
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    assert only_errors_are_logged(tmp_path) is quiet


def test_without_proc(tmp_path: Path) -> None:
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
def test_terminal_detection(program: str, stderr: str, watched: bool, tmp_path: Path) -> None:
    _process(tmp_path, "self", 20, "python", "-m", "pyspark.daemon")
    _process(tmp_path, "20", 10, "/usr/lib/jvm/bin/java", "pyspark-shell")
    _process(tmp_path, "10", 5, "python", "-m", program)
    _process(tmp_path, "5", 1, "bash")
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
    _process(tmp_path, "self", 5, "python", "job.py")
    _process(tmp_path, "5", 1, "bash")
    for process, target in (("self", stderr), ("5", "/dev/pts/3")):
        (tmp_path / process / "fd").mkdir()
        (tmp_path / process / "fd" / "2").symlink_to(target)
    assert is_watched(tmp_path) is (stderr == "/dev/pts/3")


def test_terminal_is_unknown_without_proc(tmp_path: Path) -> None:
    assert not is_watched(tmp_path)
