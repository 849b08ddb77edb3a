"""The count of bad rows with the same reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.report.metrics import merging

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


EXAMPLES_KEPT = 5
"""Maximum number of examples per reason in a merged report."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BadRowCount:
    """Rows that could not be written for the same reason.

    They were sent to the dead letter topic, or dropped.
    """

    reason: str
    """Name of the reason."""
    dead_lettered: int = merging.summed_field()
    """Number of rows sent to the dead letter topic."""
    dropped: int = merging.summed_field()
    """Number of rows dropped because there is no dead letter topic."""
    examples: tuple[str, ...] = merging.merged_field(
        merging.flat(merging.distinct, EXAMPLES_KEPT), ()
    )
    """Descriptions of a few of these rows."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Parse the JSON object, which has the same fields."""
        return cls(
            reason=str(data["reason"]),
            dead_lettered=int(data["dead_lettered"]),
            dropped=int(data["dropped"]),
            examples=tuple(str(example) for example in data["examples"]),
        )

    @classmethod
    def merge_all(cls, counts: Iterable[Self]) -> tuple[Self, ...]:
        """Add up the counts, one per reason, sorted."""
        return merging.merge_groups(cls, counts)
