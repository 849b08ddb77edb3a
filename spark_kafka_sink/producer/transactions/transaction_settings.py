"""Settings of a session's transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.security.acl_commands import Acl

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer

FIRST_EPOCH = 0
"""The epoch that InitProducerId grants to the first request for a transactional id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTransaction:
    """A transaction that a driver has begun and that several sessions write to.

    Leaders identify a producer only by its id and epoch. If two sessions wrote to the same
    partition, batches of the second session could be acknowledged as duplicates without being
    appended. So only one session may write to a partition, and only one attempt of each task may
    write: the attempt whose InitProducerId for `claim_id` returns epoch 0.
    """

    producer: TransactionalProducer
    claim_id: str
    """A transactional id that is shared only by the attempts of one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Settings of a session's transaction."""

    transactional_id: str
    """An id that has not been used, unless `shared` is set."""
    timeout_ms: int
    """transaction.timeout.ms: the coordinator aborts a transaction that is open for longer."""
    two_phase: bool = False
    """True for a transaction without a timeout (KIP-939), which brokers must allow."""
    shared: SharedTransaction | None = None
    """The transaction to write to, if a driver has begun it."""
    abort_flag: str | None = None
    """A transactional id that the driver creates before it lists the transactions to abort. A task
    that finds this id after InitProducerId does not start a transaction.
    """
    id_prefix: str | None = None
    """Common prefix of all attempts' transactional ids, for the ACL in error messages."""

    @property
    def first_id(self) -> str:
        """The transactional id of the first InitProducerId, sent before any record."""
        return self.transactional_id if self.shared is None else self.shared.claim_id

    @property
    def acl(self) -> Acl:
        """The ACL that the producer needs for the transactional id."""
        kind, prefix = ResourceType.TRANSACTIONAL_ID, self.id_prefix
        return Acl(AclOperation.WRITE, kind, prefix or self.transactional_id, prefixed=bool(prefix))
