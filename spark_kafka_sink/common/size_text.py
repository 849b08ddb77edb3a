"""Bytes for people to read: in B, kB (10^3) or MB (10^6), the same in every text."""

from __future__ import annotations

from typing import Final

KB: Final = 1_000
MB: Final = 1_000_000


def size_text(size: float) -> str:
    """A number of bytes, with the unit that gives it the most sense; "12 B", "3.4 kB", "5.0 MB"."""
    if round(size) < KB:
        return f"{size:,.0f} B"
    if round(size / KB, 1) < KB:
        return f"{size / KB:,.1f} kB"
    return f"{size / MB:,.1f} MB"
