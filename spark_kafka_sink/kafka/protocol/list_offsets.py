"""Special timestamps of ListOffsets, which client and broker share."""

LATEST = -1
"""The high watermark, or the last stable offset with `READ_COMMITTED`."""
EARLIEST = -2
"""The first offset."""
