"""Determine the next step after the response to a batch.

`next_step` has no side effects. The first row that fits determines the action; FAIL if none does:

    code                          action             if
    NONE                          COMPLETE
    DUPLICATE_SEQUENCE_NUMBER     COMPLETE           idempotent
    RECORDS_TOO_LARGE             SPLIT              several records
    FENCED                        BUMP_AND_RETRY     own epoch, not persisted
    FATAL_TO_PRODUCER             FATAL
    INVALID_METADATA              REFRESH_AND_RETRY
    RETRIABLE_AT_LEADER           RETRY
    OUT_OF_ORDER_SEQUENCE_NUMBER  RETRY              idempotent, not head
    CONCURRENT_TRANSACTIONS       RETRY              idempotent, transaction
    UNKNOWN_PRODUCER_ID           BUMP_AND_RETRY     idempotent, no transaction, not persisted

The conditions are those of `RejectionFacts`: "own epoch" is `has_client_bumped_epoch`, "not
persisted" is not `is_possibly_persisted`. In a transaction, the epoch cannot be bumped, and after
FAIL the transaction must be aborted. An expired batch (delivery.timeout.ms) is neither retried nor
split, and if `retries` is used up, a batch is retried only after FENCED; otherwise it fails. With
enable.gapless.guarantee, FAIL becomes FATAL unless an expired batch has an error that is otherwise
retried or split. The groups of error codes are in `kafka/protocol/error_codes.py`.

Source: Kafka's ``Sender.completeBatch`` and ``TransactionManager``, librdkafka's introduction,
KIP-360, KIP-467, KIP-890, KIP-951.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode


class BatchAction(Enum):
    """The next step for a batch."""

    COMPLETE = auto()
    RETRY = auto()
    REFRESH_AND_RETRY = auto()
    """Retry after a metadata refresh."""
    BUMP_AND_RETRY = auto()
    """Retry in a new producer epoch (KIP-360)."""
    SPLIT = auto()
    """Send the records again in smaller batches."""
    FAIL = auto()
    FATAL = auto()
    """Fail, without dead letters for rejected records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectionFacts:
    """The facts that determine the next step, besides the error code."""

    is_idempotent: bool
    """The producer is idempotent."""
    is_head: bool
    """No earlier batch of the partition is incomplete or has left a gap."""
    records: int
    """Number of records in the batch."""
    is_possibly_persisted: bool
    """An earlier attempt got no conclusive response, so the log may contain the batch, which may be
    retried only with its original sequences: the broker detects a duplicate.
    """
    is_expired: bool
    """delivery.timeout.ms has passed."""
    has_attempts_left: bool
    """`retries` is not used up."""
    is_gapless: bool = False
    """enable.gapless.guarantee is true, which stops the producer after a permanently failed batch
    unless the batch expired.
    """
    is_transactional: bool = False
    """The records are part of a transaction, so the epoch cannot be bumped."""
    has_client_bumped_epoch: bool = False
    """The producer has incremented the batch's epoch without InitProducerId."""


@dataclass(frozen=True, slots=True)
class BatchStep:
    """An action, and the delivery status of the records if the action completes them."""

    action: BatchAction
    status: DeliveryStatus = DeliveryStatus.NOT_PERSISTED


def next_step(code: int, facts: RejectionFacts) -> BatchStep:
    """Return the next step for a batch with this result: a Kafka error or a `ClientErrorCode`."""
    if code == ErrorCode.none or (
        code == ErrorCode.duplicate_sequence_number and facts.is_idempotent
    ):
        return BatchStep(BatchAction.COMPLETE, DeliveryStatus.PERSISTED)
    if (
        code in error_codes.FENCED
        and facts.has_client_bumped_epoch
        and not (facts.is_possibly_persisted or facts.is_expired)
    ):
        # The broker knows only epochs that it has returned.
        return BatchStep(BatchAction.BUMP_AND_RETRY)
    if code in error_codes.FATAL_TO_PRODUCER:
        return BatchStep(BatchAction.FATAL, _status_after_failure(code, facts))
    action = _retry_action(code, facts)
    # A split does not count as a retry.
    is_allowed = facts.records > 1 if action is BatchAction.SPLIT else facts.has_attempts_left
    if action is not None and is_allowed and not facts.is_expired:
        return BatchStep(action)
    is_timeout = action is not None and facts.is_expired
    failure = BatchAction.FATAL if facts.is_gapless and not is_timeout else BatchAction.FAIL
    return BatchStep(failure, _status_after_failure(code, facts))


def _retry_action(code: int, facts: RejectionFacts) -> BatchAction | None:
    if code in error_codes.RECORDS_TOO_LARGE:
        # The log may contain the batch. With idempotence, its pieces keep its sequence numbers: a
        # broker that has appended the whole batch rejects the first piece as out of order.
        return BatchAction.SPLIT
    if code in error_codes.INVALID_METADATA:
        return BatchAction.REFRESH_AND_RETRY
    if code in error_codes.RETRIABLE_AT_LEADER:
        return BatchAction.RETRY
    if not facts.is_idempotent:
        return None
    if code == ErrorCode.out_of_order_sequence_number and not facts.is_head:
        return BatchAction.RETRY
    if facts.is_transactional:
        return BatchAction.RETRY if code == ErrorCode.concurrent_transactions else None
    if code == ErrorCode.unknown_producer_id and not facts.is_possibly_persisted:
        return BatchAction.BUMP_AND_RETRY
    return None


def may_be_persisted_after(code: int) -> bool:
    """Return True if the log may contain the records although the broker did not report success."""
    return code in error_codes.MAYBE_APPENDED or not error_codes.is_known(code)


def _status_after_failure(code: int, facts: RejectionFacts) -> DeliveryStatus:
    if facts.is_possibly_persisted or may_be_persisted_after(code):
        return DeliveryStatus.POSSIBLY_PERSISTED
    return DeliveryStatus.NOT_PERSISTED
