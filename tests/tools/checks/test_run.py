"""The runner of the test run, on test files made for it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys
from tools.checks.phases import Phase
from tools.checks.run import execute

outcomes = execute([{phases}], {{}}, jobs=2)
sys.exit(1 if any(outcome.problem for outcome in outcomes) else 0)
"""
PASS = "def test_it():\n    print('out of the way')\n"
FAIL = "def test_it():\n    assert 'this is wrong' == 'that'\n"
UNSTEADY = """
from pathlib import Path

class TestIt:
    def test_it(self):
        first = not (ran := Path({ran!r})).exists()
        ran.touch()
        assert not first, "not the first time"
"""
SKIP = "import pytest\ndef test_it():\n    pytest.skip('not today')\n"
LEAVE = """
import subprocess
def test_it():
    sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
    open({pid!r}, "w").write(str(sleeper.pid))
"""
HANG = LEAVE + "    sleeper.wait()\n"


def phase(name: str, *files: Path, shards: int = 1, commands: object = ()) -> str:
    paths = tuple(str(file) for file in files)
    return (
        f"Phase(name={name!r}, environment={sys.prefix!r}, commands={commands!r}, "
        f"tests={paths!r}, shards={shards})"
    )


def start(*phases: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(phases=", ".join(phases))],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(*phases: str) -> tuple[int, str]:
    with start(*phases) as process:
        printed, _ = process.communicate(timeout=60)
    return process.returncode, printed


def write(folder: Path, **sources: str) -> list[Path]:
    made = []
    for name, source in sources.items():
        made.append(folder / f"test_{name}.py")
        made[-1].write_text(source)
    return made


def wait_for_pid(path: Path) -> int:
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, "the test did not begin"
        time.sleep(0.02)
    return int(path.read_text())


def test_what_fails_and_what_is_skipped_counts_as_failed(tmp_path: Path) -> None:
    files = write(tmp_path, one=PASS, two=FAIL, three=SKIP, four=PASS)
    status, printed = run(
        phase("first", *files, shards=2),
        phase("second", *files[:1], commands=(("-c", "import sys; sys.exit('bad')"),)),
    )
    assert status == 1
    lines = printed.splitlines()
    assert lines[-1] == "3 passed, 3 failed"
    table = [re.sub(r" +", " ", re.sub(r"\d+\.\d s", "", line)) for line in lines[-4:-2]]
    assert table == [
        "first 2 shards tests failed 2 passed, 2 failed",
        "second 2 shards -c import sys; sys.exit('bad') failed 1 passed, 1 failed",
    ]
    assert "this is wrong" in printed
    assert "not today" in printed
    assert "\nbad\n" in printed


def test_all_is_well(tmp_path: Path) -> None:
    status, printed = run(phase("only", *write(tmp_path, one=PASS)))
    assert status == 0
    assert printed.splitlines()[-1] == "1 passed, 0 failed"


def test_what_fails_among_others_and_passes_alone_is_named(tmp_path: Path) -> None:
    unsteady = UNSTEADY.format(ran=str(tmp_path / "ran"))
    [file] = write(tmp_path, unsteady=unsteady)
    status, printed = run(phase("only", file, *write(tmp_path, one=PASS)))
    assert status == 0
    assert "not the first time" in printed
    named, last = printed.splitlines()[-2:]
    assert named.startswith("unsteady, passed when run again: ")
    assert named.endswith("test_unsteady.py::TestIt::test_it")
    assert last == "2 passed, 0 failed"


def test_many_that_fail_do_not_run_again(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    files = write(
        tmp_path, unsteady=UNSTEADY.format(ran=str(ran)), **dict.fromkeys(("a", "b", "c"), FAIL)
    )
    status, printed = run(phase("only", *files))
    assert status == 1
    assert printed.splitlines()[-1] == "0 passed, 4 failed"


@pytest.mark.parametrize("sources", [{}, {"none": "x = 1\n"}, {"broken": "import nothing_\n"}])
def test_a_phase_that_runs_no_test_failed(tmp_path: Path, sources: dict[str, str]) -> None:
    status, printed = run(phase("empty", *write(tmp_path, **sources), tmp_path / "test_gone.py"))
    assert status == 1
    assert printed.splitlines()[-1] == "0 passed, 1 failed"


def test_a_file_that_is_not_there_is_noticed(tmp_path: Path) -> None:
    files = write(tmp_path, one=PASS)
    status, printed = run(phase("partly", *files, tmp_path / "test_gone.py"))
    assert status == 1
    assert printed.splitlines()[-1] == "1 passed, 1 failed"
    assert "test_gone.py" in printed


def test_what_a_test_leaves_running_is_stopped_and_named(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    status, printed = run(phase("leaving", *write(tmp_path, one=LEAVE.format(pid=str(pid)))))
    assert status == 0
    assert not psutil.pid_exists(int(pid.read_text()))
    assert "left running, stopped: sleep 600" in printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_and_all_that_it_started(
    tmp_path: Path, number: signal.Signals
) -> None:
    pid = tmp_path / "pid"
    files = write(tmp_path, one=HANG.format(pid=str(pid)))
    with start(phase("hanging", *files), phase("other", *files)) as process:
        sleeper = wait_for_pid(pid)
        process.send_signal(number)
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert not psutil.pid_exists(sleeper)
    assert "hanging: stopped" in printed


def test_shards_die_with_a_runner_that_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    files = write(
        tmp_path,
        one="import os\n" + HANG.format(pid=str(pid)).replace("sleeper.pid", "os.getpid()"),
    )
    with start(phase("hanging", *files)) as process:
        shard = psutil.Process(wait_for_pid(pid))
        left = shard.children()
        process.kill()
        process.communicate(timeout=60)
        assert shard.wait(30) in (None, -signal.SIGKILL)
    for each in left:
        each.kill()
