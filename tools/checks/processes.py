"""Processes by a mark in their environment, which whatever they start inherits."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MARK = "KAFKAPROD_TEST_SHARD"
_GRACE_S = 5


def new_mark() -> str:
    """A mark of its own that begins with this process's, so that stopping this stops both."""
    return f"{os.environ.get(MARK, '')}/{uuid.uuid4().hex}"


def marked(marks: Collection[str]) -> Iterator[psutil.Process]:
    """Every process whose environment carries one of the marks, wherever it is in the tree."""
    beginnings = tuple(marks)
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK, "").startswith(beginnings):
                yield process


def stop(marks: Collection[str], grace_s: float = _GRACE_S) -> list[str]:
    """End what carries one of the marks; the command lines of what did not end by itself.

    It has a second to end by itself, `grace_s` after SIGTERM, and is killed then.
    """
    _, left = psutil.wait_procs(list(marked(marks)), 1)
    told = [_told_to_end(process) for process in left]
    _, hanging = psutil.wait_procs(left, grace_s)
    for process in {*hanging, *marked(marks)}:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(hanging, grace_s)
    return [line for line in told if line]


def _told_to_end(process: psutil.Process) -> str | None:
    with suppress(psutil.Error):
        line = " ".join(process.cmdline())[:200]
        process.terminate()
        return line
    return None
