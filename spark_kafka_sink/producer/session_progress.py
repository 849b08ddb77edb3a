"""How far a session has come, for who watches it while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionProgress:
    """Counters so far, each of which may be a moment ahead of another."""

    persisted: int
    """Records acknowledged."""
    sent: int
    """Records sent with acks=0."""
    would_be_written: int
    """Records of a dry run."""
    bytes_sent: int
    """Bytes of those, after compression."""
    retries: int
    """Batches sent again."""
    buffer_full: bool
    """Whether the writer waits for room in the buffer now."""
    connected: bool
    """Whether any broker is connected now."""
