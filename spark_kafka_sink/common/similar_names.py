"""Find the name that a user probably meant, for hints such as "Did you mean linger.ms?"."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_COMPARED = 10_000
MIN_TYPO_RATIO = 0.8
"""Minimum difflib ratio at which a name counts as a typo of a different name."""


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the most similar of `names`, ignoring case, or None."""
    from difflib import get_close_matches  # only for typos

    known = {candidate.lower(): candidate for candidate in sorted(names)}
    matches = get_close_matches(name.lower(), known, n=1, cutoff=cutoff)
    return known[matches[0]] if matches else None


def similar(name: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return up to three of `names` that resemble `name`, starting with the most similar.

    Only the first `_MAX_COMPARED` names are compared.
    """
    from difflib import get_close_matches  # only for typos

    known = {candidate.lower(): candidate for candidate in names[:_MAX_COMPARED]}
    return tuple(known[match] for match in get_close_matches(name.lower(), known, n=3))


def did_you_mean(name: str, names: Iterable[str]) -> str | None:
    """Return a hint with the most similar of `names`, or None."""
    match = nearest(name, names)
    return None if match is None else f"Did you mean {match}?"
