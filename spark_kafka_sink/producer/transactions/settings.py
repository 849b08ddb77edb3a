"""The transaction that a session writes in, as its task asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.protocol.transactions import OpenTransaction

FIRST_EPOCH = 0
"""The epoch that InitProducerId grants to the first who asks for a transactional id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTransaction:
    """A transaction that a driver has begun, and in which several sessions write.

    Leaders know a producer by its id and epoch alone: of two sessions that write to one partition
    the second is told success, and its records do not exist. So each partition belongs to one
    session, and each session to one attempt of a task: the first that has InitProducerId of
    `claim_id` answered, at epoch 0. Any other may not write.
    """

    producer: OpenTransaction
    claim_id: str
    """A transactional id that all attempts of one task have in common, and nobody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """One transaction of one session; the id must never have been used before, unless `joined`.

    `timeout_ms` is transaction.timeout.ms: the coordinator aborts what is open for longer.
    `two_phase`: no timeout, where brokers allow it (KIP-939).
    """

    transactional_id: str
    timeout_ms: int
    two_phase: bool = False
    joined: JoinedTransaction | None = None
    """The transaction that is written in, where somebody else has begun it."""
    abort_flag: str | None = None
    """A transactional id that must not exist once InitProducerId is answered: the driver creates it
    before it looks for transactions to abort, so that none is opened afterwards."""
    id_prefix: str | None = None
    """What the ids of all attempts begin with, for the ACL that an error names."""

    @property
    def first_id(self) -> str:
        """The transactional id that InitProducerId is sent for, before anything is written."""
        return self.transactional_id if self.joined is None else self.joined.claim_id
