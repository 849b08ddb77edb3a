"""How many rows could not be written, for the delivery report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EXAMPLES_KEPT = 5
"""Examples of each reason in a merged report."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PoisonCount:
    """Bad rows of one reason: how many went to the dead letter topic, how many were dropped."""

    reason: str
    """The reason's name."""
    dead_lettered: int = 0
    """Rows that went to the dead letter topic."""
    dropped: int = 0
    """Rows dropped, as there is no dead letter topic."""
    examples: tuple[str, ...] = ()
    """A few of them in words."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "reason": self.reason,
            "dead_lettered": self.dead_lettered,
            "dropped": self.dropped,
            "examples": list(self.examples),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` made."""
        return cls(
            reason=str(data["reason"]),
            dead_lettered=int(data["dead_lettered"]),
            dropped=int(data["dropped"]),
            examples=tuple(str(example) for example in data["examples"]),
        )

    @classmethod
    def merge_all(cls, counts: Iterable[PoisonCount]) -> tuple[Self, ...]:
        """All together, one per reason, sorted."""
        dead_lettered: Counter[str] = Counter()
        dropped: Counter[str] = Counter()
        examples: dict[str, set[str]] = {}
        for count in counts:
            dead_lettered[count.reason] += count.dead_lettered
            dropped[count.reason] += count.dropped
            examples.setdefault(count.reason, set()).update(count.examples)
        return tuple(
            cls(
                reason=reason,
                dead_lettered=dead_lettered[reason],
                dropped=dropped[reason],
                examples=tuple(sorted(examples[reason])[:EXAMPLES_KEPT]),
            )
            for reason in sorted(examples)
        )
