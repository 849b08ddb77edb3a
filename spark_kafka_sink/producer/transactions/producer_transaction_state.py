"""The states of a session's transaction, and their transitions."""

from __future__ import annotations

from enum import Enum, auto


class ProducerTransactionState(Enum):
    """The state of the transaction as known to this producer."""

    UNINITIALIZED = auto()
    """There is no producer id, and no request for a producer id is in flight."""
    INITIALIZING = auto()
    """InitProducerId is in flight."""
    CHECKING_FLAG = auto()
    """A producer id was granted; it is used if the driver has not created the abort flag."""
    READY = auto()
    """There is a producer id; the transaction has not begun."""
    IN_TRANSACTION = auto()
    """A partition is being added, or records were sent: the coordinator may have begun the
    transaction.
    """
    ABORTABLE_ERROR = auto()
    """The transaction can no longer be committed, only aborted."""
    FATAL_ERROR = auto()
    """The coordinator rejects all requests of this producer, even an abort request."""
    ABORTING = auto()
    """An abort was requested; the coordinator has not responded."""
    ABORTED = auto()
    """The transaction has ended or never began."""


_STATE = ProducerTransactionState
_TRANSITIONS: dict[ProducerTransactionState, frozenset[ProducerTransactionState]] = {
    _STATE.UNINITIALIZED: frozenset(
        {_STATE.INITIALIZING, _STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}
    ),
    _STATE.INITIALIZING: frozenset(
        {
            _STATE.UNINITIALIZED,
            _STATE.CHECKING_FLAG,
            _STATE.READY,
            _STATE.ABORTABLE_ERROR,
            _STATE.FATAL_ERROR,
        }
    ),
    _STATE.CHECKING_FLAG: frozenset({_STATE.READY, _STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}),
    _STATE.READY: frozenset({_STATE.IN_TRANSACTION, _STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}),
    _STATE.IN_TRANSACTION: frozenset({_STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}),
    _STATE.ABORTABLE_ERROR: frozenset({_STATE.ABORTING, _STATE.ABORTED, _STATE.FATAL_ERROR}),
    _STATE.FATAL_ERROR: frozenset(),
    _STATE.ABORTING: frozenset({_STATE.ABORTED, _STATE.FATAL_ERROR}),
    _STATE.ABORTED: frozenset(),
}
FAILED = frozenset({_STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR, _STATE.ABORTING, _STATE.ABORTED})
"""States in which no records are written and which never lead to a commit."""
ENDED = frozenset({_STATE.FATAL_ERROR, _STATE.ABORTED})
"""States in which no more requests for the transaction are necessary."""


def next_state(
    before: ProducerTransactionState, after: ProducerTransactionState
) -> ProducerTransactionState:
    """Return `after`; raise AssertionError if the transition is not in the table."""
    if after not in _TRANSITIONS[before]:
        raise AssertionError(f"a transaction cannot change from {before} to {after}")
    return after
