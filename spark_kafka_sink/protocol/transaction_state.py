"""The states of a transactional id, by their names in Kafka (KIP-98, KIP-664, KIP-890)."""

from __future__ import annotations

from enum import StrEnum


class TransactionState(StrEnum):
    """Kafka's TransactionState, by its names there."""

    EMPTY = "Empty"
    """The producer has an id, and no transaction since."""
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    """It will be committed: the markers are being written."""
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    """The id has expired."""
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """InitProducerId is about to abort it."""
    UNKNOWN = "Unknown"
    """One that this version has no name for."""

    @classmethod
    def _missing_(cls, _value: object) -> TransactionState:
        return cls.UNKNOWN


OPEN_STATES = (
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.PREPARE_EPOCH_FENCE,
)
"""Those that hold readers back."""
