"""What a commit has come to, and what its steps cost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CommitStatus(StrEnum):
    """How a batch got into Kafka, or why it did not have to."""

    COMMITTED = "committed"
    """Decided and made visible by this call."""
    ROLLED_FORWARD = "rolled forward"
    """An earlier driver had decided it; this call made visible what was not yet."""
    ALREADY_WRITTEN = "already written"
    """An earlier driver had decided and finished it."""
    EMPTY = "empty"
    """No task had a row; the batch counts as done."""
    ABORTED = "aborted"
    """Not decided by anyone: its transactions are aborted, and nothing of it is visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOutcome:
    """The result of a commit or an abort."""

    status: CommitStatus
    batch: str
    transactions: int = 0
    """Those of the decision, now visible to readers."""
    records: int = 0
    """Records in them."""
    aborted: int = 0
    """Transactions that were aborted: of lost attempts, or of a batch that was there already."""
    left_open: tuple[str, ...] = ()
    """Transactional ids whose transactions could not be aborted, and are open until they time out.
    """
    problem: str = ""
    """Why further transactions, whose ids are not known, may be open; empty if none can be."""
    steps: tuple[tuple[str, float], ...] = ()
    """Name and milliseconds of each step, in their order."""

    @property
    def total_ms(self) -> float:
        """All steps together."""
        return sum(milliseconds for _, milliseconds in self.steps)
