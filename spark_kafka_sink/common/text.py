"""Text for users: sizes, counts, shortened lists, types and external texts, valid topic names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

KB = 1_000
MB = 1_000_000
_MAX_EXTERNAL_CHARS = 200
"""Maximum length of an external text in an error, in characters."""
_MAX_TYPE_CHARS = 100
"""Maximum length of a type in an error, in characters."""
TOPIC_NAMES = "Use 1 to 249 ASCII letters, digits, dots, underscores and hyphens."
"""The rules for topic names, as a hint for users."""
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


def size_text(size: float) -> str:
    """Return a size in bytes as text in B, kB (10^3) or MB (10^6), such as "3.4 kB"."""
    if round(size) < KB:
        return f"{size:,.0f} B"
    if round(size / KB, 1) < KB:
        return f"{size / KB:,.1f} kB"
    return f"{size / MB:,.1f} MB"


def capitalized(sentence: str) -> str:
    """Return a sentence that starts with a capital; the rest is unchanged."""
    return sentence[:1].upper() + sentence[1:]


def plural(count: float, singular: str, many: str = "") -> str:
    """Return a count with its noun, such as "1 retry" or "2,000 retries".

    The count is rounded. `many` defaults to `singular` with an s.
    """
    text = f"{count:,.0f}"
    return f"{text} {singular if text == '1' else many or singular + 's'}"


def listed(texts: Sequence[str], limit: int, separator: str = ", ") -> str:
    """Return the first texts and the number of the others, such as "a, b and 3 more"."""
    omitted = len(texts) - limit
    return separator.join(texts[:limit]) + (f" and {omitted} more" if omitted > 0 else "")


def quoted(text: str) -> str:
    """Return the start of an external text on one line, without control characters."""
    shortened = text[:_MAX_EXTERNAL_CHARS] + "…" if len(text) > _MAX_EXTERNAL_CHARS else text
    return "".join(char if char.isprintable() else "�" for char in shortened)


def shortened_type(name: str) -> str:
    """Return the name of a type, or only its start if it is a large struct."""
    return name if len(name) <= _MAX_TYPE_CHARS else f"{name[:_MAX_TYPE_CHARS]}..."


def is_topic_name(name: str) -> bool:
    """Return True if this is a valid topic name. See `TOPIC_NAMES`."""
    return name not in (".", "..") and _TOPIC_NAME.fullmatch(name) is not None
