"""A short run of each fuzzer; `make fuzz` uses a million frames."""

import subprocess

import pytest

from tests.support.python import run_python

FRAMES = 4_000
# The fuzzer instruments imported modules, so it runs in a subprocess.
TARGETS = ("decode", "headers", "frames", "connection", "records", "decompress")


def fuzz(target: str, *before: str) -> subprocess.CompletedProcess[str]:
    code = f"from tools.torture import fuzz; {'; '.join(before) or 'pass'}"
    code += f"; fuzz.fuzz({target!r}, {FRAMES})"
    return run_python("-c", code, timeout_s=200)


@pytest.mark.parametrize("target", TARGETS)
def test_random_bytes_are_parsed_or_rejected(target: str) -> None:
    done = fuzz(target)
    assert done.returncode == 0, done.stdout + done.stderr


def test_fuzzer_detects_a_planted_error() -> None:
    """An exception other than ProtocolError that is only reachable with coverage guidance."""
    wrong = (
        "frames, share = fuzz.TARGETS['frames']",
        "wrong = lambda data: (frames(data), 1 // (len(data) != 7))",
        "fuzz.TARGETS['frames'] = wrong, share",
    )
    done = fuzz("frames", *wrong)
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stdout + done.stderr
