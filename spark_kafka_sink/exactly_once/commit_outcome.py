"""The outcome of EndTxn for a transaction, and the result of a commit or abort for a batch.

A task's transactional id is used once, so only EndTxn, the transaction timeout or an operator ever
ends its transaction. The table shows the response to EndTxn(commit) at the epoch that
InitProducerId returned to the task:

=====================================  ============================  ==============================
state before                           transactions V1               transactions V2
=====================================  ============================  ==============================
open                                   NONE                          NONE; the epoch increases by 1
already committed                      NONE                          NONE
aborted by EndTxn, or empty            INVALID_TXN_STATE             INVALID_TXN_STATE
aborted by its timeout                 PRODUCER_FENCED               INVALID_TXN_STATE
InitProducerId called again since      PRODUCER_FENCED               PRODUCER_FENCED
idle for transactional.id.expiration   INVALID_PRODUCER_ID_MAPPING   INVALID_PRODUCER_ID_MAPPING
=====================================  ============================  ==============================

EndTxn up to version 1 returns INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED.
Source: Kafka's ``TransactionCoordinator.endTransaction``, KIP-98, KIP-588, KIP-890.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from spark_kafka_sink.kafka.protocol.error_codes import COORDINATOR_UNAVAILABLE, FENCED, ErrorCode


class EndOutcome(Enum):
    """Outcome of EndTxn(commit) for a decided transaction."""

    COMMITTED = auto()
    LOST = auto()
    """Aborted after the decision; the records of the transaction are lost, unless its coordinator
    describes it as committed.
    """
    FENCED = auto()
    """Ended by another client. The batch is torn unless the transaction turns out to be committed.
    """
    RETRY = auto()
    """Not yet known. EndTxn is retried at the coordinator that FindCoordinator returns."""
    FAILED = auto()
    """The request was rejected. The decision remains valid, and the next driver retries."""


_OUTCOMES: dict[int, EndOutcome] = {
    ErrorCode.none: EndOutcome.COMMITTED,
    ErrorCode.invalid_txn_state: EndOutcome.LOST,
    ErrorCode.invalid_producer_id_mapping: EndOutcome.FENCED,
    **dict.fromkeys(FENCED, EndOutcome.FENCED),
    **dict.fromkeys(COORDINATOR_UNAVAILABLE, EndOutcome.RETRY),
}


def end_txn_outcome(code: int) -> EndOutcome:
    """Return the outcome of EndTxn(commit) for a decided transaction, given the error code."""
    return _OUTCOMES.get(code, EndOutcome.FAILED)


class CommitStatus(StrEnum):
    """Outcome of a commit or an abort for the rows of a batch."""

    COMMITTED = "committed"
    """This call decided the batch and made it visible."""
    ROLLED_FORWARD = "rolled forward"
    """An earlier driver decided the batch; this call made its remaining rows visible."""
    ALREADY_WRITTEN = "already written"
    """An earlier driver decided and finished the batch."""
    EMPTY = "empty"
    """The tasks had no rows; the batch counts as written."""
    ABORTED = "aborted"
    """The batch was never decided: its transactions are aborted, and none of its rows are visible.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """The result of the commit or the abort of a batch."""

    status: CommitStatus
    batch: str
    transactions: int = 0
    """Number of transactions in the decision, which are now visible to readers."""
    records: int = 0
    """Number of records in these transactions."""
    aborted: int = 0
    """Number of aborted transactions, including those of lost attempts."""
    is_superseded: bool = False
    """True if the tasks wrote rows, but the batch consists of another run's transactions. None of
    the tasks' rows are visible.
    """
    left_open: tuple[str, ...] = ()
    """Ids of transactions that could not be aborted; with two-phase commit they do not time out."""
    problem: str = ""
    """Why other transactions, with unknown ids, might be open; empty if no others can be open."""
