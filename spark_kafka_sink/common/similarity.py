"""Which known name a mistyped one is most like, for hints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CLOSE = 0.8
"""difflib's ratio from which on a name counts as a typo of another."""


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name most like `name`, in whichever case; None when nothing is."""
    from difflib import get_close_matches  # only for who has mistyped

    known = {each.lower(): each for each in sorted(names)}
    found = get_close_matches(name.lower(), known, n=1, cutoff=cutoff)
    return known[found[0]] if found else None


def did_you_mean(name: str, names: Iterable[str]) -> str | None:
    """A hint that names the nearest of `names`, None when nothing is near."""
    match = nearest(name, names)
    return None if match is None else f"Did you mean {match}?"
