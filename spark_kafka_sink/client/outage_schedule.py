"""Which troubles last, and when to say so: seldom enough that a log stays readable. Pure.

Each thing is spoken of once in `INTERVAL` seconds at most, and all of them in `MOST` lines
together, as a whole cluster may be away and every task of a job has this to say.
"""

from __future__ import annotations

from dataclasses import dataclass, field

INTERVAL = 30.0
MOST = 10


@dataclass(slots=True)
class Trouble:
    """Something is wrong since `since` and has been noticed so many `times`; was it `told`?"""

    since: float
    times: int = 0
    told: bool = False


@dataclass(slots=True)
class Troubles:
    """Those that last, by the name of what they are about; times in seconds of a clock."""

    left_out: int = 0
    """Lines that would have been one too many; whoever writes one may say so and set it back."""
    _open: dict[str, Trouble] = field(default_factory=dict)
    _told_at: dict[str, float] = field(default_factory=dict)
    _lines: list[float] = field(default_factory=list)

    def meet(self, what: str, now: float, patience: float = 0.0) -> Trouble | None:
        """Note that something is wrong; the trouble, if now is the time to say so.

        `patience`: seconds that it must have lasted.
        """
        trouble = self._open.setdefault(what, Trouble(now))
        trouble.times += 1
        told_at = self._told_at.get(what)
        if now - trouble.since < patience:
            return None
        if told_at is not None and now - told_at < INTERVAL:
            return None
        self._lines = [at for at in self._lines if now - at < INTERVAL]
        if len(self._lines) >= MOST:
            self.left_out += 1
            return None
        self._lines.append(now)
        self._told_at[what] = now
        trouble.told = True
        return trouble

    def __bool__(self) -> bool:
        """Whether anything is wrong."""
        return bool(self._open)

    def end(self, what: str) -> Trouble | None:
        """Note that all is well again; the trouble that is over, if it was spoken of."""
        trouble = self._open.pop(what, None)
        return trouble if trouble is not None and trouble.told else None

    def rest(self) -> str:
        """How many lines were left out since this was last asked, as the end of a line."""
        count, self.left_out = self.left_out, 0
        return f" ({count} lines about others were left out)" if count else ""
