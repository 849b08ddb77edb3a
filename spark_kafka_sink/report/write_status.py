"""The status of a write."""

from __future__ import annotations

from enum import StrEnum


class WriteStatus(StrEnum):
    """Status of a write or micro-batch.

    A merged report has the status that is last in this order.
    """

    SUCCEEDED = "succeeded"
    """Every record is acknowledged, except records that the options exempt: bad rows, acks=0."""
    RUNNING = "running"
    """The write has begun. If a report keeps this status, the driver has died."""
    FAILED = "failed"
    """The write failed; the report counts what the finished tasks delivered."""
