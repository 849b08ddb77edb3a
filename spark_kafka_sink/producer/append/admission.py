"""The partitions that do not accept rows of one chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True, slots=True)
class Admission:
    """The partitions, by topic, that do not accept rows of one chunk.

    - `broken`: the circuit breaker of the partition or of its leader is open. UNASSIGNED is
      included if all partitions that have a leader are included.
    - `full`: the partition or its leader has used up its buffer quota.
    """

    broken: Mapping[str, Collection[int]]
    full: Mapping[str, Collection[int]]
