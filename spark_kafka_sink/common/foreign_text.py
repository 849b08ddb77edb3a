"""Text that somebody else wrote, such as a broker's message, to be shown in an error."""

from __future__ import annotations

SHOWN = 200
"""Characters that an error repeats."""


def quoted(text: str) -> str:
    """The start of a foreign text, on one line and without control characters."""
    shown = text[:SHOWN] + "…" if len(text) > SHOWN else text
    return "".join(char if char.isprintable() else "�" for char in shown)
