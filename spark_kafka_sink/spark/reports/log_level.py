"""The log level that the driver's JVM was started with, which no Python worker is told.

`spark.log.level` stands in the JVM's command line when the session's builder or `--conf` has set
it. A later `setLogLevel` changes the JVM's loggers alone, and leaves no trace for a worker.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_LEVELS = frozenset(f"spark.log.level={level}" for level in ("ERROR", "FATAL", "OFF"))


@cache
def only_errors_are_logged(proc: Path = _PROC) -> bool:
    """Whether an ancestor of this process was told to log errors alone; False away from Linux."""
    process = "self"
    while process not in {"0", "1"}:
        try:
            words = (proc / process / "cmdline").read_text(errors="replace").split("\0")
            stat = (proc / process / "stat").read_text(errors="replace")
        except OSError:
            return False
        if not _LEVELS.isdisjoint(words):
            return True
        process = stat.rpartition(")")[2].split()[1]  # the parent
    return False
