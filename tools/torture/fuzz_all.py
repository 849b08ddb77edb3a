"""Run all fuzzers in sequence: `python -m tools.torture.fuzz_all 1000000`."""

from __future__ import annotations

import subprocess
import sys
import time

SHARES = {
    "decode": 40,
    "headers": 10,
    "frames": 10,
    "connection": 20,
    "records": 10,
    "decompress": 10,
}
"""Percentage of the frames for each target."""


def fuzz_apart(name: str, frames: int) -> subprocess.CompletedProcess[str]:
    """Run one target in a separate process."""
    command = [sys.executable, "-m", "tools.torture.fuzz", name, str(frames)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main() -> None:
    """Return exit status 1 if a target found something."""
    total, failed = int(sys.argv[1]), 0
    for name, share in SHARES.items():
        frames, started = total * share // 100, time.monotonic()
        done = fuzz_apart(name, frames)
        failed += done.returncode != 0
        said = "ok" if done.returncode == 0 else f"FAILED\n{done.stdout}{done.stderr}"
        took = time.monotonic() - started
        sys.stdout.write(f"{name:12}{frames:9,} frames {took:7.1f} s  {said}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{total:,} frames, {failed} targets failed\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
