"""How far a write or micro-batch has come, for its report."""

from __future__ import annotations

from enum import IntEnum


class WriteStatus(IntEnum):
    """Of several together, the highest holds."""

    SUCCEEDED = 0
    """Every record is acknowledged, but for those that the options give up: poison, acks=0."""
    RUNNING = 1
    """It has begun. A report that stays so is of a driver that has died."""
    FAILED = 2
    """It has failed; what the report counts is what the tasks that had finished delivered."""
