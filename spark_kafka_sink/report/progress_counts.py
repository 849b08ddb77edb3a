"""Counts of delivered records while tasks run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressCounts:
    """The numbers of records and bytes that tasks have delivered so far."""

    persisted: int = 0
    """Number of acknowledged records, including those of failed attempts."""
    sent: int = 0
    """Number of records sent with acks=0."""
    would_be_written: int = 0
    """Number of records that a dry run processed."""
    bytes_sent: int = 0
    """Bytes of these records after compression."""
    retries: int = 0
    """Number of batches sent again."""

    @property
    def records(self) -> int:
        """Total number of records."""
        return self.persisted + self.sent + self.would_be_written
