"""Special timestamps of ListOffsets, and isolation levels, which client and broker share."""

from __future__ import annotations

from enum import IntEnum

LATEST = -1
"""The high watermark, or the last stable offset with `READ_COMMITTED`."""
EARLIEST = -2
"""The first offset."""


class IsolationLevel(IntEnum):
    """Kafka's IsolationLevel in ListOffsets and Fetch."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
