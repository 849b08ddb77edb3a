"""A logger that limits the rate of repeated messages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Hashable

QUIET_SECONDS: Final = 10.0
MOST_KINDS: Final = 1000


@dataclass(slots=True)
class _Said:
    at: float
    more: int = 0


class RepeatLog:
    """Logs the first message of a kind, and then one in `QUIET_SECONDS` with the number between.

    Args:
        log: where to.
        now: seconds of a monotonic clock.
    """

    __slots__ = ("_log", "_now", "_said")

    def __init__(self, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now = now
        self._said: dict[Hashable, _Said] = {}

    def log(self, level: int, kind: Hashable, message: str, *args: object) -> None:
        """Log a message with its arguments, unless one of its kind was logged a moment ago."""
        if not self._log.isEnabledFor(level):
            return
        now, said = self._now(), self._said.get(kind)
        if said is not None and now - said.at < QUIET_SECONDS:
            said.more += 1
            return
        more = f" (and {said.more:,} more like it)" if said is not None and said.more else ""
        if len(self._said) >= MOST_KINDS:
            self._said.clear()
        self._said[kind] = _Said(now)
        self._log.log(level, message + more, *args)
