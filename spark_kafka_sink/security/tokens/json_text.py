"""JSON from strangers: an object, or nothing."""

from __future__ import annotations

import json
import math


def object_in(text: str | bytes) -> dict[str, object] | None:
    """The JSON object that a text is, or None: not JSON, too deep, or something else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def text_under(found: dict[str, object], name: str) -> str | None:
    """The non-empty string under a name."""
    value = found.get(name)
    return value if isinstance(value, str) and value else None


def seconds_under(found: dict[str, object], name: str) -> float | None:
    """The number under a name, which may be a string of digits, as some issuers send it.

    Returns:
        None where it is missing, no number, negative, or beyond any calendar.
    """
    value = found.get(name)
    if isinstance(value, str) and len(value) <= 20:
        value = int(value) if value.isascii() and value.isdigit() else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    seconds = float(value) if abs(value) < 1e15 else math.inf
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
