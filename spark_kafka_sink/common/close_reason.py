"""The reasons why a batch is closed, which the metrics count."""

from __future__ import annotations

from enum import StrEnum


class CloseReason(StrEnum):
    """The reason why a batch was closed; see `producer.buffer.close_rules`."""

    FULL = "full"
    """The batch has reached batch.size or batch.num.messages."""
    LINGER = "linger"
    """linger.ms has passed."""
    MEMORY = "memory"
    """The writer waits for free buffer memory, or open batches use too much of it."""
    FLUSH = "flush"
    """The task has no more rows, or the batch waits for no more rows."""
