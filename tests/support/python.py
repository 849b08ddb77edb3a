"""Run Python in a child process."""

import subprocess
import sys
from typing import Any


def run_python(
    *arguments: object, timeout_s: float | None = 300, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Return the ended process, whose output is text and whose input is empty."""
    ended: subprocess.CompletedProcess[str] = subprocess.run(
        [sys.executable, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        **options,
    )
    return ended
