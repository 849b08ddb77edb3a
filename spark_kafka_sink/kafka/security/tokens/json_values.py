"""Read values of JSON objects from token issuers and brokers, which may contain anything."""

from __future__ import annotations

import json
import math


def parse_json_object(text: str | bytes) -> dict[str, object] | None:
    """Parse a JSON object, or return None if the text is not an object or is nested too deeply."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def json_text(fields: dict[str, object], name: str) -> str | None:
    """Return the string value of a field, or None if it is missing, empty or not a string."""
    value = fields.get(name)
    return value if isinstance(value, str) and value else None


def json_number(fields: dict[str, object], name: str) -> float | None:
    """Return the numeric value of a field. Some issuers send numbers as strings of digits.

    Returns:
        The number, or None if it is missing, not a number, negative, or too large for a date.
    """
    value = fields.get(name)
    if isinstance(value, str) and len(value) <= 20:
        value = int(value) if value.isascii() and value.isdigit() else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    seconds = float(value) if abs(value) < 1e15 else math.inf
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
