"""Startup time and memory of the Python worker in which this code runs.

Spark starts a daemon for each kind of Python worker and forks the workers from it. A worker serves
one request after another. Spark does not report startup times to Python, so they are read from
`/proc`. On systems other than Linux, they are unknown.
"""

from __future__ import annotations

import gc
import inspect
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

_PROC: Final = Path("/proc")
_START: Final = 19
"""Index of `starttime` in /proc/PID/stat, counted after the command in brackets."""
_DAEMON: Final = "pyspark.daemon"
_SLACK_S: Final = 0.5
"""Seconds that a daemon may be idle between its start and its first fork."""


def startup_ms(proc: Path = _PROC) -> int:
    """Return the milliseconds from the start of this worker until now.

    This includes the start of the daemon if Spark started it for this worker. Returns 0 if the
    worker has already handled a request, or if the time is unknown.
    """
    if not is_first_request():
        return 0
    try:
        return round((time.clock_gettime(time.CLOCK_BOOTTIME) - _started_s(proc)) * 1000)
    except (AttributeError, OSError, ValueError, IndexError):
        return 0


def freeze_loaded_modules() -> None:
    """In a Python worker, exclude everything loaded so far from garbage collection.

    Importing modules triggers collections, and `pyspark.daemon` runs one after each request. They
    would traverse every object in PySpark's modules, which takes tens of milliseconds.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is not None and spec.name == _DAEMON:
        gc.freeze()


def is_first_request() -> bool:
    """Return True in the first request of a forked worker.

    The loop over requests in `pyspark.daemon.manager` sets the variable `code` after each request.
    """
    frame = inspect.currentframe()
    while frame is not None and not _is_manager(frame):
        frame = frame.f_back
    return frame is not None and "code" not in frame.f_locals


def _is_manager(frame: FrameType) -> bool:
    if frame.f_code.co_name != "manager":
        return False
    spec = frame.f_globals.get("__spec__")
    return spec is not None and spec.name == _DAEMON


def _started_s(proc: Path) -> float:
    """Return the start time of the worker, or of a daemon started for it, in seconds after boot.

    If the daemon was idle before it forked this worker, it was started for an earlier worker.
    `schedstat` contains the nanoseconds that the daemon ran, and that it waited for a CPU.
    """
    parent = proc / str(os.getppid())
    worker, daemon = _process_start_s(proc / "self"), _process_start_s(parent)
    ran, waited = (parent / "schedstat").read_text().split()[:2]
    busy = (int(ran) + int(waited)) / 1e9
    return daemon if worker - daemon <= busy + _SLACK_S else worker


def _process_start_s(process: Path) -> float:
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return int(fields[_START]) / os.sysconf("SC_CLK_TCK")
