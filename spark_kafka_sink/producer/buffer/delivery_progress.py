"""The attempts to deliver a batch, and what is known about their outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uuid


@dataclass(slots=True)
class DeliveryProgress:
    """The progress of one batch since it was drained; sender thread only.

    Times are in seconds of the monotonic clock.
    """

    attempts: int = 0
    """Number of Produce requests that contained the batch."""
    sent_at: float = 0.0
    """Time of the latest attempt."""
    started_at: float = 0.0
    """Time from which delivery.timeout.ms is measured, once the batch was sent; see
    `delivery_timeout`.
    """
    topic_id: uuid.UUID | None = None
    """The topic id with which the batch was last sent."""
    is_possibly_persisted: bool = False
    """True if an attempt has an unknown outcome, so that the log may contain the batch."""
    is_retried: bool = False
    """True if an attempt was rejected or its response was lost, so the batch is sent again."""
    rejection_code: int = 0
    """Error code of the latest rejection, or 0."""
    loss: str = ""
    """Why the latest attempt has no response, or "" if it has one."""
    is_restamped: bool = False
    """True for dead letters that got the current time as timestamp, because their original
    timestamps were rejected.
    """

    def record_attempt(self, now: float, started_at: float, topic_id: uuid.UUID | None) -> None:
        """Record that the batch is sent; the first attempt begins its delivery time."""
        if not self.attempts:
            self.started_at = started_at
        self.attempts += 1
        self.sent_at, self.topic_id = now, topic_id

    def record_retry(self, rejection_code: int, started_at: float) -> None:
        """Record that the batch is sent again; the code is 0 if its response was lost."""
        self.is_retried, self.started_at = True, started_at
        self.rejection_code = rejection_code or self.rejection_code
