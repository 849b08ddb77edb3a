"""The start of a streaming query, for which the schemas of key and value stay the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamStart:
    """One start of a streaming query."""

    name: str
    """Identifies the stream in its Spark session."""
    latest: tuple[int, int] | None = (0, 0)
    """When the latest query of the Spark session started, in any unit; None if unknown. The default
    if the name identifies the start.
    """
