"""Settings, states, timeout and errors of a session's transaction.

The producer checks transaction.timeout.ms from its first request that may begin the transaction.
The coordinator's timeout starts later, with the first added partition, so the producer detects it
at most one round trip early.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.protocol.error_codes import AUTHORIZATION_FAILED, ErrorCode, error_name
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.client.request import Completion
    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.producer.acl import AclAdvisor
    from spark_kafka_sink.protocol.transactions import OpenTransaction


FIRST_EPOCH = 0
"""The epoch that InitProducerId grants to the first request for a transactional id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTransaction:
    """A transaction that a driver has begun and that several sessions write to.

    Leaders identify a producer only by its id and epoch. If two sessions wrote to the same
    partition, batches of the second session could be acknowledged as duplicates without being
    appended. So only one session may write to a partition, and only one attempt of each task may
    write: the attempt whose InitProducerId for `claim_id` returns epoch 0.
    """

    producer: OpenTransaction
    claim_id: str
    """A transactional id that is shared only by the attempts of one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Settings of a session's transaction. Its id must not have been used, unless `joined` is set.

    `timeout_ms` is transaction.timeout.ms: the coordinator aborts a transaction that is open for
    longer. With `two_phase`, the transaction has no timeout (KIP-939); brokers must allow this.
    """

    transactional_id: str
    timeout_ms: int
    two_phase: bool = False
    joined: JoinedTransaction | None = None
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
        return self.transactional_id if self.joined is None else self.joined.claim_id


class TransactionState(Enum):
    """The state of the transaction as known to this producer."""

    UNINITIALIZED = auto()
    """There is no producer id, and no request for a producer id is in flight."""
    INITIALIZING = auto()
    """InitProducerId is in flight."""
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


_STATE = TransactionState
_TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    _STATE.UNINITIALIZED: frozenset(
        {_STATE.INITIALIZING, _STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}
    ),
    _STATE.INITIALIZING: frozenset(
        {_STATE.READY, _STATE.UNINITIALIZED, _STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}
    ),
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


def next_state(before: TransactionState, after: TransactionState) -> TransactionState:
    """Return `after`; raise AssertionError if the transition is not in the table."""
    if after not in _TRANSITIONS[before]:
        raise AssertionError(f"a transaction cannot change from {before} to {after}")
    return after


_FENCED = "a newer producer uses the transactional id, or the coordinator has ended the transaction"
_MESSAGES: Mapping[int, str] = {
    ErrorCode.producer_fenced: _FENCED,
    ErrorCode.invalid_producer_epoch: _FENCED,
    ErrorCode.invalid_producer_id_mapping: "the coordinator has a different producer id for the "
    "transactional id, or no longer has one",
    ErrorCode.invalid_txn_state: "the transaction is no longer open",
    ErrorCode.transaction_abortable: "the transaction must be aborted",
    ErrorCode.unsupported_version: "the broker does not support the requested transaction",
}
_RUN_AGAIN = "run the write again: read_committed consumers never see records of this transaction"
_SHARED_PARTITION = (
    "another task of the batch also writes to this partition, but with atomicBatch=true each "
    "partition belongs to one task: write spark_kafka_sink.repartition_by_kafka_partition(df, "
    "options)"
)
_UNEXPECTED_SEQUENCE = error_name(ErrorCode.out_of_order_sequence_number)
_HINTS: Mapping[int, str] = {
    ErrorCode.invalid_transaction_timeout: "set transaction.timeout.ms to at most the brokers' "
    "transaction.max.timeout.ms (15 minutes by default), or "
    "raise that setting on every broker",
    ErrorCode.unsupported_version: "exactly-once needs Apache Kafka 2.1 or later, or a compatible "
    "broker",
}


def coordinator_error(
    completion: Completion,
    code: int,
    transactional_id: str,
    acls: AclAdvisor,
    settings: TransactionSettings | None = None,
) -> DeliveryError:
    """Return the error for a permanently rejected coordinator request or lookup."""
    broker, api = str(completion.node), completion.request.api
    if code in AUTHORIZATION_FAILED:
        two_phase = settings is not None and settings.two_phase
        return acls.transaction_denied(code, broker, two_phase=two_phase)
    problem = _MESSAGES.get(code, f"the broker rejected {ApiKey(api).name}")
    if code == ErrorCode.invalid_transaction_timeout and settings is not None:
        problem = (
            f"transaction.timeout.ms = {settings.timeout_ms} exceeds the brokers' "
            f"transaction.max.timeout.ms"
        )
    return DeliveryError(
        f"transactional id {transactional_id}: {problem}",
        broker=broker,
        error=error_name(code),
        hint=_HINTS.get(code, _RUN_AGAIN),
    )


def second_attempt_error(claim_id: str) -> DeliveryError:
    """Return the error for a second attempt of a task, which atomicBatch=true does not allow."""
    return DeliveryError(
        f"{claim_id}: this task ran a second time, which atomicBatch=true does not allow, or "
        "the response to its claim was lost; no record of the batch becomes visible",
        hint="restart the stream, which continues from its checkpoint, or run the batch job again. "
        "Spark's UI and the driver's log show why a first attempt failed. If tasks are often "
        "retried, remove atomicBatch",
    )


def timed_out_error(settings: TransactionSettings) -> DeliveryError:
    """Return the error for a transaction that was open for longer than its timeout."""
    return DeliveryError(
        f"the transaction of {settings.transactional_id} has been open for transaction.timeout.ms "
        f"= {settings.timeout_ms}: the coordinator has aborted it",
        error=error_name(ErrorCode.invalid_txn_state),
        hint="make the tasks shorter (more partitions of the DataFrame, smaller micro-batches), "
        "or raise transaction.timeout.ms and, on the brokers, transaction.max.timeout.ms",
    )


def cancelled_error(transactional_id: str) -> DeliveryError:
    """Return the error for a transaction that is aborted because its task was cancelled."""
    return DeliveryError(
        f"the transaction of {transactional_id} was aborted because its task was cancelled",
        hint=_RUN_AGAIN,
    )


def aborted_write_error(transactional_id: str) -> DeliveryError:
    """Return the error for a write that the driver aborted before the transaction began."""
    return DeliveryError(
        f"{transactional_id}: the driver aborted this write before the task began",
        hint="the write was cancelled, the query was stopped, or another task failed first",
    )


def mark_uncommittable(error: KafkaProdError, settings: TransactionSettings) -> None:
    """Add to an error's message that the transaction cannot be committed."""
    error.message = (
        f"{error.message}; the transaction of {settings.transactional_id} cannot be committed; "
        "read_committed consumers never see its records"
    )
    if error.error == _UNEXPECTED_SEQUENCE:
        error.hint = _RUN_AGAIN if settings.joined is None else _SHARED_PARTITION
