"""The settings of a session's transaction, as the task requests it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.transactions import OpenTransaction

FIRST_EPOCH = 0
"""The epoch that InitProducerId grants to the first request for a transactional id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTransaction:
    """A transaction that a driver has begun, and in which several sessions write.

    Leaders identify a producer by id and epoch only. If two sessions wrote to one partition,
    batches of the second one could be acknowledged as duplicates without being appended. So each
    partition belongs to one session, and each session to one attempt of a task: the first one whose
    InitProducerId for `claim_id` is answered, at epoch 0. Other attempts must not write.
    """

    producer: OpenTransaction
    claim_id: str
    """A transactional id that all attempts of one task share, and no other task uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """One transaction of one session; its id must never have been used before, unless `joined`.

    `timeout_ms` is transaction.timeout.ms: the coordinator aborts a transaction that is open for
    longer. `two_phase`: no timeout, if brokers allow that (KIP-939).
    """

    transactional_id: str
    timeout_ms: int
    two_phase: bool = False
    joined: JoinedTransaction | None = None
    """The transaction to write in, if a driver has begun it."""
    abort_flag: str | None = None
    """A transactional id that must not exist after InitProducerId was answered: the driver creates
    it before it lists transactions to abort, so that none is opened afterwards."""
    id_prefix: str | None = None
    """Common prefix of the transactional ids of all attempts, for the ACL in error messages."""

    @property
    def first_id(self) -> str:
        """The transactional id of the first InitProducerId, sent before anything is written."""
        return self.transactional_id if self.joined is None else self.joined.claim_id
