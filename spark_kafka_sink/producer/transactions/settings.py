"""The transaction that a session writes in, as its task asks for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """One transaction of one session; the id must never have been used before.

    `timeout_ms` is transaction.timeout.ms: the coordinator aborts what is open for longer.
    `two_phase`: no timeout, where brokers allow it (KIP-939).
    """

    transactional_id: str
    timeout_ms: int
    two_phase: bool = False
