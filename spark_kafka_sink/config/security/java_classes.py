"""Java classes that options name: known by their full name, shaded or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def known_class(name: str, known: Iterable[str]) -> str | None:
    """Which of the known classes a name means, None for none.

    A shaded copy of the class has a prefix, as Databricks' kafkashaded.org.apache.kafka....
    """
    return next((each for each in known if name == each or name.endswith(f".{each}")), None)
