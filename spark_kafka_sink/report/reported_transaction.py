"""A transaction of a task, in the report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ReportedTransaction:
    """A transaction that a task left open for the driver to commit or abort."""

    transactional_id: str
    """Transactional id of one attempt of a task; with atomicBatch=true, the id that all tasks
    share.
    """
    producer_id: int
    """Producer id of the transaction's batches in the log."""
    epoch: int
    """Producer epoch in these batches."""
