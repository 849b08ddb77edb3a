"""Keeping the package's own log away while its findings tell the same."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class _Quiet:
    """A logger that is quiet: for how many, and the level that it had before the first."""

    level: int
    holders: int = 0


_QUIET: dict[str, _Quiet] = {}
_LOCK = Lock()
"""Guards `_QUIET` and the levels of its loggers."""


@contextmanager
def quiet_log(name: str) -> Iterator[None]:
    """Let a logger, and those below it, say nothing until all who ask for that are done."""
    log = logging.getLogger(name)
    with _LOCK:
        quiet = _QUIET.setdefault(name, _Quiet(log.level))
        quiet.holders += 1
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        with _LOCK:
            quiet.holders -= 1
            if not quiet.holders:
                log.setLevel(_QUIET.pop(name).level)
