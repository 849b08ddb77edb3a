"""States, timeout and errors of a session's transaction.

transaction.timeout.ms as the producer sees it: how long its transaction has been open.

The coordinator counts from the first partition that is added; that request was sent before, so
what is over here is at most a round trip from being over there.
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
    from spark_kafka_sink.producer.transactions.settings import TransactionSettings


class TransactionState(Enum):
    """Where the transaction stands, as this producer knows it."""

    UNINITIALIZED = auto()
    """There is no producer id, and none was asked for since the last refusal."""
    INITIALIZING = auto()
    """InitProducerId is in flight."""
    READY = auto()
    """There is a producer id, and the transaction has not begun."""
    IN_TRANSACTION = auto()
    """A partition is being added, or records were sent: the coordinator may have begun it."""
    ABORTABLE_ERROR = auto()
    """It must not be committed any more."""
    FATAL_ERROR = auto()
    """The coordinator refuses this producer, to abort as well."""
    ABORTING = auto()
    """Its end is asked for, until the coordinator has answered."""
    ABORTED = auto()
    """It has ended, or there was nothing to end."""


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
"""Nothing more is written in it, and it is never committed."""
ENDED = frozenset({_STATE.FATAL_ERROR, _STATE.ABORTED})
"""There is nothing left to be done about it."""


def next_state(before: TransactionState, after: TransactionState) -> TransactionState:
    """The state `after`; what is not in the table is a bug."""
    if after not in _TRANSITIONS[before]:
        raise AssertionError(f"a transaction cannot go from {before} to {after}")
    return after


class Elapsed(Enum):
    """What has just come to pass."""

    NOTHING = auto()
    HALF = auto()
    """Half of the timeout has passed; said once."""
    ALL = auto()
    """The coordinator aborts the transaction."""


@dataclass(slots=True)
class TransactionTimer:
    """`timeout` in seconds, None for none; `started` in seconds of the monotonic clock."""

    timeout: float | None
    started: float | None = None
    warned: bool = False

    def start(self, now: float) -> None:
        """The first request has gone that may begin the transaction."""
        if self.started is None:
            self.started = now

    def check(self, now: float) -> Elapsed:
        """What has come to pass since the last call."""
        if self.started is None or self.timeout is None:
            return Elapsed.NOTHING
        age = now - self.started
        if age >= self.timeout:
            return Elapsed.ALL
        if age >= self.timeout / 2 and not self.warned:
            self.warned = True
            return Elapsed.HALF
        return Elapsed.NOTHING


_FENCED = (
    "a later producer has taken the transactional id, or the coordinator has ended the transaction"
)
_MESSAGES: Mapping[int, str] = {
    ErrorCode.producer_fenced: _FENCED,
    ErrorCode.invalid_producer_epoch: _FENCED,
    ErrorCode.invalid_producer_id_mapping: "the coordinator knows another producer id by the "
    "transactional id, or none any more",
    ErrorCode.invalid_txn_state: "the transaction is not open any more",
    ErrorCode.transaction_abortable: "the coordinator has this transaction aborted",
    ErrorCode.unsupported_version: "the broker does not serve transactions as they are asked for",
}
_AGAIN = "run the write again: nothing of this transaction will be seen by read_committed readers"
_TWO_OWNERS = (
    "another task of the batch writes to this partition, too: with atomicBatch=true each partition "
    "belongs to one task; write spark_kafka_sink.repartition_by_kafka_partition(df, options)"
)
_UNEXPECTED_SEQUENCE = error_name(ErrorCode.out_of_order_sequence_number)
_HINTS: Mapping[int, str] = {
    ErrorCode.invalid_transaction_timeout: "set transaction.timeout.ms to no more than the "
    "brokers' transaction.max.timeout.ms (15 minutes by default), or raise that on every broker",
    ErrorCode.unsupported_version: "exactly-once needs Apache Kafka 2.1 or later, or what is "
    "compatible with it",
}


def coordinator_error(
    completion: Completion,
    code: int,
    transactional_id: str,
    acls: AclAdvisor,
    settings: TransactionSettings | None = None,
) -> DeliveryError:
    """A coordinator, or who was asked for it, refuses a request for good."""
    broker, api = str(completion.node), completion.request.api
    if code in AUTHORIZATION_FAILED:
        two_phase = settings is not None and settings.two_phase
        return acls.transaction_denied(code, broker, two_phase=two_phase)
    said = _MESSAGES.get(code, f"the broker refused {ApiKey(api).name}")
    if code == ErrorCode.invalid_transaction_timeout and settings is not None:
        said = (
            f"transaction.timeout.ms = {settings.timeout_ms} is more than the "
            "transaction.max.timeout.ms of the brokers"
        )
    return DeliveryError(
        f"transactional id {transactional_id}: {said}",
        broker=broker,
        error=error_name(code),
        hint=_HINTS.get(code, _AGAIN),
    )


def second_attempt_error(claim_id: str) -> DeliveryError:
    """A task of a batch in one transaction was run before, and may have written there."""
    return DeliveryError(
        f"{claim_id}: this task was run a second time, which atomicBatch=true does not allow, or "
        "the answer to its claim was lost; nothing of the batch becomes visible",
        hint="start the stream again, which goes on from its checkpoint, or run the batch job "
        "again. What ended a first attempt is another error, which Spark's UI and the driver's "
        "log have. Where tasks are often run again, leave atomicBatch out",
    )


def timed_out_error(settings: TransactionSettings) -> DeliveryError:
    """The transaction has been open for longer than the coordinator leaves it open."""
    return DeliveryError(
        f"the transaction of {settings.transactional_id} has been open for transaction.timeout.ms "
        f"= {settings.timeout_ms}: the coordinator has aborted it",
        error=error_name(ErrorCode.invalid_txn_state),
        hint="make the tasks shorter (more partitions of the DataFrame, smaller micro-batches), or "
        "raise transaction.timeout.ms, and transaction.max.timeout.ms on the brokers with it",
    )


def given_up_error(transactional_id: str) -> DeliveryError:
    """The task has failed elsewhere, and its transaction is aborted."""
    return DeliveryError(
        f"the transaction of {transactional_id} is aborted, as its task was given up", hint=_AGAIN
    )


def aborted_write_error(transactional_id: str) -> DeliveryError:
    """The driver has aborted the write before this task began its transaction."""
    return DeliveryError(
        f"{transactional_id}: the driver has aborted this write, and the task began too late to be "
        "part of it",
        hint="the write was cancelled, the query was stopped, or another task failed first",
    )


def poison(error: KafkaProdError, settings: TransactionSettings) -> None:
    """Have a failure say what it means for the transaction that it happened in."""
    error.message = (
        f"{error.message}; the transaction of {settings.transactional_id} can't be committed any "
        "more, and nothing of it will be seen by read_committed readers"
    )
    if error.error == _UNEXPECTED_SEQUENCE:
        error.hint = _AGAIN if settings.joined is None else _TWO_OWNERS
