"""What to do about a transaction coordinator's answer: one pure decision.

    NONE                                            DONE
    load in progress, concurrent transactions,
      request timed out                             RETRY
    not available, not coordinator, disconnected    FIND_COORDINATOR, then retry
    unknown topic or partition, not attempted       RETRY (AddPartitionsToTxn)
    topic authorization failed                      DENIED (AddPartitionsToTxn)
    TRANSACTION_ABORTABLE                           ABORT
    any other                                       FAIL

Source: Kafka's ``TransactionManager`` (``InitProducerIdHandler``, ``AddPartitionsToTxnHandler``,
``EndTxnHandler``, ``FindCoordinatorHandler``), KIP-890.
"""

from __future__ import annotations

from enum import Enum, auto

from spark_kafka_sink.protocol.error_codes import ClientErrorCode, ErrorCode
from spark_kafka_sink.protocol.versions import ApiKey


class CoordinatorAction(Enum):
    """The one next step."""

    DONE = auto()
    RETRY = auto()
    """Ask the same coordinator again, after a back-off."""
    FIND_COORDINATOR = auto()
    """Ask who the coordinator is, then it."""
    DENIED = auto()
    """This client may not write to the partition's topic."""
    ABORT = auto()
    """The transaction must be aborted, which the coordinator will do."""
    FAIL = auto()
    """The coordinator refuses this producer."""


_RETRIED = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
        ErrorCode.request_timed_out,
    }
)
_MOVED = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.network_exception,
        *ClientErrorCode,
    }
)
_OF_PARTITION = {
    ErrorCode.unknown_topic_or_partition: CoordinatorAction.RETRY,
    ErrorCode.operation_not_attempted: CoordinatorAction.RETRY,
    ErrorCode.topic_authorization_failed: CoordinatorAction.DENIED,
}


def decide(api: ApiKey, code: int) -> CoordinatorAction:
    """The next step after an answer with `code` (or a code of our own) to a request of `api`."""
    if code == ErrorCode.none:
        return CoordinatorAction.DONE
    if code in _RETRIED:
        return CoordinatorAction.RETRY
    if code in _MOVED:
        return CoordinatorAction.FIND_COORDINATOR
    if api is ApiKey.ADD_PARTITIONS_TO_TXN and code in _OF_PARTITION:
        return _OF_PARTITION[ErrorCode(code)]
    if code == ErrorCode.transaction_abortable:
        return CoordinatorAction.ABORT
    return CoordinatorAction.FAIL
