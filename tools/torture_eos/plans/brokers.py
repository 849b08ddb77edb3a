"""The brokers that a run is against."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Release(StrEnum):
    """Of Kafka; those before 4.0 have transactions V1, and their ZooKeeper."""

    V4_3_1 = "4.3.1"
    V3_9_1 = "3.9.1"
    V2_8_2 = "2.8.2"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Brokers:
    """So many `nodes` of a release; `two_phase`: they allow KIP-939, and the sink uses it."""

    nodes: int = 1
    release: Release = Release.V4_3_1
    two_phase: bool = False

    @property
    def lists_transactions(self) -> bool:
        """From Kafka 3.0 on; before, what lost attempts leave open has to time out."""
        return self.release is not Release.V2_8_2
