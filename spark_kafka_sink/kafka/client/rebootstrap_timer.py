"""When to drop all brokers and connect to the bootstrap servers again.

This is due if no broker is available (KIP-899), if metadata requests fail for too long, or if a
broker requests it (KIP-1102).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RebootstrapTimer:
    """Decides when to connect to the bootstrap servers again. Callers pass the current time."""

    trigger: float | None
    """The maximum time in seconds without a Metadata response, or None for no limit."""
    _since: float | None = None
    _required: bool = False

    def start_timer(self, now: float) -> None:
        """Start the timer, because the client is waiting for a broker or for requested metadata."""
        if self._since is None:
            self._since = now

    def stop_timer(self) -> None:
        """Stop the timer, because a broker has returned metadata."""
        self._since = None

    def require(self) -> None:
        """Force a rebootstrap, because a broker has returned REBOOTSTRAP_REQUIRED."""
        self._required = True

    def is_due(self, now: float) -> bool:
        """Return True if it is time to rebootstrap."""
        overdue = self._since is not None and now - self._since >= (self.trigger or 0.0)
        return self.trigger is not None and (self._required or overdue)

    def restart_timer(self, now: float) -> None:
        """Restart the timer after a rebootstrap."""
        self._since = now
        self._required = False
