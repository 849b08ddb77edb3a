"""What the driver must know to end a transaction that a task left open."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TransactionInfo:
    """A transaction that a task left open for the driver to decide."""

    transactional_id: str
    producer_id: int
    epoch: int
