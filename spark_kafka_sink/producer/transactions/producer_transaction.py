"""Settings, states and errors of a session's transaction."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.security.acl_commands import Acl

if TYPE_CHECKING:
    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer


FIRST_EPOCH = 0
"""The epoch that InitProducerId grants to the first request for a transactional id."""

RUN_AGAIN = "Run the write again: read_committed consumers never see records of this transaction."
_SHARED_PARTITION = (
    "Another task of the batch also writes to this partition, but with atomicBatch=true each "
    "partition belongs to one task: write spark_kafka_sink.repartition_by_kafka_partition(df, "
    "options)."
)
_UNEXPECTED_SEQUENCE = error_name(ErrorCode.out_of_order_sequence_number)


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


def second_attempt_error(claim_id: str) -> DeliveryError:
    """Return the error for a second attempt of a task, which atomicBatch=true does not allow."""
    return DeliveryError(
        f"{claim_id}: this task ran a second time, which atomicBatch=true does not allow, or "
        "the response to its claim was lost; no record of the batch becomes visible",
        hint="Restart the stream, which continues from its checkpoint, or run the batch job again. "
        "Spark's UI and the driver's log show why a first attempt failed. If tasks are often "
        "retried, remove atomicBatch.",
    )


def cancelled_error(transactional_id: str) -> DeliveryError:
    """Return the error for a transaction that is aborted because its task was cancelled."""
    return DeliveryError(
        f"the transaction of {transactional_id} was aborted because its task was cancelled",
        hint=RUN_AGAIN,
    )


def aborted_write_error(transactional_id: str) -> DeliveryError:
    """Return the error for a write that the driver aborted before the transaction began."""
    return DeliveryError(
        f"{transactional_id}: the driver aborted this write before the task began",
        hint="The write was cancelled, the query was stopped, or another task failed first.",
    )


def mark_uncommittable(error: KafkaProdError, settings: TransactionSettings) -> None:
    """Add to an error's message that the transaction cannot be committed."""
    error.message = (
        f"{error.message}; the transaction of {settings.transactional_id} cannot be committed; "
        "read_committed consumers never see its records"
    )
    if error.kafka_error == _UNEXPECTED_SEQUENCE:
        error.hint = RUN_AGAIN if settings.shared is None else _SHARED_PARTITION
