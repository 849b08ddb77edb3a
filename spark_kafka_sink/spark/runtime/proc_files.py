"""Read the files in Linux's /proc about this process, its ancestors and their threads.

A process or thread is given as its folder. `proc` is the folder /proc, or another one in tests.
Ended processes and threads are omitted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

PROC = Path("/proc")
SELF = "self"
STARTED = 19
"""Index in `stat_field` of the start time, in clock ticks since the system's boot."""
_PARENT = 1
"""Index in `stat_field` of the parent's process id."""
_INIT = "1"


def stat_field(folder: Path, index: int) -> str:
    """Return the field of `stat` at this index, counted after the name in parentheses."""
    return _read_text(folder / "stat").rpartition(")")[2].split()[index]


def _ancestors(proc: Path) -> Iterator[Path]:
    """Yield this process and its ancestors."""
    process = SELF
    while process != "0":
        try:
            parent = stat_field(proc / process, _PARENT)
        except (OSError, IndexError):
            return
        yield proc / process
        process = parent


def command_lines(proc: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield this process and its ancestors except init, each with the words of its command line."""
    for process in _ancestors(proc):
        if process.name == _INIT:
            return
        try:
            yield process, _read_text(process / "cmdline").split("\0")
        except OSError:
            return


def stderr_of(process: Path) -> str:
    """Return the file to which a process writes its stderr; empty if it cannot be read."""
    try:
        return str((process / "fd" / "2").readlink())
    except OSError:
        return ""


def threads_named(names: Collection[str], proc: Path) -> list[Path]:
    """Return the threads with these names in the nearest ancestor process that has any."""
    for process in _ancestors(proc):
        try:
            threads = list((process / "task").iterdir())
        except OSError:
            return []
        if matching := [thread for thread in threads if thread_name(thread) in names]:
            return matching
    return []


def thread_start(thread: Path) -> tuple[int, int] | None:
    """Return a thread's start time in clock ticks since boot, and its id; None if it has ended."""
    try:
        return int(stat_field(thread, STARTED)), int(thread.name)
    except (OSError, ValueError, IndexError):
        return None


def thread_name(thread: Path) -> str:
    """Return a thread's name, of at most 15 characters; empty if it has ended."""
    try:
        return _read_text(thread / "comm").strip()
    except OSError:
        return ""


def _read_text(file: Path) -> str:
    return file.read_text(errors="replace", encoding="utf-8")
