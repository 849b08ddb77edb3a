"""A short run of each fuzzer; `make fuzz` feeds a million frames."""

from __future__ import annotations

import subprocess
import sys

import pytest

FRAMES = 4_000
# The fuzzer instruments what it imports, and therefore runs in a process of its own.
TARGETS = ("decode", "headers", "frames", "connection", "records", "decompress")


def _fuzz(target: str, *before: str) -> subprocess.CompletedProcess[str]:
    code = f"from tools.torture import fuzz; {'; '.join(before) or 'pass'}"
    code += f"; fuzz.fuzz({target!r}, {FRAMES})"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False
    )


@pytest.mark.parametrize("target", TARGETS)
def test_garbage_is_parsed_or_refused(target: str) -> None:
    done = _fuzz(target)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_fuzzer_finds_what_is_wrong() -> None:
    """Another exception than ProtocolError, behind a condition that only coverage leads to."""
    wrong = (
        "frames, share = fuzz.TARGETS['frames']",
        "wrong = lambda data: (frames(data), 1 // (len(data) != 7))",
        "fuzz.TARGETS['frames'] = wrong, share",
    )
    done = _fuzz("frames", *wrong)
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stdout + done.stderr
