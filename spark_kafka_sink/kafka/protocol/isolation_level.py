"""Kafka's isolation levels, which client and broker share."""

from __future__ import annotations

from enum import IntEnum


class IsolationLevel(IntEnum):
    """Kafka's IsolationLevel in ListOffsets and Fetch."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
