"""When to forget all brokers and begin anew from the bootstrap servers. Pure: the clock comes in.

Source: ``NetworkClient.DefaultMetadataUpdater``, KIP-899 (no broker can be asked any more) and
KIP-1102 (metadata fails for too long, or a broker asks for it).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Rebootstrap:
    """`trigger`: seconds without an answer to any Metadata request; None: never begin anew."""

    trigger: float | None
    _since: float | None = None
    _required: bool = False

    def asking(self, now: float) -> None:
        """Metadata is due, and a broker is asked or looked for."""
        if self._since is None:
            self._since = now

    def answered(self) -> None:
        """A broker has told the metadata."""
        self._since = None

    def require(self) -> None:
        """A broker says that this client does not belong to it."""
        self._required = True

    def is_due(self, now: float) -> bool:
        """Whether to begin anew; from then on the time counts from `now` again."""
        overdue = self._since is not None and now - self._since >= (self.trigger or 0.0)
        if self.trigger is None or not (self._required or overdue):
            return False
        self._since, self._required = now, False
        return True
