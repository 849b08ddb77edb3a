"""Outcomes of EndTxn for one transaction, and of a commit or abort for a batch.

What the answer to an EndTxn says about a task's transaction.

A task's transactional id is used once, so nothing but EndTxn, its timeout, or an operator ever ends
its transaction. Committing at the epoch that the task got from InitProducerId is answered with

=====================================  ============================  ==============================
before                                 transactions V1               transactions V2
=====================================  ============================  ==============================
open                                   NONE                          NONE, the epoch goes up by one
committed before                       NONE                          NONE
aborted by EndTxn, or empty            INVALID_TXN_STATE             INVALID_TXN_STATE
aborted by its timeout                 PRODUCER_FENCED               INVALID_TXN_STATE
InitProducerId called again since      PRODUCER_FENCED               PRODUCER_FENCED
idle for transactional.id.expiration   INVALID_PRODUCER_ID_MAPPING   INVALID_PRODUCER_ID_MAPPING
=====================================  ============================  ==============================

EndTxn up to version 1 says INVALID_PRODUCER_EPOCH for PRODUCER_FENCED.
Source: Kafka's ``TransactionCoordinator.endTransaction``, KIP-98, KIP-588, KIP-890.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from spark_kafka_sink.protocol.error_codes import ClientErrorCode, ErrorCode


class EndOutcome(Enum):
    """What has become of a transaction that should be committed."""

    COMMITTED = auto()
    TORN = auto()
    """It is aborted, although it was decided: its records are lost."""
    FENCED = auto()
    """It was ended without this sink, and the answer does not say how: count it as torn."""
    RETRY = auto()
    """Nothing is known yet: ask again, at the coordinator that FindCoordinator names."""
    FAILED = auto()
    """The request is refused. The decision stands, and the next driver tries again."""


_OUTCOMES: dict[int, EndOutcome] = {
    ErrorCode.none: EndOutcome.COMMITTED,
    ErrorCode.invalid_txn_state: EndOutcome.TORN,
    ErrorCode.producer_fenced: EndOutcome.FENCED,
    ErrorCode.invalid_producer_epoch: EndOutcome.FENCED,
    ErrorCode.invalid_producer_id_mapping: EndOutcome.FENCED,
    ErrorCode.coordinator_load_in_progress: EndOutcome.RETRY,
    ErrorCode.coordinator_not_available: EndOutcome.RETRY,
    ErrorCode.not_coordinator: EndOutcome.RETRY,
    ErrorCode.concurrent_transactions: EndOutcome.RETRY,
    ErrorCode.request_timed_out: EndOutcome.RETRY,
    ErrorCode.network_exception: EndOutcome.RETRY,
    ClientErrorCode.disconnected: EndOutcome.RETRY,
    ClientErrorCode.not_sent: EndOutcome.RETRY,
}


def commit_outcome(code: int) -> EndOutcome:
    """What an EndTxn(commit) of a decided transaction was answered with."""
    return _OUTCOMES.get(code, EndOutcome.FAILED)


def is_ended(code: int) -> bool:
    """Whether a transaction is no longer open after an EndTxn(abort) with this answer."""
    return commit_outcome(code) in {EndOutcome.COMMITTED, EndOutcome.TORN, EndOutcome.FENCED}


class CommitStatus(StrEnum):
    """How a batch got into Kafka, or why it did not have to."""

    COMMITTED = "committed"
    """Decided and made visible by this call."""
    ROLLED_FORWARD = "rolled forward"
    """An earlier driver had decided it; this call made visible what was not yet."""
    ALREADY_WRITTEN = "already written"
    """An earlier driver had decided and finished it."""
    EMPTY = "empty"
    """No task had a row; the batch counts as done."""
    ABORTED = "aborted"
    """Not decided by anyone: its transactions are aborted, and nothing of it is visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOutcome:
    """The result of a commit or an abort."""

    status: CommitStatus
    batch: str
    transactions: int = 0
    """Those of the decision, now visible to readers."""
    records: int = 0
    """Records in them."""
    aborted: int = 0
    """Transactions that were aborted: of lost attempts, or of a batch that was there already."""
    left_open: tuple[str, ...] = ()
    """Transactional ids whose transactions could not be aborted, and are open until they time out.
    """
    problem: str = ""
    """Why further transactions, whose ids are not known, may be open; empty if none can be."""
    steps: tuple[tuple[str, float], ...] = ()
    """Name and milliseconds of each step, in their order."""

    @property
    def total_ms(self) -> float:
        """All steps together."""
        return sum(milliseconds for _, milliseconds in self.steps)
