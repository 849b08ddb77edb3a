"""The states of a session's transaction. Source: Kafka's ``TransactionManager.State``."""

from __future__ import annotations

from enum import Enum, auto


class TransactionState(Enum):
    """Where the transaction stands, as this producer knows it."""

    UNINITIALIZED = auto()
    """There is no producer id, and none was asked for since the last refusal."""
    INITIALIZING = auto()
    """InitProducerId is in flight."""
    READY = auto()
    """There is a producer id, and the transaction has not begun."""
    IN_TRANSACTION = auto()
    """A partition is being added, or records were sent: the coordinator may have begun it."""
    ABORTABLE_ERROR = auto()
    """It must not be committed any more."""
    FATAL_ERROR = auto()
    """The coordinator refuses this producer, to abort as well."""
    ABORTING = auto()
    """Its end is asked for, until the coordinator has answered."""
    ABORTED = auto()
    """It has ended, or there was nothing to end."""


_STATE = TransactionState
_TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    _STATE.UNINITIALIZED: frozenset(
        {_STATE.INITIALIZING, _STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}
    ),
    _STATE.INITIALIZING: frozenset(
        {_STATE.READY, _STATE.UNINITIALIZED, _STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}
    ),
    _STATE.READY: frozenset({_STATE.IN_TRANSACTION, _STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}),
    _STATE.IN_TRANSACTION: frozenset({_STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}),
    _STATE.ABORTABLE_ERROR: frozenset({_STATE.ABORTING, _STATE.ABORTED, _STATE.FATAL_ERROR}),
    _STATE.FATAL_ERROR: frozenset(),
    _STATE.ABORTING: frozenset({_STATE.ABORTED, _STATE.FATAL_ERROR}),
    _STATE.ABORTED: frozenset(),
}
FAILED = frozenset({_STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR, _STATE.ABORTING, _STATE.ABORTED})
"""Nothing more is written in it, and it is never committed."""
ENDED = frozenset({_STATE.FATAL_ERROR, _STATE.ABORTED})
"""There is nothing left to be done about it."""


def next_state(before: TransactionState, after: TransactionState) -> TransactionState:
    """The state `after`; what is not in the table is a bug."""
    if after not in _TRANSITIONS[before]:
        raise AssertionError(f"a transaction cannot go from {before} to {after}")
    return after
